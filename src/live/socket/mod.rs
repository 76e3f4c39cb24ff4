//! One socket's life.
//!
//! 1. Within 10 s it says who it is, unless the handshake has; then it is welcomed.
//! 2. It asks, and is answered in order: one thing at a time is done ([`Task`]), and one more may wait. It is pinged every
//!    10 s; only the pong to the outstanding ping counts, and none within 20 s is the end.
//! 3. When its token ends so does the socket, unless an `auth` message has brought a new one.
//! 4. While the server drains it goes on for a random while, so that not all clients come back at once.
//! 5. At the end its close code is written, and what it still sends before it answers that is read and thrown away for
//!    a moment.
//!
//! Most of the time it waits. Whatever it does besides is boxed, so that no memory is kept for it meanwhile. However long
//! that takes, pings, new tokens, the end of a token and of the server do not wait for it.

mod decoder;
pub mod frame;
mod reader;
mod rooms;
mod task;

use std::{collections::HashMap, pin::Pin, sync::Arc, time::Duration};

use actix_web::web;
use serde::Deserialize;
use tokio::{
    sync::{Semaphore, watch},
    time::Sleep,
};

use super::{
    Place,
    admission::TooMany,
    messages::{self as frames, Asked, Id, Time},
    subscribe::Member,
};
use crate::ws::commands;
use decoder::{Broken, Incoming};
use frame as wire;
pub use frame::Close;
pub use reader::Reader;
use task::{Done, End, Step, Task};

/// The subprotocol.
pub const PROTOCOL: &str = "doclock.v1";
/// The largest message a client may send.
pub const MAX_MESSAGE: usize = 16 * 1024;

use crate::{
    auth::Caller,
    calls::{
        fields,
        problem::{Code, Problem},
    },
    http::Api,
    live::{Outbox, Present, Seat},
    locking::{Timestamp, names::RoomId},
};

const AUTH_MS: i64 = 10_000;
pub const PING_MS: i64 = 10_000;
const PONG_MS: i64 = 20_000;
/// How long a closed socket is still read.
const LINGER: Duration = Duration::from_secs(2);

/// What it was opened for.
#[derive(Debug)]
pub enum Hears {
    WhatItAsksFor,
    Room(RoomId),
    Everything,
}

/// Who it is, and its turns to read.
#[derive(Clone)]
pub(super) struct Known {
    pub caller: Arc<Caller>,
    pub turns: Arc<Semaphore>,
}

pub struct Socket {
    pub(super) api: web::Data<Api>,
    pub(super) outbox: Arc<Outbox>,
    reader: Reader,
    place: Place,
    /// Until it has been welcomed.
    hears: Option<Hears>,
    pub(super) known: Option<Known>,
    /// When it must have said who it is, or say it anew.
    known_until: Timestamp,
    ping: Ping,
    pub(super) rooms: HashMap<RoomId, (Member, Present)>,
    pub(super) everything: Option<Seat>,
    pub(super) task: Option<Task>,
    /// Asked meanwhile. Nothing more is read until it is its turn.
    next: Option<Box<Asked>>,
    alarm: Option<Alarm>,
}

/// For what is due next. Kept while that stays the same: to set one costs more than most messages.
struct Alarm {
    at: Timestamp,
    rings: Pin<Box<dyn Future<Output = ()>>>,
}

/// The number of the last ping, and when the next one or the pong to it is due.
#[derive(Debug)]
struct Ping {
    number: u64,
    is_outstanding: bool,
    sent_at: Timestamp,
}

impl Ping {
    fn due_at(&self) -> Timestamp {
        self.sent_at.plus_millis(if self.is_outstanding { PONG_MS } else { PING_MS })
    }
}

impl Socket {
    pub fn new(api: web::Data<Api>, outbox: Arc<Outbox>, reader: Reader, place: Place, hears: Hears) -> Self {
        let now = api.clock.now();
        Self {
            api,
            outbox,
            reader,
            place,
            hears: Some(hears),
            known: None,
            known_until: now.plus_millis(AUTH_MS),
            ping: Ping { number: 0, is_outstanding: false, sent_at: now },
            rooms: HashMap::new(),
            everything: None,
            task: None,
            next: None,
            alarm: None,
        }
    }

    pub async fn run(mut self, token: Option<String>, fits: Result<(), TooMany>) {
        let ended = match fits {
            Ok(()) => self.live(token).await,
            Err(TooMany) => End::Close(Close::TooMany, "too many sockets from this address".to_owned()),
        };
        if let Some(task) = self.task.take() {
            task.wind_up().await;
        }
        self.rooms.clear();
        self.everything = None;
        // Who has said goodbye waits for the server to end the connection, and sends nothing more.
        let is_over = matches!(ended, End::Close(Close::Normal, _));
        if let End::Close(close, reason) = ended {
            self.outbox.close(wire::close(close, &reason));
        }
        if !is_over {
            // A client that has gone away is not waited for: its side of the connection is at its end.
            let _ = tokio::time::timeout(LINGER, self.reader.discard()).await;
        }
        self.outbox.end();
    }

    async fn live(&mut self, token: Option<String>) -> End {
        if let Some(token) = token
            && let Err(end) = self.enter(&token, None)
        {
            return end;
        }
        let mut drain = self.api.live.drain.subscribe();
        let mut leaves = None;
        loop {
            if let Err(end) = self.step(&mut drain, &mut leaves).await {
                return end;
            }
        }
    }

    /// Whatever happens next.
    async fn step(
        &mut self,
        drain: &mut watch::Receiver<Option<Duration>>,
        leaves: &mut Option<Pin<Box<Sleep>>>,
    ) -> Step {
        self.set_alarm();
        tokio::select! {
            incoming = self.reader.next(), if self.next.is_none() => match incoming {
                Some(Ok(incoming)) => self.incoming(incoming),
                Some(Err(Broken::TooBig)) => Err(End::Close(Close::TooBig, "at most 16 KiB".to_owned())),
                Some(Err(Broken::Bad(reason))) => Err(End::Close(Close::BadFrame, reason.to_owned())),
                None => Err(End::Gone),
            },
            done = task::finished(self.task.as_mut()) => {
                self.task = None;
                self.done(done?)
            }
            // A task finds out by itself.
            () = self.outbox.stopped(), if self.task.is_none() => self.stopped(),
            () = rings(self.alarm.as_mut()) => {
                self.alarm = None;
                self.due()
            }
            window = drained(drain), if leaves.is_none() => {
                *leaves = Some(Box::pin(tokio::time::sleep(random_part(window))));
                let away = random_part(window);
                self.push(frames::goodbye(u64::try_from(away.as_millis()).unwrap_or_default()))
            }
            () = left(leaves.as_mut()) => Err(End::Close(Close::Draining, "the server is stopping".to_owned())),
        }
    }

    fn set_alarm(&mut self) {
        let due_at = self.known_until.min(self.ping.due_at());
        if self.alarm.as_ref().is_none_or(|alarm| alarm.at != due_at) {
            let clock = self.api.clock.clone();
            self.alarm = Some(Alarm { at: due_at, rings: Box::pin(async move { clock.sleep_until(due_at).await }) });
        }
    }

    fn done(&mut self, done: Done) -> Step {
        match done {
            Done::Answered => {}
            Done::Joined(room, member, present) => {
                self.rooms.insert(room, (member, present));
            }
            Done::HearsEverything(seat) => self.everything = Some(seat),
            Done::WentOn(members) => {
                for (room, member) in members {
                    if let Some((place, _)) = self.rooms.get_mut(&room) {
                        *place = member;
                    }
                }
            }
        }
        self.next.take().map_or(Ok(()), |asked| self.asked(*asked))
    }

    fn due(&mut self) -> Step {
        let now = self.api.clock.now();
        if now >= self.known_until {
            let reason = if self.known.is_some() { Code::TokenExpired } else { Code::TokenMissing };
            return Err(End::Close(Close::Unauthorized, reason.name().to_owned()));
        }
        if now < self.ping.due_at() {
            return Ok(());
        }
        if self.ping.is_outstanding {
            if self.next.is_none() {
                return Err(End::Close(Close::NoPong, "no pong".to_owned()));
            }
            // It may be behind what waits for its turn.
            self.ping.sent_at = now;
            return Ok(());
        }
        self.ping = Ping { number: self.ping.number + 1, is_outstanding: true, sent_at: now };
        self.push(wire::ping(&self.ping.number.to_be_bytes()))
    }

    fn incoming(&mut self, incoming: Incoming) -> Step {
        match incoming {
            Incoming::Ping(payload) => self.push(wire::pong(&payload)),
            Incoming::Pong(payload) => {
                if payload[..] == self.ping.number.to_be_bytes() {
                    self.ping.is_outstanding = false;
                }
                Ok(())
            }
            Incoming::Close => Err(End::Close(Close::Normal, String::new())),
            Incoming::Text(text) => {
                let asked = Asked::parse(&text);
                let asked = asked.map_err(|reason| End::Close(Close::BadFrame, reason.to_owned()))?;
                // A new token does not wait: the old one may end meanwhile.
                if self.task.is_some() && asked.kind != "auth" {
                    self.next = Some(Box::new(asked));
                    return Ok(());
                }
                self.asked(asked)
            }
        }
    }

    fn asked(&mut self, asked: Asked) -> Step {
        if asked.kind == "auth" {
            let id = asked.id;
            return match fields::from_object::<Auth>(asked.fields) {
                Ok(Auth { token }) => self.enter(&token, id.as_ref()),
                Err(problem) => self.refuse(id.as_ref(), &problem),
            };
        }
        let Some(known) = self.known.clone() else {
            return Err(End::Close(Close::Unauthorized, Code::TokenMissing.name().to_owned()));
        };
        match asked.kind.as_str() {
            "subscribe" => self.subscribe(&known, asked),
            "unsubscribe" => self.unsubscribe(asked),
            _ => {
                self.task = Some(Task::command(self.api.clone(), Arc::clone(&self.outbox), known.caller, asked));
                Ok(())
            }
        }
    }

    /// By its first token, or by one that takes its place.
    fn enter(&mut self, token: &str, id: Option<&Id>) -> Step {
        let verified = self.api.keys.verify(token, self.api.clock.wall()).map_err(Problem::from);
        let caller = verified.map_err(|problem| End::Close(Close::Unauthorized, problem.code.name().to_owned()))?;
        let turns = match &self.known {
            Some(known) if !is_same(&known.caller, &caller) => {
                return Err(End::Close(Close::Forbidden, "another token's socket".to_owned()));
            }
            Some(known) => Arc::clone(&known.turns),
            None => {
                let fits = self.place.belongs_to(&caller);
                fits.map_err(|TooMany| End::Close(Close::TooMany, "too many sockets of this owner".to_owned()))?
            }
        };
        let left_ms = caller.expires_at.millis_since(self.api.clock.wall());
        self.known_until = self.api.clock.now().plus_millis(left_ms);
        let known = Known { caller, turns };
        self.known = Some(known.clone());
        let now = self.api.clock.now();
        if id.is_some() {
            self.push(frames::ok(id, Time { server_time: now }))?;
        }
        match self.hears.take() {
            Some(hears) => self.welcome(&known, hears),
            None => Ok(()),
        }
    }

    fn welcome(&mut self, known: &Known, hears: Hears) -> Step {
        let live = &self.api.live;
        self.push(frames::welcome(live.hub.epoch(), self.api.clock.now(), PING_MS, live.rooms_per_socket))?;
        match hears {
            Hears::WhatItAsksFor => Ok(()),
            Hears::Everything => self.hear_everything(known),
            Hears::Room(room) => self.hear_room(known, room),
        }
    }

    pub(super) fn refuse(&self, id: Option<&Id>, problem: &Problem) -> Step {
        self.push(frames::error(id, problem, self.api.clock.now()))
    }

    pub(super) fn push(&self, frame: bytes::Bytes) -> Step {
        Ok(self.outbox.push(frame)?)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Auth {
    token: String,
}

/// A new token may last longer, but what a socket hears must not depend on which one it was opened with.
fn is_same(known: &Caller, new: &Caller) -> bool {
    (&known.tenant, &known.owner, known.role, &known.rooms) == (&new.tenant, &new.owner, new.role, &new.rooms)
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
pub fn random_part(window: Duration) -> Duration {
    window.mul_f64(f64::from(getrandom::u32().unwrap_or_default()) / f64::from(u32::MAX) * 0.9)
}
