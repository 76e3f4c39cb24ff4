//! What can be asked, whoever asks: one file per verb, with its request, its validation, its command and its answer.
//!
//! 1. A transport turns a token into a [`Caller`] and bytes into the verb's request type (`fields`); together they are
//!    a [`Call`] and its arguments.
//! 2. The verb's `run` checks the role and the room, validates the values into newtypes (`values`), builds the command
//!    and has it committed, or reads.
//! 3. The outcome becomes a view of what this caller may see (`view`), or a [`Problem`] of the catalogue (`problem`,
//!    `refusal`). The transport renders either.
//!
//! Invariants: nothing here knows HTTP or sockets; a request is parsed once, and code after `fields` never looks at
//! text again. The role and the room are checked before anything is validated or read: a caller that may not see a room
//! must not learn from an answer what is in it.

pub mod admin;
pub mod cancel_wait;
pub mod extend;
pub mod extend_many;
pub mod fields;
pub mod handover;
pub mod list;
pub mod lock;
pub mod lock_many;
pub mod path;
pub mod problem;
mod rates;
pub mod read;
mod refusal;
pub mod release;
mod request_id;
pub mod unlock;
pub mod unlock_many;
mod values;
pub mod verify;
pub mod view;
pub mod wait;

use std::sync::Arc;

use prometheus::IntCounterVec;

use crate::{
    auth::{Caller, Keys, Role},
    committer::Committer,
    contention::Contention,
    lines::Lines,
    locking::{
        Command, DocumentKey, Done, Holder, LeaseId, Lock, Metadata, Outcome, Refusal, Timestamp,
        names::{DocumentId, RequestId, RoomId, SessionId},
    },
    storage::Queries,
    time::{
        clock::Clock,
        liveness::{Judged, Life},
    },
};
pub use problem::{Code, Problem};
pub use rates::Rates;
pub use values::{Capacity, Documents, Keep, Linger, Note, PageLimit, Ttl, WaitTime, message};
use view::{DoneView, Items, Timed};

/// What every call works with. There is one, made by `app`.
#[derive(Debug)]
pub struct Calls {
    pub committer: Committer,
    pub queries: Queries,
    pub lines: Lines,
    pub life: Arc<Life>,
    pub clock: Clock,
    pub keys: Keys,
    pub contention: Arc<Contention>,
    pub rates: Rates,
    /// Commands refused by a rule, by code, since this server started.
    pub refusals: IntCounterVec,
    pub started_at: Timestamp,
    pub max_ttl_seconds: u32,
}

impl Calls {
    /// Returns whom a token stands for.
    pub fn caller(&self, token: &str) -> Result<Arc<Caller>, Problem> {
        Ok(self.keys.verify(token, self.clock.wall())?)
    }

    /// Counts one request of the caller's; fails if it has sent too many.
    pub fn admit(&self, caller: &Caller) -> Result<(), Problem> {
        self.rates.admit(caller, self.clock.now())
    }
}

/// The token of an `Authorization` header, given as its bytes.
pub fn bearer(header: Option<&[u8]>) -> Result<&str, Problem> {
    let missing = || Problem::new(Code::TokenMissing, "Send `Authorization: Bearer <token>`.");
    let not_ascii = || Problem::new(Code::TokenInvalid, "The token is not valid: not ASCII");
    let value = header.ok_or_else(missing)?;
    let value = str::from_utf8(value).ok().filter(|value| value.is_ascii()).ok_or_else(not_ascii)?;
    let (scheme, token) = value.split_once(' ').ok_or_else(missing)?;
    if !scheme.eq_ignore_ascii_case("bearer") || token.trim().is_empty() {
        return Err(missing());
    }
    Ok(token.trim())
}

/// A request of somebody we know, however it came.
#[derive(Debug, Clone)]
pub struct Call {
    pub calls: Arc<Calls>,
    pub caller: Arc<Caller>,
    /// The request's id, if the transport carries one beside the fields.
    pub idempotency_key: Option<RequestId>,
}

/// The document a request is about.
#[derive(Debug)]
pub struct DocumentName {
    pub room: RoomId,
    pub document: DocumentId,
}

impl Call {
    pub fn now(&self) -> Timestamp {
        self.calls.clock.now()
    }

    /// By what a read judges whether a lock is live.
    fn judged_at(&self) -> Judged {
        self.calls.life.judged_at(self.now())
    }

    /// The document's key, if the caller has the role and may enter the room.
    pub(crate) fn key(&self, role: Role, name: DocumentName) -> Result<DocumentKey, Problem> {
        self.caller.require_in(role, &name.room)?;
        Ok(DocumentKey { tenant: self.caller.tenant.clone(), room: name.room, document: name.document })
    }

    /// The same for several documents of one room.
    fn keys(&self, role: Role, room: &RoomId, documents: &Documents) -> Result<Vec<DocumentKey>, Problem> {
        self.caller.require_in(role, room)?;
        let tenant = &self.caller.tenant;
        let key = |document: &DocumentId| DocumentKey {
            tenant: tenant.clone(),
            room: room.clone(),
            document: document.clone(),
        };
        Ok(documents.as_slice().iter().map(key).collect())
    }

    fn holder(&self, session: Option<SessionId>) -> Holder {
        Holder { owner: self.caller.owner.clone(), session, name: self.caller.name.clone(), kind: self.caller.kind }
    }

    fn ttl(&self, given: Option<u32>) -> Result<Option<Ttl>, Problem> {
        given.map(|seconds| Ttl::parse(seconds, self.calls.max_ttl_seconds)).transpose()
    }

    /// Version 7, by doclock's own clock: leases of one moment lie together in the index.
    fn new_lease_id(&self) -> LeaseId {
        let millis = u64::try_from(self.now().millis()).unwrap_or_default();
        let mut random = [0; 10];
        // Leases identify, they do not authenticate: the owner is always checked.
        getrandom::fill(&mut random).unwrap_or_default();
        uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
    }

    async fn submit(&self, command: Command) -> Result<Outcome, Problem> {
        Ok(self.calls.committer.submit(command).await?)
    }

    /// Has a command on one document committed, and shows what was done.
    async fn one(&self, command: Command) -> Result<Timed<DoneView>, Problem> {
        Ok(self.one_lock(command).await?.0)
    }

    /// The same, with the lock itself if it lives.
    async fn one_lock(&self, command: Command) -> Result<(Timed<DoneView>, Option<Lock>), Problem> {
        let done = self.submit(command).await?.single();
        let now = self.now();
        let done = done.map_err(|refusal| self.refused(&refusal))?;
        let answer = Timed { answer: DoneView::new(&done, &self.caller, now), server_time: now };
        let lock = match done {
            Done::Live { lock, .. } => Some(lock),
            Done::Ended { .. } | Done::Waiting { .. } | Done::LeftLine | Done::Asked(_) => None,
        };
        Ok((answer, lock))
    }

    /// Has a command on several documents committed, and shows what was done to each.
    async fn many(&self, command: Command) -> Result<Timed<Items<DoneView>>, Problem> {
        let outcome = self.submit(command).await?;
        outcome.failed.iter().for_each(|failed| self.count(&failed.refusal));
        let now = self.now();
        Ok(Timed { answer: refusal::many(&outcome, &self.caller, now)?, server_time: now })
    }

    /// A rule said no: it is counted, and told in the words of the catalogue.
    fn refused(&self, refusal: &Refusal) -> Problem {
        self.count(refusal);
        refusal::problem(refusal, &self.caller, self.now())
    }

    fn count(&self, refusal: &Refusal) {
        let code = refusal::code(refusal).name();
        self.calls.refusals.with_label_values(&[code]).inc();
        self.calls.contention.count(&self.caller.tenant, code);
    }

    /// The token of the document's last grant, 0 if there never was one.
    pub(crate) async fn last_token(&self, key: &DocumentKey) -> Result<i64, Problem> {
        Ok(self.calls.queries.document(key, &self.judged_at()).await?.last_token)
    }

    pub(crate) fn timed<T>(&self, answer: T) -> Timed<T> {
        Timed { answer, server_time: self.now() }
    }
}

/// A JSON object, as the text that is kept of it.
fn metadata(given: Option<&serde_json::Map<String, serde_json::Value>>) -> Result<Option<Metadata>, Problem> {
    given.map(Metadata::new).transpose().map_err(|error| Problem::invalid("metadata", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_token_is_found_whatever_the_case_of_its_scheme() {
        for header in ["Bearer abc", "bearer abc", "BEARER  abc "] {
            assert_eq!(bearer(Some(header.as_bytes())).unwrap(), "abc");
        }
        for (header, code) in [
            (None, Code::TokenMissing),
            (Some(&b"Basic abc"[..]), Code::TokenMissing),
            (Some(b"Bearer"), Code::TokenMissing),
            (Some(b"Bearer  "), Code::TokenMissing),
            (Some("Bearer ä".as_bytes()), Code::TokenInvalid),
            (Some(b"Bearer \xff"), Code::TokenInvalid),
        ] {
            assert_eq!(bearer(header).unwrap_err().code, code, "{header:?}");
        }
    }
}
