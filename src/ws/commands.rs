//! What a client's commands about locks do: the verbs of `calls`, with the fields, the rules and the answers of the HTTP call.

use super::{
    replies::{self, GrantedAtOnce, InLine},
    requests::{LockCommand, NamedAsk},
};
use crate::{
    calls::{
        Call, Keep, Problem, cancel_wait, extend, handover, lock, unlock,
        view::{DoneView, Timed},
        wait::{self, Waited},
    },
    lines::NewsSender,
    live::{
        messages::MessageId,
        socket::{Answered, Effect},
    },
    locking::Lock,
};

/// `news` is where a `wait` hears when it is its turn.
pub async fn run(
    call: &Call,
    command: Result<LockCommand, Problem>,
    id: Option<&MessageId>,
    news: Option<NewsSender>,
) -> Result<Answered, Problem> {
    call.calls.admit(&call.caller)?;
    let plain = |answer: Timed<DoneView>| Answered { reply: replies::ok(id, answer), effect: Effect::Nothing };
    let asked = |answer| Answered { reply: replies::ok(id, answer), effect: Effect::Nothing };
    match command? {
        LockCommand::Lock(name, request) => {
            let keep = request.keep;
            let (answer, lock) = lock::run_without_waiting(call, name, request).await?;
            Ok(kept(answer, lock, keep, id))
        }
        LockCommand::Extend(name, request) => {
            let keep = request.keep;
            let (answer, lock) = extend::run_for_socket(call, name, request).await?;
            Ok(kept(answer, lock, keep, id))
        }
        LockCommand::Unlock(name, request) => unlock::run(call, name, request).await.map(plain),
        LockCommand::Wait(name, request) => {
            let keeps = request.keep.is_some();
            // There is a sender for every `wait`: without one it could never be told of its turn.
            let Some(news) = news else { return Err(Problem::invalid("type", "cannot wait here")) };
            match wait::run(call, name, request, news).await? {
                Waited::Granted(lock, granted) => {
                    let reply = replies::ok(id, GrantedAtOnce { granted: true, lock });
                    let effect = if keeps { Effect::Keeps(granted) } else { Effect::Nothing };
                    Ok(Answered { reply, effect })
                }
                Waited::InLine { waiting, position } => {
                    let key = waiting.key();
                    let (room, document, server_time) = (&key.room, &key.document, call.now());
                    let reply = replies::ok(id, InLine { granted: false, position, room, document, server_time });
                    Ok(Answered { reply, effect: Effect::Waits { waiting, keeps } })
                }
            }
        }
        LockCommand::CancelWait(name, request) => {
            let (cancelled, key, session) = cancel_wait::run(call, name, request).await?;
            Ok(Answered { reply: replies::ok(id, cancelled), effect: Effect::LeftLine { key, session } })
        }
        LockCommand::Ask(name, request) => {
            let keeps = request.keep.is_some();
            let (answer, ask) = handover::ask(call, name, request.request()).await?;
            Ok(Answered { reply: replies::ok(id, answer), effect: Effect::Asks { ask: ask.id, keeps } })
        }
        LockCommand::CancelAsk(name, NamedAsk { handover_id }) => {
            handover::cancel(call, name, handover_id).await.map(asked)
        }
        LockCommand::AnswerAsk(name, request) => {
            let handover_id = request.handover_id.ok_or_else(|| Problem::invalid("handover_id", "is needed"))?;
            handover::answer(call, name, handover_id, request).await.map(asked)
        }
    }
}

fn kept(answer: Timed<DoneView>, lock: Option<Lock>, keep: Option<Keep>, id: Option<&MessageId>) -> Answered {
    let effect = match (keep, lock) {
        (Some(Keep::Connection), Some(lock)) => Effect::Keeps(Box::new(lock)),
        (None, _) | (_, None) => Effect::Nothing,
    };
    Answered { reply: replies::ok(id, answer), effect }
}
