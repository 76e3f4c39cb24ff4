//! What a socket is busy with: one thing at a time, while it is read, pinged and told to go.
//!
//! A command that was accepted is finished and answered, whatever ends the socket meanwhile. A join may be dropped at any
//! moment: its places are left with it.

use std::{pin::Pin, sync::Arc, time::Duration};

use actix_web::web;

use super::{Close, commands};
use crate::{
    auth::Caller,
    http::Api,
    live::{Outbox, Present, Refused, Seat},
    live::{
        messages::{self as frames, Asked},
        subscribe::{Member, Members, Stopped},
    },
    locking::names::RoomId,
};

/// How long a socket that ends waits for its last answer.
const LAST_ANSWER: Duration = Duration::from_secs(2);

pub(super) struct Task {
    future: Pin<Box<dyn Future<Output = Step<Done>>>>,
    is_command: bool,
}

/// What came of it.
pub(super) enum Done {
    Answered,
    Joined(RoomId, Member, Present),
    HearsEverything(Seat),
    WentOn(Members),
}

/// Why a socket ends.
#[derive(Debug)]
pub(super) enum End {
    Close(Close, String),
    /// The client is gone, or has been told already.
    Gone,
}

pub(super) type Step<T = ()> = Result<T, End>;

impl From<Refused> for End {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::TooSlow | Refused::Closed => Self::Gone,
        }
    }
}

impl From<Stopped> for End {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Gone => Self::Gone,
            // It has missed something, and cannot go on without it.
            Stopped::Problem(problem) => Self::Close(Close::TooSlow, problem.code.name().to_owned()),
        }
    }
}

impl Task {
    pub fn command(api: web::Data<Api>, outbox: Arc<Outbox>, caller: Arc<Caller>, asked: Asked) -> Self {
        let answered = async move {
            let id = asked.id.clone();
            outbox.push(match commands::run(&api, &caller, asked).await {
                Ok(answer) => frames::ok(id.as_ref(), answer),
                Err(problem) => frames::error(id.as_ref(), &problem, api.clock.now()),
            })?;
            Ok(Done::Answered)
        };
        Self { future: Box::pin(answered), is_command: true }
    }

    pub fn join(joined: impl Future<Output = Step<Done>> + 'static) -> Self {
        Self { future: Box::pin(joined), is_command: false }
    }

    pub async fn wind_up(self) {
        if self.is_command {
            // Once it is begun it is committed, with or without someone to hear of it.
            let _ = tokio::time::timeout(LAST_ANSWER, self.future).await;
        }
    }
}

pub(super) async fn finished(task: Option<&mut Task>) -> Step<Done> {
    match task {
        Some(task) => task.future.as_mut().await,
        None => std::future::pending().await,
    }
}
