//! No answer is a server's own failure, and none is one that the client did not ask for.

use super::{
    Findings, Planted, right,
    samples::{self, Sample, refused, request},
    wrong,
};
use crate::{
    history::History,
    record::{Answer, Refused},
    request::Verb,
};

/// What a well-formed request can be refused with.
const EXPECTED: [&str; 13] = [
    "LOCK_HELD",
    "LOCK_NOT_FOUND",
    "NOT_OWNER",
    "LEASE_EXPIRED",
    "LEASE_RELEASED",
    "LEASE_REVOKED",
    "LEASE_MISMATCH",
    "CAPACITY_MISMATCH",
    "ROLE_FORBIDS",
    "REQUEST_ID_REUSED",
    "OVERLOADED",
    "DRAINING",
    "OUTCOME_UNKNOWN",
];

pub fn check(history: &History) -> Findings {
    let mut findings = Findings::of("answers: no failure but 503, no refusal that was not asked for");
    for call in &history.calls {
        let key = call.request.keys().next().unwrap_or_default();
        let is_expected = match &call.answer {
            Answer::Odd(_) => false,
            Answer::Refused(Refused { status, code, .. }) => {
                let is_known = EXPECTED.contains(&code.as_str());
                is_known && (*status < 500 || *status == 503)
            }
            _ => true,
        };
        findings.check(is_expected, &key, call.settled, || {
            format!("{} was answered {:?}", call.request.told(), call.answer)
        });
    }
    findings
}

pub fn planted() -> Vec<Planted> {
    let answered = |answer| Sample::default().call("ann", request(Verb::Lock), 0..5, answer).history();
    let failure = Refused { status: 500, code: "OUTCOME_UNKNOWN".to_owned(), ..Refused::default() };
    vec![
        wrong("a 500", check, answered(Answer::Refused(failure))),
        wrong("a body that is no answer", check, answered(Answer::Odd("200 null".to_owned()))),
        wrong("a refusal that does not fit", check, answered(refused("TOKEN_EXPIRED", None))),
        right("a refusal that does", check, answered(refused("LOCK_HELD", Some(samples::seen("ben", 1, 500))))),
    ]
}
