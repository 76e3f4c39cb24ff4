//! Answers, notices and events, from JSON to what a history needs of them.

use serde_json::Value;
use uuid::Uuid;

use crate::{
    log::{Event, Happened, Reason},
    record::{Answer, Ended, Failed, Name, Refused, Seen},
    request::{Request, Verb, key},
};

pub fn answer(request: &Request, status: u16, body: &Value) -> Answer {
    let parsed = match status {
        200 => done(request, body),
        503 if body["code"] == "OUTCOME_UNKNOWN" => Some(Answer::Unknown),
        _ => refused(request, status, body).map(Answer::Refused),
    };
    parsed.unwrap_or_else(|| Answer::Odd(format!("{status} {body}")))
}

fn done(request: &Request, body: &Value) -> Option<Answer> {
    let room = &request.room;
    Some(match request.verb {
        Verb::Look => {
            let lock = if body["lock"].is_null() { None } else { Some(seen(&body["lock"])?) };
            Answer::Looked { lock, last_token: body["last_token"].as_i64()? }
        }
        Verb::Verify => {
            Answer::Verified { valid: body["valid"].as_bool()?, current_token: body["current_token"].as_i64()? }
        }
        Verb::List => Answer::Listed(all(&body["items"], seen)?),
        Verb::ForceMatching => Answer::Unlocked(body["unlocked"].as_i64()?),
        Verb::Lock | Verb::Heartbeat if request.many => Answer::Live(all(&body["items"], seen)?),
        Verb::Lock | Verb::Heartbeat => Answer::Live(vec![seen(body)?]),
        Verb::Unlock if request.many => Answer::Ended(all(&body["items"], |item| ended(room, item))?),
        Verb::Release if body["released"].is_null() => Answer::Live(vec![seen(body)?]),
        Verb::Unlock | Verb::Release | Verb::ForceUnlock => Answer::Ended(vec![ended(room, body)?]),
    })
}

fn refused(request: &Request, status: u16, body: &Value) -> Option<Refused> {
    let room = &request.room;
    let code = text(&body["code"])?.to_string();
    let failed = |document: &Name, from: &Value| {
        let lock = if from["lock"].is_null() { None } else { Some(seen(&from["lock"])?) };
        let code = text(&from["code"])?.to_string();
        Some(Failed { key: key(room, document), code, lock, is_you: from["is_you"].as_bool() })
    };
    let each = if body["failed"].is_array() {
        all(&body["failed"], |item| failed(&text(&item["document"])?, item))?
    } else {
        request.documents.iter().map(|document| failed(document, body)).collect::<Option<_>>()?
    };
    let items = body["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let (gone, kept): (Vec<_>, Vec<_>) = items.iter().partition(|item| item["released"] == true);
    let live = kept.into_iter().map(seen).collect::<Option<_>>()?;
    let ended = gone.into_iter().map(|item| ended(room, item)).collect::<Option<_>>()?;
    Some(Refused { status, code, failed: each, live, ended })
}

fn all<T>(items: &Value, parse: impl FnMut(&Value) -> Option<T>) -> Option<Vec<T>> {
    items.as_array()?.iter().map(parse).collect()
}

fn ended(room: &str, value: &Value) -> Option<Ended> {
    (value["released"] == true).then_some(())?;
    Some(Ended { key: key(room, value["document"].as_str()?), token: value["fencing_token"].as_i64()? })
}

pub fn seen(lock: &Value) -> Option<Seen> {
    Some(Seen {
        key: key(lock["room"].as_str()?, lock["document"].as_str()?),
        token: lock["fencing_token"].as_i64()?,
        lease: lease(&lock["lease_id"]),
        owner: text(&lock["holder"]["owner_id"])?,
        hold: number(&lock["hold"])?,
        resumed: lock["resumed"] == true,
        expires_at: time(&lock["expires_at"])?,
        expires_in_ms: lock["expires_in_ms"].as_i64()?,
        ttl_seconds: number(&lock["ttl_seconds"])?,
    })
}

/// An event of the log.
pub fn event(value: &Value) -> Option<Event> {
    let happened = match value["type"].as_str()? {
        "DocumentLocked" => Happened::Locked,
        "DocumentUnlocked" => Happened::Ended { reason: reason(&value["reason"])?, by: text(&value["by"]) },
        _ => return None,
    };
    Some(Event {
        sequence: value["sequence"].as_i64()?,
        at: time(&value["at"])?,
        key: key(value["room"].as_str()?, value["document"].as_str()?),
        lease: lease(&value["lease_id"])?,
        token: value["fencing_token"].as_i64()?,
        owner: text(&value["owner_id"])?,
        session: text(&value["session_id"]),
        tag: value["metadata"]["tag"].as_u64(),
        happened,
    })
}

pub fn reason(value: &Value) -> Option<Reason> {
    Some(match value.as_str()? {
        "released" | "handed_over" => Reason::Released,
        "expired" => Reason::Expired,
        "taken_over" => Reason::TakenOver,
        "revoked" => Reason::Revoked,
        _ => return None,
    })
}

pub fn text(value: &Value) -> Option<Name> {
    value.as_str().map(Name::from)
}

fn lease(value: &Value) -> Option<Uuid> {
    Uuid::parse_str(value.as_str()?).ok()
}

fn number(value: &Value) -> Option<u32> {
    u32::try_from(value.as_u64()?).ok()
}

fn time(value: &Value) -> Option<i64> {
    Some(chrono::DateTime::parse_from_rfc3339(value.as_str()?).ok()?.timestamp_millis())
}
