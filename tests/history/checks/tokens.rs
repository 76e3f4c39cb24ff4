//! LS-INV-002: fencing tokens grow by one per grant, and no two leases have the same, in the log and in answers.

use std::collections::HashMap;

use super::{
    Findings, Planted, right,
    samples::{Sample, by, ended, live, request},
    wrong,
};
use crate::{
    history::History,
    log::{Happened, Reason},
    request::Verb,
};

pub fn check(history: &History) -> Findings {
    let mut findings = Findings::of("LS-INV-002: tokens grow by one per grant and are never given twice");
    for key in history.keys() {
        let locks = history.events_of(key).iter().filter(|index| history.log[**index].is_lock());
        for (expected, index) in (1_i64..).zip(locks) {
            let (event, at) = (&history.log[*index], history.committed[*index].not_before);
            findings.check(event.token == expected, key, at, || {
                format!("grant {expected} of the document has token {}: {}", event.token, event.told())
            });
        }
    }
    let mut given = HashMap::new();
    for call in &history.calls {
        for seen in call.answer.live() {
            let Some(lease) = seen.lease else {
                findings.check(false, &seen.key, call.settled, || "a holder was not told its lease".to_owned());
                continue;
            };
            let first = *given.entry((seen.key.clone(), seen.token)).or_insert(lease);
            findings.check(first == lease, &seen.key, call.settled, || {
                format!("token {} was answered for two leases, {first} and {lease}", seen.token)
            });
            let logged = history.lease(lease).map(|lease| &history.log[lease.lock]);
            let is_logged = logged.is_some_and(|event| {
                event.key == seen.key
                    && event.token == seen.token
                    && event.owner == call.owner
                    && event.owner == seen.owner
            });
            findings.check(is_logged, &seen.key, call.settled, || {
                let logged = logged.map_or("nothing of it".to_owned(), |event| event.told());
                format!("{} was answered lease {lease} with token {}, the log has {logged}", call.owner, seen.token)
            });
        }
        for ended in call.answer.ended() {
            let wanted = if call.verb() == Verb::ForceUnlock { Reason::Revoked } else { Reason::Released };
            let mut grants = history.grants(&ended.key, ended.token);
            let is_logged = grants.any(|lease| history.reason(lease) == Some(wanted));
            findings.check(is_logged, &ended.key, call.settled, || {
                format!("answered that token {} has ended, which the log does not have as {wanted:?}", ended.token)
            });
        }
    }
    findings
}

pub fn planted() -> Vec<Planted> {
    let once = || Sample::default().granted("ann", 1, 0..5, 1000).event(6, "ann", 1, by(Reason::Released, "ann"));
    let twice = |token| once().event_with_token(7, "ben", 2, token, Happened::Locked).history();
    let unlocked = |token| once().call("ann", request(Verb::Unlock), 5..8, ended(token)).history();
    vec![
        right("one after the other", check, twice(2)),
        wrong("the same token again", check, twice(1)),
        wrong("a token left out", check, twice(3)),
        wrong(
            "an answer the log does not know",
            check,
            once().call("ben", request(Verb::Lock), 8..9, live("ben", 2, 9)).history(),
        ),
        wrong("a token answered to two", check, {
            let mut other = super::samples::seen("ben", 2, 9);
            other.token = 1;
            once().call("ben", request(Verb::Lock), 8..9, crate::record::Answer::Live(vec![other])).history()
        }),
        right("an unlock", check, unlocked(1)),
        wrong("an unlock the log does not know", check, unlocked(2)),
    ]
}
