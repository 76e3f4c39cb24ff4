//! Heartbeats.

use super::{
    super::command::Extend, Decision, DocumentKey, Done, Lock, Outcome, Refusal, State, Timestamp, recall,
    target::target,
};
use crate::locking::{ExtendMemo, Failed};

pub(super) fn extend(state: &State, command: &Extend, now: Timestamp, decision: &mut Decision) -> Outcome {
    let mut outcome = Outcome::default();
    for key in &command.keys {
        match one(state, command, key, now, decision) {
            Ok(done) => outcome.done.push(done),
            Err(refusal) => outcome.failed.push(Failed { key: key.clone(), refusal }),
        }
    }
    outcome
}

fn one(
    state: &State,
    command: &Extend,
    key: &DocumentKey,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<Done, Refusal> {
    // Extends leave no memo: one under this id is another request's.
    if let Some(request) = &command.request
        && recall(state, &request.memo_key(&key.tenant, &command.owner), request, now)?.is_some()
    {
        return Err(Refusal::RequestIdReused);
    }
    let lock = target(state, key, &command.owner, &command.named, now)?;
    let memo = command
        .request
        .as_ref()
        .map(|request| ExtendMemo { request_id: request.id.clone(), fingerprint: request.fingerprint });
    if let (Some(last), Some(memo)) = (&lock.last_extend, &memo)
        && last.request_id == memo.request_id
    {
        let is_same = last.fingerprint == memo.fingerprint;
        return if is_same {
            Ok(Done::Live { lock: lock.clone(), resumed: false })
        } else {
            Err(Refusal::RequestIdReused)
        };
    }
    let ttl_seconds = command.ttl_seconds.unwrap_or(lock.ttl_seconds);
    let extended = Lock {
        ttl_seconds,
        metadata: command.metadata.clone().or_else(|| lock.metadata.clone()),
        last_extend: memo.or_else(|| lock.last_extend.clone()),
        ..lock.until(now.plus_seconds(ttl_seconds))
    };
    Ok(decision.keep(extended, false))
}
