//! Commands on document 0 that name nothing else. A test writes out what it needs with `..`:
//! `LockDocuments { capacity: Some(2), ..lock("bob") }`.

use super::samples::{ask_id, key, lease, owner, ticket_lease};
use crate::locking::{
    Answer, AnswerAsk, AskForLock, CancelAsk, Command, Expire, Extend, Fingerprint, ForceUnlock, Holder, HolderKind,
    LeaveLine, LockDocuments, Named, Release, Renew, Request, TakeOver, TicketName, Unlock, Wanted,
    names::{RequestId, TenantId},
};

/// The lease that a grant gets on document `number`: unlike those of locks built by [`super::state`].
pub fn wanted(document: u8) -> Wanted {
    Wanted { key: key(document), lease_id: lease(1000 + u128::from(document)) }
}

fn holder(name: &str) -> Holder {
    Holder { owner: owner(name), session: None, name: None, kind: HolderKind::Person }
}

pub fn lock(name: &str) -> LockDocuments {
    LockDocuments {
        tenant: TenantId::default_tenant(),
        wanted: vec![wanted(0)],
        holder: holder(name),
        ttl_seconds: None,
        takeover: None,
        capacity: None,
        metadata: None,
        document_version: None,
        request: None,
        waits: false,
    }
}

/// The same, but stands in line if it is held.
pub fn wait(name: &str) -> LockDocuments {
    LockDocuments { waits: true, ..lock(name) }
}

/// Of own locks only.
pub fn take_over() -> TakeOver {
    TakeOver { expected_token: None, of_others: false }
}

pub fn extend(name: &str) -> Extend {
    Extend {
        tenant: TenantId::default_tenant(),
        keys: vec![key(0)],
        owner: owner(name),
        named: Named::default(),
        ttl_seconds: None,
        metadata: None,
        activity: None,
        document_version: None,
        request: None,
    }
}

pub fn unlock(name: &str) -> Unlock {
    Unlock {
        tenant: TenantId::default_tenant(),
        keys: vec![key(0)],
        owner: owner(name),
        named: Named::default(),
        document_version: None,
        request: None,
    }
}

/// The goodbye of the page that got lease `number` and never resumed it.
pub fn release(name: &str, number: u128) -> Release {
    Release { key: key(0), owner: owner(name), lease_id: lease(number), hold: 1, linger_ms: 0 }
}

pub fn force_unlock(number: u128) -> ForceUnlock {
    ForceUnlock { targets: vec![(key(0), lease(number))], by: owner("root"), note: None }
}

/// Of the `number`th ticket built by [`super::state`].
pub fn leave_line(name: &str, number: u128) -> LeaveLine {
    LeaveLine { key: key(0), owner: owner(name), ticket: TicketName::Lease(ticket_lease(number)) }
}

/// By the server, of the lock with this lease.
pub fn renew(number: u128) -> Renew {
    Renew { leases: vec![(key(0), lease(number))] }
}

/// The ask gets number 9.
pub fn ask(name: &str) -> AskForLock {
    AskForLock { key: key(0), asker: holder(name), message: None, id: ask_id(9) }
}

pub fn deny(name: &str, number: u128) -> AnswerAsk {
    AnswerAsk {
        key: key(0),
        owner: owner(name),
        named: Named::default(),
        id: ask_id(number),
        answer: Answer::Deny,
        message: None,
    }
}

/// The asker's lock gets lease 1000.
pub fn hand_over(name: &str, number: u128) -> AnswerAsk {
    let answer = Answer::Grant { lease_id: wanted(0).lease_id, document_version: None };
    AnswerAsk { answer, ..deny(name, number) }
}

pub fn cancel_ask(name: &str, number: u128) -> CancelAsk {
    CancelAsk { key: key(0), owner: owner(name), id: ask_id(number) }
}

pub fn request(id: &str) -> Request {
    Request { id: RequestId::from_stored(id), fingerprint: Fingerprint([7; 16]) }
}

/// Another request under the same id.
pub fn other_request(id: &str) -> Request {
    Request { fingerprint: Fingerprint([8; 16]), ..request(id) }
}

macro_rules! commands {
    ($($Kind:ident($Inner:ident))+) => {$(
        impl From<$Inner> for Command {
            fn from(inner: $Inner) -> Self {
                Self::$Kind(inner)
            }
        }
    )+};
}

commands! {
    Lock(LockDocuments) Extend(Extend) Unlock(Unlock) Release(Release) ForceUnlock(ForceUnlock) Expire(Expire)
    Renew(Renew) LeaveLine(LeaveLine) Ask(AskForLock) Answer(AnswerAsk) CancelAsk(CancelAsk)
}
