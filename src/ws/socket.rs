//! One socket's life.
//!
//! 1. Within 10 s it says who it is, unless the handshake has; then it is welcomed.
//! 2. It asks, and is answered in order. Between two messages it is pinged every 10 s; only the pong to the outstanding
//!    ping counts, and none within 20 s is the end.
//! 3. When its token ends so does the socket, unless an `auth` message has brought a new one.
//! 4. While the server drains it goes on for a random while, so that not all clients come back at once.
//! 5. At the end its close code is written, and what it still sends before it answers that is read and thrown away for
//!    a moment.
//!
//! Most of the time it waits. Whatever it does besides is boxed, so that no memory is kept for it meanwhile.

use std::{collections::HashMap, sync::Arc, time::Duration};

use actix_web::web;
use serde::Deserialize;
use tokio::{sync::watch, time::Sleep};

use super::{
    Close, Place,
    admission::TooMany,
    commands,
    decoder::{Broken, Incoming},
    frames::{self, Asked, Id, Time},
    join::{Asks, Member},
    reader::Reader,
    wire,
};
use crate::{
    auth::{Caller, Role},
    http::{
        Api, fields,
        problem::{Code, Problem},
    },
    hub::{Outbox, Present, Refused, SubscriberId},
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

/// Why it ends.
#[derive(Debug)]
pub(super) enum End {
    Close(Close, String),
    /// The client is gone, or has been told already.
    Gone,
}

pub(super) type Step<T = ()> = Result<T, End>;

pub struct Socket {
    pub(super) api: web::Data<Api>,
    pub(super) outbox: Arc<Outbox>,
    reader: Reader,
    place: Place,
    pub(super) caller: Option<Arc<Caller>>,
    /// When it must have said who it is, or say it anew.
    known_until: Timestamp,
    ping: Ping,
    pub(super) rooms: HashMap<RoomId, (Member, Present)>,
    pub(super) everything: Option<SubscriberId>,
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
    pub fn new(api: web::Data<Api>, outbox: Arc<Outbox>, reader: Reader, place: Place) -> Self {
        let now = api.clock.now();
        let ping = Ping { number: 0, is_outstanding: false, sent_at: now };
        let known_until = now.plus_millis(AUTH_MS);
        let (caller, rooms, everything) = (None, HashMap::new(), None);
        Self { api, outbox, reader, place, caller, known_until, ping, rooms, everything }
    }

    pub async fn run(mut self, token: Option<String>, hears: Hears, fits: Result<(), TooMany>) {
        let ended = match fits {
            Ok(()) => self.live(token, hears).await,
            Err(TooMany) => End::Close(Close::TooMany, "too many sockets from this address".to_owned()),
        };
        self.leave();
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

    async fn live(&mut self, token: Option<String>, hears: Hears) -> End {
        let mut hears = Some(hears);
        if let Some(token) = token
            && let Err(end) = Box::pin(self.enter(&token, None, &mut hears)).await
        {
            return end;
        }
        let mut drain = self.api.live.drain.subscribe();
        let mut leaves = None;
        loop {
            if let Err(end) = self.step(&mut hears, &mut drain, &mut leaves).await {
                return end;
            }
        }
    }

    /// Whatever happens next.
    async fn step(
        &mut self,
        hears: &mut Option<Hears>,
        drain: &mut watch::Receiver<Option<Duration>>,
        leaves: &mut Option<std::pin::Pin<Box<Sleep>>>,
    ) -> Step {
        let due_at = self.known_until.min(self.ping.due_at());
        tokio::select! {
            incoming = self.reader.next() => match incoming {
                Some(Ok(incoming)) => self.incoming(incoming, hears).await,
                Some(Err(Broken::TooBig)) => Err(End::Close(Close::TooBig, "at most 16 KiB".to_owned())),
                Some(Err(Broken::Bad(reason))) => Err(End::Close(Close::BadFrame, reason.to_owned())),
                None => Err(End::Gone),
            },
            () = self.outbox.stopped() => Box::pin(self.stopped()).await,
            () = self.api.clock.sleep_until(due_at) => self.due(),
            window = drained(drain), if leaves.is_none() => {
                *leaves = Some(Box::pin(tokio::time::sleep(random_part(window))));
                let away = random_part(window);
                self.push(frames::goodbye(u64::try_from(away.as_millis()).unwrap_or_default()))
            }
            () = left(leaves.as_mut()) => Err(End::Close(Close::Draining, "the server is stopping".to_owned())),
        }
    }

    fn due(&mut self) -> Step {
        let now = self.api.clock.now();
        if now >= self.known_until {
            let reason = if self.caller.is_some() { Code::TokenExpired } else { Code::TokenMissing };
            return Err(End::Close(Close::Unauthorized, reason.name().to_owned()));
        }
        if now < self.ping.due_at() {
            return Ok(());
        }
        if self.ping.is_outstanding {
            return Err(End::Close(Close::NoPong, "no pong".to_owned()));
        }
        self.ping = Ping { number: self.ping.number + 1, is_outstanding: true, sent_at: now };
        self.push(wire::ping(&self.ping.number.to_be_bytes()))
    }

    async fn incoming(&mut self, incoming: Incoming, hears: &mut Option<Hears>) -> Step {
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
                Box::pin(self.asked(asked, hears)).await
            }
        }
    }

    async fn asked(&mut self, asked: Asked, hears: &mut Option<Hears>) -> Step {
        let id = asked.id.clone();
        if asked.kind == "auth" {
            return match fields::from_object::<Auth>(asked.fields) {
                Ok(Auth { token }) => self.enter(&token, id.as_ref(), hears).await,
                Err(problem) => self.refuse(id.as_ref(), &problem),
            };
        }
        let Some(caller) = self.caller.clone() else {
            return Err(End::Close(Close::Unauthorized, Code::TokenMissing.name().to_owned()));
        };
        match asked.kind.as_str() {
            "subscribe" => self.subscribe(&caller, asked).await,
            "unsubscribe" => self.unsubscribe(&caller, asked),
            _ => match commands::run(&self.api, &caller, asked).await {
                Ok(answer) => self.push(frames::ok(id.as_ref(), answer)),
                Err(problem) => self.refuse(id.as_ref(), &problem),
            },
        }
    }

    /// By its first token, or by one that takes its place.
    async fn enter(&mut self, token: &str, id: Option<&Id>, hears: &mut Option<Hears>) -> Step {
        let verified = self.api.keys.verify(token, self.api.clock.wall()).map_err(Problem::from);
        let caller = verified.map_err(|problem| End::Close(Close::Unauthorized, problem.code.name().to_owned()))?;
        match &self.caller {
            Some(known) if !is_same(known, &caller) => {
                return Err(End::Close(Close::Forbidden, "another token's socket".to_owned()));
            }
            Some(_) => {}
            None => {
                let fits = self.place.belongs_to(&caller);
                fits.map_err(|TooMany| End::Close(Close::TooMany, "too many sockets of this owner".to_owned()))?;
            }
        }
        let left_ms = caller.expires_at.millis_since(self.api.clock.wall());
        self.known_until = self.api.clock.now().plus_millis(left_ms);
        self.caller = Some(Arc::clone(&caller));
        let now = self.api.clock.now();
        if id.is_some() {
            self.push(frames::ok(id, Time { server_time: now }))?;
        }
        match hears.take() {
            Some(hears) => self.welcome(&caller, hears).await,
            None => Ok(()),
        }
    }

    async fn welcome(&mut self, caller: &Arc<Caller>, hears: Hears) -> Step {
        let live = &self.api.live;
        self.push(frames::welcome(live.hub.epoch(), self.api.clock.now(), PING_MS, live.rooms_per_socket))?;
        match hears {
            Hears::WhatItAsksFor => Ok(()),
            Hears::Everything => self.hear_everything(caller).await,
            Hears::Room(room) => {
                if let Err(forbidden) = caller.require_in(Role::Viewer, &room) {
                    let problem = Problem::from(forbidden);
                    self.refuse(None, &problem)?;
                    return Err(End::Close(Close::Forbidden, problem.code.name().to_owned()));
                }
                self.join(caller, &Asks { room: &room, after: None, extensions: false, id: None }).await
            }
        }
    }

    pub(super) fn refuse(&self, id: Option<&Id>, problem: &Problem) -> Step {
        self.push(frames::error(id, problem, self.api.clock.now()))
    }

    pub(super) fn push(&self, frame: bytes::Bytes) -> Step {
        self.outbox.push(frame).map_err(|refused| match refused {
            Refused::TooSlow | Refused::Closed => End::Gone,
        })
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

async fn left(leaves: Option<&mut std::pin::Pin<Box<Sleep>>>) {
    match leaves {
        Some(leaves) => leaves.await,
        None => std::future::pending().await,
    }
}

/// Between nothing and nine tenths: the last ones need a moment to go.
pub fn random_part(window: Duration) -> Duration {
    window.mul_f64(f64::from(getrandom::u32().unwrap_or_default()) / f64::from(u32::MAX) * 0.9)
}
