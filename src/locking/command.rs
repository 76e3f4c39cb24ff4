//! What may be asked of the lock table.

use std::sync::Arc;

use uuid::Uuid;

use super::{
    Activity, DocumentKey, Holder, LeaseId, Lock, MemoKey, Metadata, Which,
    names::{DocumentVersion, OwnerId, RequestId, SessionId, TenantId},
};

#[derive(Debug, Clone)]
pub enum Command {
    Lock(LockDocuments),
    Extend(Extend),
    Unlock(Unlock),
    Release(Release),
    ForceUnlock(ForceUnlock),
    Expire(Expire),
    Renew(Renew),
    LeaveLine(LeaveLine),
    Ask(AskForLock),
    Answer(AnswerAsk),
    CancelAsk(CancelAsk),
}

/// Lock one document, or several all or nothing.
#[derive(Debug, Clone)]
pub struct LockDocuments {
    pub tenant: TenantId,
    pub wanted: Vec<Wanted>,
    pub holder: Holder,
    pub ttl_seconds: Option<u32>,
    pub takeover: Option<TakeOver>,
    pub capacity: Option<u32>,
    pub metadata: Option<Metadata>,
    pub document_version: Option<DocumentVersion>,
    pub request: Option<Request>,
    /// Stand in line if it is held. Only with one document.
    pub waits: bool,
}

#[derive(Debug, Clone)]
pub struct Wanted {
    pub key: DocumentKey,
    /// The id that a grant or a ticket gets. Chosen by the caller of `decide`, which itself is free of chance.
    pub lease_id: LeaseId,
}

/// Take the lock from whoever has it.
#[derive(Debug, Clone, Copy)]
pub struct TakeOver {
    pub expected_token: Option<i64>,
    /// Whether the caller may also end the locks of others.
    pub of_others: bool,
}

/// Which of the owner's locks is meant. With nothing named, only one taken without session.
#[derive(Debug, Clone, Default)]
pub struct Named {
    pub lease_id: Option<LeaseId>,
    pub session: Option<SessionId>,
    /// Of two tabs with one session the older one has a smaller one, and is refused.
    pub hold: Option<u32>,
}

/// A heartbeat for one document or several, each on its own.
#[derive(Debug, Clone)]
pub struct Extend {
    pub tenant: TenantId,
    pub keys: Vec<DocumentKey>,
    pub owner: OwnerId,
    pub named: Named,
    pub ttl_seconds: Option<u32>,
    pub metadata: Option<Metadata>,
    pub activity: Option<Activity>,
    /// The holder has saved the document as this version.
    pub document_version: Option<DocumentVersion>,
    pub request: Option<Request>,
}

/// Give up one document or several, each on its own.
#[derive(Debug, Clone)]
pub struct Unlock {
    pub tenant: TenantId,
    pub keys: Vec<DocumentKey>,
    pub owner: OwnerId,
    pub named: Named,
    pub document_version: Option<DocumentVersion>,
    pub request: Option<Request>,
}

/// The goodbye of a page that may be back in a moment: `hold` tells whether it already is.
#[derive(Debug, Clone)]
pub struct Release {
    pub key: DocumentKey,
    pub owner: OwnerId,
    pub lease_id: LeaseId,
    pub hold: u32,
    pub linger_ms: u32,
}

/// An admin ends locks, whoever holds them.
#[derive(Debug, Clone)]
pub struct ForceUnlock {
    pub targets: Vec<(DocumentKey, LeaseId)>,
    pub by: OwnerId,
    pub note: Option<Arc<str>>,
}

/// End what is overdue on these documents.
#[derive(Debug, Clone, Default)]
pub struct Expire {
    pub keys: Vec<DocumentKey>,
}

impl Expire {
    pub fn of(locks: &[Lock]) -> Self {
        Self { keys: locks.iter().map(|lock| lock.key.clone()).collect() }
    }
}

/// Extends locks by the server itself, each by its own ttl: those that are kept for sockets that have answered a ping, and
/// grants that have been claimed. It says and does nothing about asks: it is decided by locks alone.
#[derive(Debug, Clone, Default)]
pub struct Renew {
    pub leases: Vec<(DocumentKey, LeaseId)>,
}

/// Give up a place in a line, or the grant that came of it as long as nobody has claimed it.
#[derive(Debug, Clone)]
pub struct LeaveLine {
    pub key: DocumentKey,
    pub owner: OwnerId,
    pub ticket: TicketName,
}

/// Which of an owner's tickets in a line is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TicketName {
    Lease(LeaseId),
    Session(SessionId),
}

/// "May I have it?"
#[derive(Debug, Clone)]
pub struct AskForLock {
    pub key: DocumentKey,
    pub asker: Holder,
    pub message: Option<Arc<str>>,
    /// The id that the ask gets.
    pub id: Uuid,
}

/// The holder's answer to an ask.
#[derive(Debug, Clone)]
pub struct AnswerAsk {
    pub key: DocumentKey,
    pub owner: OwnerId,
    pub named: Named,
    pub id: Uuid,
    pub answer: Answer,
    pub message: Option<Arc<str>>,
}

#[derive(Debug, Clone)]
pub enum Answer {
    /// The lock moves to the asker, with this lease; the holder may leave a version.
    Grant {
        lease_id: LeaseId,
        document_version: Option<DocumentVersion>,
    },
    Deny,
}

/// The asker takes its ask back.
#[derive(Debug, Clone)]
pub struct CancelAsk {
    pub key: DocumentKey,
    pub owner: OwnerId,
    pub id: Uuid,
}

/// A request that may be sent again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub id: RequestId,
    pub fingerprint: Fingerprint,
}

impl Request {
    pub fn memo_key(&self, tenant: &TenantId, owner: &OwnerId) -> MemoKey {
        MemoKey { tenant: tenant.clone(), owner: owner.clone(), request_id: self.id.clone() }
    }
}

/// Digest of method, path and body: what must be equal for two requests to be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint(pub [u8; 16]);

/// What a command needs of the database before it can be decided, and whether it may take the short cut of a home.
#[derive(Debug)]
pub struct Needs<'c> {
    /// The documents it is about, in the order given. Their locks are always read; where one of those is wanted, the
    /// document's row, the front of its line and its open asks are read too.
    pub keys: Vec<&'c DocumentKey>,
    /// Whether the documents' own rows are needed anyway: the token, the capacity, the version.
    pub rows: bool,
    /// Whether lines and open asks are needed anyway.
    pub lines: bool,
    /// Who may get one lock or ticket more by it. Rows of documents that were never locked are made for it.
    pub grants_to: Option<(&'c TenantId, &'c OwnerId)>,
    /// A ticket that may stand anywhere in the line.
    pub ticket: Option<TicketNeeded<'c>>,
    /// An ask that may have ended.
    pub ask: Option<AskNeeded<'c>>,
    /// How many locks of each document it may end, overdue ones aside: so many tickets may be served.
    pub ends: usize,
    /// Where the memo of its request is, if it may be sent again.
    pub memo: Option<MemoKey>,
    /// Whose ended lock the caller may have to be told about, and which of that owner's.
    pub ending: Option<(&'c OwnerId, Which)>,
    pub short_cut: ShortCut,
}

/// A ticket by what its owner knows of it.
#[derive(Debug, Clone, Copy)]
pub struct TicketNeeded<'c> {
    pub owner: &'c OwnerId,
    pub lease_id: Option<LeaseId>,
    pub session: Option<&'c SessionId>,
    pub request_id: Option<&'c RequestId>,
}

#[derive(Debug, Clone, Copy)]
pub enum AskNeeded<'c> {
    Id(Uuid),
    /// The last one of this owner, on each document.
    LastOf(&'c OwnerId),
}

/// Whether a command that is alone on its documents may be decided by the rows of their locks and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShortCut {
    No,
    /// Unless it is refused, or somebody wants a lock of its document.
    Plain,
    /// Unless it ends a lock that somebody wants.
    Always,
}

impl Command {
    /// The one place that says what storage has to load for each command.
    pub fn needs(&self) -> Needs<'_> {
        let memo = |request: &Option<Request>, tenant: &TenantId, owner: &OwnerId| {
            request.as_ref().map(|request| request.memo_key(tenant, owner))
        };
        let plain_if = |is_plain| if is_plain { ShortCut::Plain } else { ShortCut::No };
        match self {
            Self::Lock(lock) => Needs {
                rows: true,
                lines: lock.waits,
                grants_to: Some((&lock.tenant, &lock.holder.owner)),
                ticket: lock.waits.then(|| TicketNeeded {
                    owner: &lock.holder.owner,
                    lease_id: None,
                    session: lock.holder.session.as_ref(),
                    request_id: lock.request.as_ref().map(|request| &request.id),
                }),
                ends: usize::from(lock.takeover.is_some()),
                memo: memo(&lock.request, &lock.tenant, &lock.holder.owner),
                ..Needs::of(lock.wanted.iter().map(|wanted| &wanted.key))
            },
            Self::Extend(extend) => Needs {
                rows: extend.document_version.is_some(),
                memo: memo(&extend.request, &extend.tenant, &extend.owner),
                ending: Some((&extend.owner, extend.named.which())),
                short_cut: plain_if(
                    extend.request.is_none() && extend.document_version.is_none() && extend.keys.len() == 1,
                ),
                ..Needs::of(&extend.keys)
            },
            Self::Unlock(unlock) => Needs {
                rows: unlock.document_version.is_some(),
                ends: 1,
                memo: memo(&unlock.request, &unlock.tenant, &unlock.owner),
                ending: Some((&unlock.owner, unlock.named.which())),
                short_cut: plain_if(
                    unlock.request.is_none() && unlock.document_version.is_none() && unlock.keys.len() == 1,
                ),
                ..Needs::of(&unlock.keys)
            },
            Self::Release(release) => Needs {
                ends: 1,
                ending: Some((&release.owner, Which::Lease(release.lease_id))),
                ..Needs::of([&release.key])
            },
            Self::ForceUnlock(force) => {
                Needs { ends: force.targets.len(), ..Needs::of(force.targets.iter().map(|(key, _)| key)) }
            }
            Self::Expire(expire) => Needs::of(&expire.keys),
            Self::Renew(renew) => {
                Needs { short_cut: ShortCut::Always, ..Needs::of(renew.leases.iter().map(|(key, _)| key)) }
            }
            Self::LeaveLine(leave) => {
                let (lease_id, session) = match &leave.ticket {
                    TicketName::Lease(lease_id) => (Some(*lease_id), None),
                    TicketName::Session(session) => (None, Some(session)),
                };
                Needs {
                    lines: true,
                    ticket: Some(TicketNeeded { owner: &leave.owner, lease_id, session, request_id: None }),
                    ends: 1,
                    ..Needs::of([&leave.key])
                }
            }
            Self::Ask(ask) => {
                Needs { lines: true, ask: Some(AskNeeded::LastOf(&ask.asker.owner)), ..Needs::of([&ask.key]) }
            }
            Self::Answer(answer) => {
                Needs { rows: true, lines: true, ask: Some(AskNeeded::Id(answer.id)), ..Needs::of([&answer.key]) }
            }
            Self::CancelAsk(cancel) => {
                Needs { lines: true, ask: Some(AskNeeded::Id(cancel.id)), ..Needs::of([&cancel.key]) }
            }
        }
    }
}

impl<'c> Needs<'c> {
    /// The locks of these documents and nothing else.
    fn of(keys: impl IntoIterator<Item = &'c DocumentKey>) -> Self {
        Self {
            keys: keys.into_iter().collect(),
            rows: false,
            lines: false,
            grants_to: None,
            ticket: None,
            ask: None,
            ends: 0,
            memo: None,
            ending: None,
            short_cut: ShortCut::No,
        }
    }
}
