//! One WebSocket's life, whatever protocol it speaks. What its messages mean is said by a [`Protocol`].
//!
//! | it is | until | then |
//! |---|---|---|
//! | unknown | it says who it is, within 10 s | known; otherwise closed, `Unauthorized` |
//! | known | its token ends, unless a newer one has come | closed, `Unauthorized` |
//! | idle | a message comes | the protocol handles it, and may make the socket busy |
//! | idle | its outbox is full | busy: it goes on from the log |
//! | busy with one task | the task is done | idle; one message may have waited, and is handled first |
//! | quiet | 10 s after the last ping, or sooner for what it holds | pinged |
//! | pinged | the pong to that very ping | quiet; without it for 20 s closed, `NoPong` |
//! | staying | the server drains | leaving: it says goodbye and goes on for a random while, so that not all clients come back at once |
//! | leaving | that while is over | closed, `Draining` |
//!
//! Who it is, what it does, whether it answers and whether it stays are four things apart: `Socket::step` waits for
//! whatever comes next in any of them. At the end (`Socket::run`) a command that was begun is finished, all rooms
//! are left, the close frame is written, and what the client still sends before it answers that is read and thrown away
//! for a moment: to leave while it sends would reset the connection, and the close code would never arrive.
//!
//! Most of the time a socket waits. Whatever it does besides is boxed, so that no memory is kept for it meanwhile. However
//! long that takes, pings, urgent messages, the end of a token and of the server do not wait for it.

mod decoder;
pub mod frame;
mod holdings;
mod reader;
mod session;

use std::{pin::Pin, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{net::TcpStream, sync::watch, time::Sleep};

use super::{Close, End, Live, Outbox, Place, TooMany, Wire, upgrade::Upgrade};
use crate::{calls::Code, locking::Timestamp};
use decoder::{Broken, Incoming};
pub use holdings::{Effect, HoldingNews};
use reader::Reader;
use session::Happening;
pub use session::{Answered, Session, Step};

/// The largest message a client may send.
pub const MAX_MESSAGE: usize = 16 * 1024;
pub const PING_MS: i64 = 10_000;
const PONG_MS: i64 = 20_000;
/// How many frames a second a client may send before it has said who it is.
const FRAMES_OF_STRANGERS: u32 = 20;
/// How long a closed socket is still read.
const LINGER: Duration = Duration::from_secs(2);

/// What is particular to a protocol spoken over a WebSocket. Everything else is the same for all of them.
pub trait Protocol: 'static {
    /// A client's message, parsed.
    type Message;

    /// How notices are written.
    const WIRE: &'static Wire;

    /// The code of a close frame.
    fn close_code(close: Close) -> u16;

    /// The socket is open: says whatever comes first, and who the client is if that is known.
    fn opened(&mut self, session: &mut Session) -> Step;

    /// Parses a text message; one that fails closes the socket.
    fn parse(text: &str) -> Result<Self::Message, &'static str>;

    /// Whether a message is handled at once, although the socket is busy.
    fn is_urgent(message: &Self::Message) -> bool;

    fn handle(&mut self, message: Self::Message, session: &mut Session) -> Step;

    /// What the client is told of what its socket holds; nothing in a protocol that holds nothing.
    fn holds(&self, news: &HoldingNews, session: &Session) -> Option<Bytes>;

    /// The server stops: tells the client to come back after this time.
    fn goodbye(reconnect_after_ms: u64) -> Option<Bytes>;
}

/// The socket of a protocol, for the connection of a request that has been agreed to. `recovers`: whether it reads on
/// from the log when its outbox is full, rather than be closed.
pub fn upgrade<P: Protocol>(
    protocol: P,
    live: Arc<Live>,
    place: Place,
    fits: Result<(), TooMany>,
    recovers: bool,
) -> Upgrade {
    Upgrade::new(move |connection, answer, received| {
        // A notice must not wait for the one before to be acknowledged.
        if let Err(error) = connection.set_nodelay(true) {
            tracing::debug!(%error, "small messages may be late");
        }
        let socket = Socket::new(protocol, live, place, connection, received, recovers);
        // It has just been made: it is open.
        let _ = socket.outbox.push_page(Bytes::copy_from_slice(answer));
        tokio::task::spawn_local(socket.run(fits));
    })
}

struct Socket<P: Protocol> {
    protocol: P,
    session: Session,
    outbox: Arc<Outbox>,
    reader: Reader,
    ping: Ping,
    pace: Pace,
    /// Came while the socket was busy. Nothing more is read until it is its turn.
    waiting: Option<Box<P::Message>>,
    alarm: Option<Alarm>,
    drain: watch::Receiver<Option<Duration>>,
    /// When it leaves, once the server drains.
    leaves: Option<Pin<Box<Sleep>>>,
}

/// For what is due next. Kept while that stays the same: to set one costs more than most messages.
struct Alarm {
    at: Timestamp,
    rings: Pin<Box<dyn Future<Output = ()>>>,
}

/// How many frames the client has sent in the second that began then.
#[derive(Debug)]
struct Pace {
    since: Timestamp,
    frames: u64,
}

/// The number of the last ping, and whether its pong is outstanding.
#[derive(Debug)]
struct Ping {
    number: u64,
    is_outstanding: bool,
    sent_at: Timestamp,
}

impl Ping {
    /// When the next ping, or the pong to this one, is due.
    fn due_at(&self, every_ms: i64) -> Timestamp {
        self.sent_at.plus_millis(if self.is_outstanding { PONG_MS } else { every_ms })
    }

    /// The ping after this one.
    fn next(&self, now: Timestamp) -> Self {
        Self { number: self.number + 1, is_outstanding: true, sent_at: now }
    }
}

impl<P: Protocol> Socket<P> {
    fn new(protocol: P, live: Arc<Live>, place: Place, connection: TcpStream, received: &[u8], recovers: bool) -> Self {
        let connection = Arc::new(connection);
        let too_slow = frame::close(P::close_code(Close::TooSlow), "too slow");
        let outbox = Outbox::writing(Arc::clone(&connection), too_slow, recovers);
        Self {
            protocol,
            ping: Ping { number: 0, is_outstanding: false, sent_at: live.clock.now() },
            pace: Pace { since: live.clock.now(), frames: 0 },
            drain: live.drains(),
            session: Session::new(live, Arc::clone(&outbox), P::WIRE, place),
            outbox,
            reader: Reader::new(connection, received),
            waiting: None,
            alarm: None,
            leaves: None,
        }
    }

    async fn run(mut self, fits: Result<(), TooMany>) {
        let end = match fits {
            Ok(()) => self.steps().await,
            Err(TooMany) => End::Close(Close::TooMany, "too many sockets from this address"),
        };
        self.session.wind_up(end).await;
        if let End::Close(close, reason) = end {
            self.outbox.close(frame::close(P::close_code(close), reason));
        }
        // A client that has said goodbye waits for the server to end the connection, and sends nothing more.
        if !matches!(end, End::Close(Close::Normal, _)) {
            // A client that has gone away is not waited for: its side of the connection is at its end.
            let _ = tokio::time::timeout(LINGER, self.reader.discard()).await;
        }
        self.outbox.end();
    }

    async fn steps(&mut self) -> End {
        if let Err(end) = self.protocol.opened(&mut self.session) {
            return end;
        }
        loop {
            if let Err(end) = self.step().await {
                return end;
            }
        }
    }

    /// Waits for whatever comes next, and does it.
    async fn step(&mut self) -> Step {
        self.set_alarm();
        let is_busy = self.session.task.is_some();
        let next_ping = self.ping.number + 1;
        tokio::select! {
            incoming = self.reader.next(), if self.waiting.is_none() => match incoming {
                Some(Ok(incoming)) => {
                    self.check_pace()?;
                    self.incoming(incoming)
                }
                Some(Err(Broken::TooBig)) => Err(End::Close(Close::TooBig, "at most 16 KiB")),
                Some(Err(Broken::Bad(reason))) => Err(End::Close(Close::BadFrame, reason)),
                None => Err(End::Gone),
            },
            happening = self.session.happens(next_ping) => match happening {
                Happening::Done(done) => {
                    self.session.take(done)?;
                    self.waiting.take().map_or(Ok(()), |message| self.protocol.handle(*message, &mut self.session))
                }
                Happening::News(news) => self.told(&news),
            },
            // A task finds out by itself.
            () = self.outbox.stopped(), if !is_busy => self.session.catch_up(),
            () = rings(self.alarm.as_mut()) => {
                self.alarm = None;
                self.due()
            }
            window = drained(&mut self.drain), if self.leaves.is_none() => {
                self.leaves = Some(Box::pin(tokio::time::sleep(random_part(window))));
                // Alone, it cannot answer again before it has stopped.
                let until_stopped = if self.session.live.is_alone { window } else { Duration::ZERO };
                let away = u64::try_from((until_stopped + random_part(window)).as_millis()).unwrap_or_default();
                P::goodbye(away).map_or(Ok(()), |goodbye| self.session.say(goodbye))
            }
            () = left(self.leaves.as_mut()) => Err(End::Close(Close::Draining, "the server is stopping")),
        }
    }

    /// Ends a socket whose client sends more frames a second than it may; fewer before it has said who it is.
    fn check_pace(&mut self) -> Step {
        let limit = match (self.session.live.frames_per_second, self.session.caller()) {
            (0, _) => return Ok(()),
            (limit, Some(_)) => limit,
            (limit, None) => limit.min(FRAMES_OF_STRANGERS),
        };
        let now = self.session.now();
        if now.millis_since(self.pace.since) >= 1000 {
            self.pace = Pace { since: now, frames: self.reader.frames };
        }
        if self.reader.frames - self.pace.frames > u64::from(limit) {
            return Err(End::Close(Close::TooMany, "too many frames a second"));
        }
        Ok(())
    }

    /// Tells the client what its socket holds. With a grant goes a ping, whose answer claims it.
    fn told(&mut self, news: &HoldingNews) -> Step {
        if let Some(message) = self.protocol.holds(news, &self.session) {
            self.session.say(message)?;
        }
        if let HoldingNews::Granted(_) = news {
            return self.send_ping();
        }
        Ok(())
    }

    fn send_ping(&mut self) -> Step {
        self.ping = self.ping.next(self.session.now());
        self.session.say(frame::ping(&self.ping.number.to_be_bytes()))
    }

    /// How often this socket is pinged.
    fn ping_ms(&self) -> i64 {
        let held = self.session.holdings.as_ref().and_then(|holdings| holdings.ping_ms());
        held.map_or(PING_MS, |held| held.min(PING_MS))
    }

    fn set_alarm(&mut self) {
        let due_at = self.session.known_until.min(self.ping.due_at(self.ping_ms()));
        if self.alarm.as_ref().is_none_or(|alarm| alarm.at != due_at) {
            let clock = self.session.live.clock.clone();
            self.alarm = Some(Alarm { at: due_at, rings: Box::pin(async move { clock.sleep_until(due_at).await }) });
        }
    }

    fn due(&mut self) -> Step {
        let now = self.session.now();
        if now >= self.session.known_until {
            let code = if self.session.caller().is_some() { Code::TokenExpired } else { Code::TokenMissing };
            return Err(End::Close(Close::Unauthorized, code.name()));
        }
        if now < self.ping.due_at(self.ping_ms()) {
            return Ok(());
        }
        if self.ping.is_outstanding {
            if self.waiting.is_none() {
                return Err(End::Close(Close::NoPong, "no pong"));
            }
            // The pong may be behind the message that waits for its turn.
            self.ping.sent_at = now;
            return Ok(());
        }
        self.send_ping()
    }

    fn incoming(&mut self, incoming: Incoming) -> Step {
        match incoming {
            Incoming::Ping(payload) => self.session.say(frame::pong(&payload)),
            Incoming::Pong(payload) => {
                if self.ping.is_outstanding && payload[..] == self.ping.number.to_be_bytes() {
                    self.ping.is_outstanding = false;
                    if let Some(holdings) = &self.session.holdings {
                        holdings.answered_ping(self.ping.number);
                    }
                }
                Ok(())
            }
            Incoming::Close => Err(End::Close(Close::Normal, "")),
            Incoming::Text(text) => {
                let message = P::parse(&text).map_err(|reason| End::Close(Close::BadFrame, reason))?;
                if self.session.task.is_some() && !P::is_urgent(&message) {
                    self.waiting = Some(Box::new(message));
                    return Ok(());
                }
                self.protocol.handle(message, &mut self.session)
            }
        }
    }
}

/// Resolves when the server drains, with the time it takes for that.
async fn drained(drain: &mut watch::Receiver<Option<Duration>>) -> Duration {
    match drain.wait_for(Option::is_some).await.map(|window| *window) {
        Ok(Some(window)) => window,
        Ok(None) | Err(_) => std::future::pending().await,
    }
}

async fn rings(alarm: Option<&mut Alarm>) {
    match alarm {
        Some(alarm) => alarm.rings.as_mut().await,
        None => std::future::pending().await,
    }
}

async fn left(leaves: Option<&mut Pin<Box<Sleep>>>) {
    match leaves {
        Some(leaves) => leaves.await,
        None => std::future::pending().await,
    }
}

/// Between nothing and nine tenths: the last ones need a moment to go.
fn random_part(window: Duration) -> Duration {
    window.mul_f64(f64::from(getrandom::u32().unwrap_or_default()) / f64::from(u32::MAX) * 0.9)
}
