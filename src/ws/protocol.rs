//! doclock.v1: what a client's messages do.

use std::sync::Arc;

use bytes::Bytes;

use super::{
    commands, replies,
    requests::{Asked, LockCommand, NoFields, RoomRequest, SocketRequest, SubscribeFields},
};
use crate::{
    auth::{Caller, Role},
    calls::{Call, Calls, Code, Problem},
    live::{
        Close, End, Wire,
        messages::{ActivityMessage, EventMessage, ExtensionMessage, MessageId, PresenceMessage},
        socket::{Answered, Effect, HoldingNews, PING_MS, Protocol, Session, Step, frame},
    },
    locking::names::RoomId,
};

/// What a socket was opened for.
#[derive(Debug)]
pub enum Hears {
    WhatItAsksFor,
    Room(RoomId),
    Everything,
}

pub struct DoclockV1 {
    calls: Arc<Calls>,
    /// The handshake's.
    token: Option<String>,
    /// Until the client has been welcomed.
    hears: Option<Hears>,
}

static WIRE: Wire = Wire {
    name: "doclock.v1",
    event: |event, at, sees_all| frame::text(&EventMessage::new(event, at.sequence, sees_all)),
    extension: |lock| frame::text(&ExtensionMessage::new(lock)),
    ask: |ask, now| frame::text(&EventMessage::asked(ask, now)),
    activity: |said| frame::text(&ActivityMessage::new(said)),
    presence: |room, change, participant| frame::text(&PresenceMessage::new(room, change, participant)),
    page: |page, _| frame::text(page),
};

impl Protocol for DoclockV1 {
    type Message = Asked;

    const WIRE: &'static Wire = &WIRE;

    fn close_code(close: Close) -> u16 {
        match close {
            Close::Normal => 1000,
            Close::TooBig => 1009,
            Close::Draining => 1012,
            Close::BadFrame => 4400,
            Close::Unauthorized => 4401,
            Close::Forbidden => 4403,
            Close::TooSlow => 4408,
            Close::NoPong => 4409,
            Close::TooMany => 4429,
        }
    }

    fn opened(&mut self, session: &mut Session) -> Step {
        match self.token.take() {
            Some(token) => self.enter(&token, None, session),
            None => Ok(()),
        }
    }

    fn parse(text: &str) -> Result<Asked, &'static str> {
        Asked::parse(text)
    }

    /// A new token does not wait: the old one may end meanwhile. Nor does a ping: it asks whether anyone is there.
    fn is_urgent(asked: &Asked) -> bool {
        matches!(asked.request, SocketRequest::Auth(_) | SocketRequest::Ping)
    }

    fn handle(&mut self, Asked { id, request }: Asked, session: &mut Session) -> Step {
        match request {
            SocketRequest::Auth(Ok(auth)) => self.enter(&auth.token, id.as_ref(), session),
            SocketRequest::Auth(Err(problem)) => refuse(id.as_ref(), &problem, session),
            SocketRequest::Subscribe(request) => {
                let caller = known(session)?;
                self.subscribe(&caller, id, request, session)
            }
            SocketRequest::Unsubscribe(request) => {
                known(session)?;
                unsubscribe(id.as_ref(), request, session)
            }
            SocketRequest::Ping => {
                known(session)?;
                session.say(replies::pong(id.as_ref(), session.now()))
            }
            SocketRequest::Command(command) => {
                let (calls, caller) = (Arc::clone(&self.calls), known(session)?);
                let is_wait = matches!(command, Ok(LockCommand::Wait(..)));
                let news = is_wait.then(|| session.holdings().line_news());
                session.run(async move {
                    let call = Call { calls: Arc::clone(&calls), caller, idempotency_key: None };
                    match commands::run(&call, command, id.as_ref(), news).await {
                        Ok(answered) => answered,
                        Err(problem) => {
                            let reply = replies::error(id.as_ref(), &problem, calls.clock.now());
                            Answered { reply, effect: Effect::Nothing }
                        }
                    }
                });
                Ok(())
            }
        }
    }

    fn holds(&self, news: &HoldingNews, session: &Session) -> Option<Bytes> {
        let now = session.now();
        Some(match news {
            HoldingNews::Granted(lock) => replies::granted(lock, session.caller()?, now),
            HoldingNews::Position(key, position) => replies::waiting(key, *position),
            HoldingNews::Extended(lock) => replies::extended(lock, now),
        })
    }

    fn goodbye(reconnect_after_ms: u64) -> Option<Bytes> {
        Some(replies::goodbye(reconnect_after_ms))
    }
}

impl DoclockV1 {
    pub fn new(calls: Arc<Calls>, token: Option<String>, hears: Hears) -> Self {
        Self { calls, token, hears: Some(hears) }
    }

    /// Lets the client in by its first token, or by one that takes its place.
    fn enter(&mut self, token: &str, id: Option<&MessageId>, session: &mut Session) -> Step {
        let caller = self.calls.caller(token);
        let caller = caller.map_err(|problem| End::Close(Close::Unauthorized, problem.code.name()))?;
        session.identify(Arc::clone(&caller))?;
        if id.is_some() {
            session.say(replies::ok(id, replies::Moment { server_time: session.now() }))?;
        }
        let Some(hears) = self.hears.take() else { return Ok(()) };
        let live = &session.live;
        session.say(replies::welcome(&caller, live.hub.epoch(), session.now(), PING_MS, live.rooms_per_socket))?;
        match hears {
            Hears::WhatItAsksFor => Ok(()),
            Hears::Everything => session.hear_everything(),
            Hears::Room(room) => hear_only(&caller, room, session),
        }
    }

    fn subscribe(
        &self,
        caller: &Caller,
        id: Option<MessageId>,
        request: Result<RoomRequest<SubscribeFields>, Problem>,
        session: &mut Session,
    ) -> Step {
        let checked = self.calls.admit(caller).and(request).and_then(|RoomRequest { room, fields }| {
            caller.require_in(Role::Viewer, &room)?;
            session.require_single_rooms()?;
            Ok(fields?.subscription(room, id.clone()))
        });
        let subscription = match checked {
            Ok(subscription) => subscription,
            Err(problem) => return refuse(id.as_ref(), &problem, session),
        };
        if let Err(problem) = session.require_room_for(&subscription.room) {
            refuse(id.as_ref(), &problem, session)?;
            return Err(End::Close(Close::TooMany, "too many rooms"));
        }
        let calls = Arc::clone(&self.calls);
        let refuse = move |problem: &Problem| replies::error(id.as_ref(), problem, calls.clock.now());
        session.subscribe(subscription, refuse)
    }
}

/// Who the client is. One that asks before it has said so is closed.
fn known(session: &Session) -> Result<Arc<Caller>, End> {
    session.caller().cloned().ok_or(End::Close(Close::Unauthorized, Code::TokenMissing.name()))
}

/// Joins the room of the socket's address.
fn hear_only(caller: &Caller, room: RoomId, session: &mut Session) -> Step {
    if let Err(forbidden) = caller.require_in(Role::Viewer, &room) {
        let problem = Problem::from(forbidden);
        refuse(None, &problem, session)?;
        return Err(End::Close(Close::Forbidden, problem.code.name()));
    }
    session.hear_only(room)
}

fn unsubscribe(id: Option<&MessageId>, request: Result<RoomRequest<NoFields>, Problem>, session: &mut Session) -> Step {
    let checked = request.and_then(|RoomRequest { room, fields }| {
        session.require_single_rooms()?;
        fields.map(|NoFields {}| room)
    });
    match checked {
        Ok(room) => {
            session.unsubscribe(&room);
            session.say(replies::ok(id, replies::RoomMoment { room: &room, server_time: session.now() }))
        }
        Err(problem) => refuse(id, &problem, session),
    }
}

fn refuse(id: Option<&MessageId>, problem: &Problem, session: &Session) -> Step {
    session.say(replies::error(id, problem, session.now()))
}
