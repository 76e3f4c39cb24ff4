//! LS-INV-003, LS-INV-004, LS-ACQ-001: every refusal, and every success that needs a live lock, fits the log at some
//! moment of the call.

use uuid::Uuid;

use super::{
    Findings, Planted, right,
    samples::{Sample, by, ended, expired, lease, live, refused, request, seen},
    wrong,
};
use crate::{
    history::{History, Lease},
    log::{Happened, Reason},
    record::{Call, Failed},
    request::{Request, Verb},
};

pub fn check(history: &History) -> Findings {
    let mut findings = Findings::of("LS-INV-003, LS-INV-004, LS-ACQ-001: refusals and successes fit the log");
    for call in history.calls.iter().filter(|call| !call.answer.is_open()) {
        for failed in call.answer.failed() {
            let problem = problem(history, call, failed);
            findings.check(problem.is_none(), &failed.key, call.settled, || {
                let problem = problem.unwrap_or_default();
                format!("{} was refused {}, but {problem}: {}", call.owner, failed.code, call.request.told())
            });
        }
        for seen in call.answer.live() {
            findings.check(history.shows(seen, call), &seen.key, call.settled, || {
                format!(
                    "{} was answered token {}, which was not live then: {}",
                    call.owner,
                    seen.token,
                    call.request.told()
                )
            });
        }
    }
    findings
}

/// What is wrong with a refusal.
fn problem(history: &History, call: &Call, failed: &Failed) -> Option<&'static str> {
    let shown = failed.lock.as_ref();
    let is_live = || shown.is_some_and(|lock| history.shows(lock, call));
    let is_own = shown.is_some_and(|lock| lock.owner == call.owner);
    let unless = |is_so: bool, problem| (!is_so).then_some(problem);
    match failed.code.as_str() {
        "LOCK_HELD" => unless(is_live(), "the lock it names was not live then")
            .or_else(|| unless(failed.is_you.is_none_or(|is_you| is_you == is_own), "`is_you` is wrong")),
        "NOT_OWNER" | "ROLE_FORBIDS" => unless(is_live(), "the lock it names was not live then")
            .or_else(|| unless(!is_own, "the lock it names is the caller's own")),
        "LEASE_EXPIRED" | "LEASE_RELEASED" | "LEASE_REVOKED" => {
            unless(has_ended_so(history, call, failed), "no lock that it can mean had ended so by then")
        }
        "LEASE_MISMATCH" => {
            let mut own = leases(history, call, failed);
            unless(own.any(|(_, lease)| is_live_during(history, lease, call)), "the caller had no live lock there")
        }
        "CAPACITY_MISMATCH" => {
            let mut any = history.leases_of(&failed.key);
            unless(any.any(|(_, lease)| is_live_during(history, lease, call)), "nobody had a lock there")
        }
        "LOCK_NOT_FOUND" => not_found(history, call, failed),
        _ => None,
    }
}

fn is_live_during(history: &History, lease: Lease, call: &Call) -> bool {
    history.was_live(lease, call.invoked, call.returned())
}

/// The caller's leases on the document, by the log.
fn leases<'h>(history: &'h History, call: &'h Call, failed: &'h Failed) -> impl Iterator<Item = (Uuid, Lease)> + 'h {
    let own = history.leases_of(&failed.key).filter(|(event, _)| event.owner == call.owner);
    own.map(|(event, lease)| (event.lease, lease))
}

/// Those it can mean by what it names. A lock that is sent again means what it had got.
fn meant<'h>(history: &'h History, call: &'h Call, failed: &'h Failed) -> impl Iterator<Item = Lease> + 'h {
    let request = &call.request;
    let is_meant = move |id: Uuid, lease: Lease| {
        if call.verb() == Verb::Lock {
            let tag = history.log[lease.lock].tag;
            let got = history.sent_alike(call).flat_map(|sent| sent.answer.live()).any(|seen| seen.lease == Some(id));
            return got
                || tag.is_some() && tag == request.tag
                || history.sent_alike(call).any(|sent| sent.answer.is_open());
        }
        let session = &history.log[lease.lock].session;
        request.lease.is_none_or(|named| named == id)
            && (request.lease.is_some() || request.session.is_none() || request.session == *session)
    };
    leases(history, call, failed).filter(move |(id, lease)| is_meant(*id, *lease)).map(|(_, lease)| lease)
}

fn has_ended_so(history: &History, call: &Call, failed: &Failed) -> bool {
    meant(history, call, failed).any(|lease| {
        let ended = lease.end.map(|end| history.committed[end].not_before);
        history.reason(lease).is_some_and(|reason| reason.code() == failed.code)
            && ended.is_some_and(|ended| ended <= call.returned())
    })
}

fn not_found(history: &History, call: &Call, failed: &Failed) -> Option<&'static str> {
    // Admins' is a read, to which an overdue lock has ended before the log says so: checks/reads.rs.
    if call.verb() == Verb::ForceUnlock {
        return None;
    }
    let had_ended = |lease: Lease| lease.end.is_some_and(|end| history.committed[end].not_after < call.invoked);
    if meant(history, call, failed).any(had_ended) {
        return Some("a lock of the caller's that it can mean had ended before");
    }
    let mut all = history.leases_of(&failed.key);
    let is_held = all.any(|(_, lease)| history.stayed_live(lease, call.invoked, call.returned()));
    is_held.then_some("the document was held all the time")
}

pub fn planted() -> Vec<Planted> {
    let one = || Sample::default().granted("ann", 1, 0..5, 1000);
    let over = || one().event(1000, "ann", 1, expired()).heard(&[1, 2]);
    let ask = |sample: Sample, verb, owner: &str, answer| {
        let named = Request { lease: Some(lease(1)), ..request(verb) };
        sample.call(owner, named, 4000..4005, answer).history()
    };
    let late = |answer| ask(over(), Verb::Heartbeat, "ann", answer);
    let other = |verb, answer| ask(over(), verb, "ben", answer);
    let anns = || Some(seen("ann", 1, 500));
    vec![
        right("expired, as the log says", check, late(refused("LEASE_EXPIRED", None))),
        wrong("released, as the log does not say", check, late(refused("LEASE_RELEASED", None))),
        wrong("a heartbeat of a lock that has ended", check, late(live("ann", 1, 1000))),
        wrong("not found, though it had ended", check, late(refused("LOCK_NOT_FOUND", None))),
        wrong("a mismatch with nothing", check, late(refused("LEASE_MISMATCH", None))),
        wrong("held by one whose lock has ended", check, other(Verb::Lock, refused("LOCK_HELD", anns()))),
        right("held by one whose lock lives", check, ask(one(), Verb::Lock, "ben", refused("LOCK_HELD", anns()))),
        wrong("not the owner, by a lock that has ended", check, other(Verb::Unlock, refused("NOT_OWNER", anns()))),
        wrong("not found, though someone holds it", check, {
            let held =
                one().heard(&[1]).call("ben", request(Verb::Unlock), 4000..4005, refused("LOCK_NOT_FOUND", None));
            held.event(5000, "ann", 1, by(Reason::Released, "ann"))
                .call("ann", request(Verb::Unlock), 5000..5001, ended(1))
                .history()
        }),
        wrong("another capacity than nobody's", check, other(Verb::Lock, refused("CAPACITY_MISMATCH", None))),
        right("a heartbeat", check, {
            let beat = one().call("ann", request(Verb::Heartbeat), 500..505, live("ann", 1, 1000));
            beat.event(1500, "ann", 1, Happened::Ended { reason: Reason::Expired, by: None }).history()
        }),
    ]
}
