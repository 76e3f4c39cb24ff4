//! Asks for a lock, and their answers.

use super::{
    super::{ASK_MS, Answer, AnswerAsk, AskForLock, CLAIM_MS, CancelAsk, DocumentRow, RING_MS, Span, outcome::Done},
    Ask, AskOutcome, Change, Decision, DocumentKey, EndReason, Event, EventKind, Lock, NotRead, Outcome, Refusal,
    State, Timestamp,
    grant::Grant,
    live_locks,
};

/// Rings the holder, unless the same owner has done so a moment ago. Asking again while an ask is open changes nothing.
pub(super) fn ask(state: &State, command: &AskForLock, now: Timestamp, decision: &mut Decision) -> Outcome {
    let of_owner = |ask: &&Ask| ask.asker.owner == command.asker.owner;
    let asks = state.asks.get(&command.key).map(Vec::as_slice).unwrap_or_default();
    if let Some(open) = asks.iter().filter(of_owner).find(|ask| ask.outcome.is_none()) {
        return asked(open.clone());
    }
    // The oldest, if there are several; one's own in another session may be asked for too.
    let others = live_locks(state, &command.key, now).filter(|lock| !lock.holder.is_same_session(&command.asker));
    let Some(lock) = others.min_by_key(|lock| lock.fencing_token) else {
        return Outcome::failed(&command.key, Refusal::NotFound);
    };
    let last = asks.iter().filter(of_owner).map(|ask| ask.asked_at).max();
    if let Some(again_at) = last.map(|at| at.plus_millis(RING_MS)).filter(|again_at| now < *again_at) {
        return Outcome::failed(&command.key, Refusal::AskedTooSoon { again_at });
    }
    let ask = Ask {
        id: command.id,
        key: command.key.clone(),
        lease_id: lock.lease_id,
        holder: lock.holder.owner.clone(),
        asker: command.asker.clone(),
        message: command.message.clone(),
        asked_at: now,
        expires_at: now.plus_millis(ASK_MS),
        outcome: None,
        answer: None,
    };
    if !lock.is_wanted {
        decision.changes.push(Change::Keep(Lock { is_wanted: true, ..lock.clone() }));
    }
    decision.changes.push(Change::Ask(ask.clone()));
    let kind = EventKind::HandoverAsked(Box::new(ask.clone()));
    decision.events.push(Event { at: now, lock: lock.clone(), kind });
    asked(ask)
}

fn asked(ask: Ask) -> Outcome {
    Outcome { done: vec![Done::Asked(ask)], failed: Vec::new() }
}

/// Ends asks that nobody answered in time.
pub(super) fn expire(state: &mut State, key: &DocumentKey, now: Timestamp, decision: &mut Decision) {
    let before = decision.changes.len();
    for lock in state.locks_of(key) {
        for ask in state.asks_for(lock).filter(|ask| ask.expires_at <= now) {
            decision.answer(ask, AskOutcome::Unanswered, None, lock, now);
        }
    }
    decision.apply_after(before, state);
}

/// An ask that has ended is told as it ended, so that an answer may be sent again.
pub(super) fn answer(
    state: &State,
    command: &AnswerAsk,
    now: Timestamp,
    decision: &mut Decision,
) -> Result<Outcome, NotRead> {
    let Some(ask) = find(state, &command.key, command.id).filter(|ask| ask.holder == command.owner) else {
        return Ok(Outcome::failed(&command.key, Refusal::AskNotFound));
    };
    if ask.outcome.is_some() {
        return Ok(asked(ask.clone()));
    }
    let Some(lock) = live_locks(state, &command.key, now).find(|lock| lock.lease_id == ask.lease_id) else {
        return Ok(Outcome::failed(&command.key, Refusal::AskNotFound));
    };
    if !command.named.fits(lock) {
        return Ok(Outcome::failed(&command.key, Refusal::Mismatch));
    }
    let message = command.message.as_ref();
    Ok(asked(match &command.answer {
        Answer::Deny => decision.answer(ask, AskOutcome::Denied, message, lock, now),
        Answer::Grant { lease_id, document_version } => {
            let row = state.documents.get(&command.key).ok_or_else(|| NotRead(command.key.clone()))?;
            let saved = decision.save(state, lock.clone(), document_version.as_ref(), now);
            decision.end_without_asks(&saved, EndReason::HandedOver, Some(&command.owner), None, now);
            let grant = Grant {
                key: &command.key,
                lease_id: *lease_id,
                slot: lock.slot,
                capacity: row.capacity,
                holder: &ask.asker,
                ttl_seconds: state.policy.ttl_seconds,
                span: Span::Claim(CLAIM_MS),
                metadata: None,
                document_version: None,
                waited_ms: None,
                // Those in line wait for this lock from now on.
                is_wanted: true,
            };
            // Of several holders another one may have saved since this one got its lock.
            let version = document_version.clone().or_else(|| row.version.clone());
            let row = DocumentRow { version, ..row.clone() };
            let granted = decision.grant(state, &row, grant, now);
            let granted_ask = decision.answer(ask, AskOutcome::Granted, message, &granted, now);
            for other in state.asks_for(lock).filter(|other| other.id != ask.id) {
                decision.answer(other, AskOutcome::Moot, None, &saved, now);
            }
            granted_ask
        }
    }))
}

pub(super) fn cancel(state: &State, command: &CancelAsk, now: Timestamp, decision: &mut Decision) -> Outcome {
    let Some(ask) = find(state, &command.key, command.id).filter(|ask| ask.asker.owner == command.owner) else {
        return Outcome::failed(&command.key, Refusal::AskNotFound);
    };
    let lock = live_locks(state, &command.key, now).find(|lock| lock.lease_id == ask.lease_id);
    match lock.filter(|_| ask.outcome.is_none()) {
        Some(lock) => asked(decision.answer(ask, AskOutcome::Cancelled, None, lock, now)),
        None => asked(ask.clone()),
    }
}

fn find<'s>(state: &'s State, key: &DocumentKey, id: uuid::Uuid) -> Option<&'s Ask> {
    state.asks.get(key)?.iter().find(|ask| ask.id == id)
}
