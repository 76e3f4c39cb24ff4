//! Refusals of the rules, in the words of the problem catalogue.

use super::{
    Code, Problem,
    view::{DoneView, FailedView, Items, LockView},
};
use crate::{
    auth::Caller,
    locking::{EndReason, Lock, Outcome, Refusal, Timestamp},
};

pub(super) fn code(refusal: &Refusal) -> Code {
    match refusal {
        Refusal::Held { .. } => Code::LockHeld,
        Refusal::NotFound => Code::LockNotFound,
        Refusal::NotOwner { .. } => Code::NotOwner,
        Refusal::Ended(EndReason::Expired) => Code::LeaseExpired,
        Refusal::Ended(EndReason::Released | EndReason::HandedOver) => Code::LeaseReleased,
        Refusal::Ended(EndReason::TakenOver | EndReason::Revoked) => Code::LeaseRevoked,
        Refusal::Mismatch => Code::LeaseMismatch,
        Refusal::CapacityMismatch { .. } => Code::CapacityMismatch,
        Refusal::RequestIdReused => Code::RequestIdReused,
        Refusal::TakeOverForbidden { .. } => Code::RoleForbids,
        Refusal::LimitReached { .. } | Refusal::TooManyWaits { .. } => Code::LimitReached,
        Refusal::AskedTooSoon { .. } => Code::RateLimited,
        Refusal::AskNotFound => Code::NotFound,
    }
}

/// Several documents: all done, or a problem that lists what failed and what was done all the same.
pub(super) fn many(outcome: &Outcome, caller: &Caller, now: Timestamp) -> Result<Items<DoneView>, Problem> {
    let items: Vec<_> = outcome.done.iter().map(|done| DoneView::new(done, caller, now)).collect();
    let Some(first) = outcome.failed.first() else { return Ok(Items { items }) };
    let failed: Vec<_> = outcome.failed.iter().map(|failed| FailedView::new(failed, caller, now)).collect();
    // Together they are a conflict, even if each alone would be a 403 or a 404.
    let code = match code(&first.refusal) {
        Code::NotOwner | Code::LockNotFound => Code::LeaseMismatch,
        code => code,
    };
    Err(Problem::new(code, format!("{} of the documents failed: `failed` says why.", failed.len()))
        .with("failed", failed)
        .with("items", items))
}

/// The problem of one document, with what helps the caller.
pub(super) fn problem(refusal: &Refusal, caller: &Caller, now: Timestamp) -> Problem {
    let holder = |lock: &Lock| lock.holder.name.as_deref().unwrap_or(lock.holder.owner.as_str()).to_owned();
    let problem = |detail: &str| Problem::new(code(refusal), detail);
    match refusal {
        Refusal::Held { lock, is_you, free_at } => {
            let detail = if *is_you {
                "You hold it yourself, in another session.".to_owned()
            } else {
                format!("{} holds it.", holder(lock))
            };
            Problem::new(code(refusal), detail)
                .with("lock", LockView::new(lock, caller, now))
                .with("is_you", is_you)
                .retry_after_ms(lock.expires_in_ms(now).min(free_at.millis_since(now).max(0)))
        }
        Refusal::NotFound => problem("No lock of yours is or was here."),
        Refusal::NotOwner { lock } => Problem::new(code(refusal), format!("{} holds it.", holder(lock)))
            .with("lock", LockView::new(lock, caller, now)),
        Refusal::Ended(EndReason::Expired) => problem("No heartbeat came in time. Lock it again before you write."),
        Refusal::Ended(EndReason::Released | EndReason::HandedOver) => {
            problem("It was given up. Lock it again before you write.")
        }
        Refusal::Ended(EndReason::TakenOver) => problem("It was taken over. Do not write what you have."),
        Refusal::Ended(EndReason::Revoked) => problem("An admin ended it. Do not write what you have."),
        Refusal::Mismatch => problem(
            "You hold a lock here, but not the one named. Name its lease_id or its session_id, and its hold to release it.",
        ),
        Refusal::CapacityMismatch { in_force } => {
            problem(&format!("While it is locked its capacity is {in_force}.")).with("capacity", in_force)
        }
        Refusal::RequestIdReused => {
            problem("A request_id stands for one method, path and body.").with("field", "request_id")
        }
        Refusal::TakeOverForbidden { lock } => {
            problem("Taking over from others takes the permission `takeover` or the role admin.")
                .with("lock", LockView::new(lock, caller, now))
        }
        Refusal::LimitReached { limit } => problem(&format!("One owner may hold {limit} locks.")).with("limit", limit),
        Refusal::TooManyWaits { limit } => {
            problem(&format!("One owner may wait for {limit} locks at once.")).with("limit", limit)
        }
        Refusal::AskedTooSoon { again_at } => {
            problem("You have asked for this lock a moment ago.").retry_after_ms(again_at.millis_since(now).max(0))
        }
        Refusal::AskNotFound => problem("There is no such ask of yours."),
    }
}
