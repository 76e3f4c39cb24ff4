//! A request as it can be sent, and sent again.

use reqwest::Method;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::record::Name;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Verb {
    #[default]
    Lock,
    Heartbeat,
    Unlock,
    Release,
    Look,
    Verify,
    List,
    ForceUnlock,
    ForceMatching,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Request {
    pub verb: Verb,
    pub room: Name,
    /// One, or several if `many`; none for lists and the calls of admins.
    pub documents: Vec<Name>,
    pub many: bool,
    pub session: Option<Name>,
    pub lease: Option<Uuid>,
    pub id: Option<Name>,
    /// Stands in the metadata of what it locks, so that the log tells which request a grant belongs to.
    pub tag: Option<u64>,
    pub ttl_seconds: Option<u32>,
    pub capacity: Option<u32>,
    pub takeover: bool,
    pub expected_token: Option<i64>,
    /// Of a release.
    pub hold: u32,
    pub linger_ms: u32,
    /// To be verified.
    pub token: i64,
    pub version: Option<Name>,
    /// Of a filtered force-unlock.
    pub filter_owner: Option<Name>,
    pub filter_document: Option<Name>,
}

impl Request {
    pub fn on(verb: Verb, room: &Name, document: &Name) -> Self {
        Self { verb, room: room.clone(), documents: vec![document.clone()], ..Self::default() }
    }

    pub fn keys(&self) -> impl Iterator<Item = Name> + '_ {
        self.documents.iter().map(|document| key(&self.room, document))
    }

    pub fn is_about(&self, key: &str) -> bool {
        let Some((room, document)) = key.split_once('/') else { return false };
        match self.verb {
            Verb::ForceMatching => {
                *room == *self.room && self.filter_document.as_ref().is_none_or(|wanted| **wanted == *document)
            }
            _ => *room == *self.room && self.documents.iter().any(|wanted| **wanted == *document),
        }
    }

    pub fn method(&self) -> Method {
        match self.verb {
            Verb::Lock | Verb::Release | Verb::Verify | Verb::ForceMatching => Method::POST,
            Verb::Heartbeat => Method::PUT,
            Verb::Unlock | Verb::ForceUnlock => Method::DELETE,
            Verb::Look | Verb::List => Method::GET,
        }
    }

    pub fn path(&self) -> String {
        let lease = self.lease.unwrap_or_default();
        let lock = || format!("/api/documents/{}/{}/lock", self.room, self.documents[0]);
        match self.verb {
            Verb::ForceUnlock => format!("/api/admin/locks/{lease}"),
            Verb::ForceMatching => "/api/admin/locks/unlock".to_owned(),
            Verb::List => format!("/api/rooms/{}/locks?limit=1000", self.room),
            Verb::Lock | Verb::Heartbeat | Verb::Unlock if self.many => format!("/api/rooms/{}/locks", self.room),
            Verb::Lock | Verb::Heartbeat | Verb::Unlock | Verb::Look => lock(),
            Verb::Release => format!("{}/release", lock()),
            Verb::Verify => format!("{}/verify", lock()),
        }
    }

    /// Null where none is sent.
    pub fn body(&self) -> Value {
        let mut fields = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                fields.insert(name.to_owned(), value);
            }
        };
        let text = |name: &Option<Name>| name.as_deref().map(Value::from);
        match self.verb {
            Verb::Look | Verb::List => return Value::Null,
            Verb::Verify => return json!({ "fencing_token": self.token }),
            Verb::Release => return json!({ "lease_id": self.lease, "hold": self.hold, "linger_ms": self.linger_ms }),
            Verb::ForceUnlock => return json!({ "reason": "history" }),
            Verb::ForceMatching => {
                put("room", Some(Value::from(&*self.room)));
                put("owner", text(&self.filter_owner));
                put("document", text(&self.filter_document));
                return json!({ "filter": fields, "reason": "history" });
            }
            Verb::Lock => {
                put("takeover", self.takeover.then_some(Value::Bool(true)));
                put("expected_token", self.expected_token.map(Value::from));
                put("capacity", self.capacity.map(Value::from));
                put("metadata", self.tag.map(|tag| json!({ "tag": tag })));
            }
            Verb::Heartbeat | Verb::Unlock => put("lease_id", self.lease.map(|lease| json!(lease))),
        }
        if self.many {
            let names: Vec<_> = self.documents.iter().map(|document| document.to_string()).collect();
            put("documents", Some(json!(names)));
        }
        put("session_id", text(&self.session));
        put("request_id", text(&self.id));
        put("document_version", text(&self.version));
        put("ttl_seconds", self.ttl_seconds.map(Value::from));
        Value::Object(fields)
    }

    /// In one line, for the story of a violation.
    pub fn told(&self) -> String {
        let body = self.body();
        let body = if body.is_null() { String::new() } else { format!(" {body}") };
        format!("{} {}{body}", self.method(), self.path())
    }
}

/// What a document is called in a history.
pub fn key(room: &str, document: &str) -> Name {
    format!("{room}/{document}").into()
}
