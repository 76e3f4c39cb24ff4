//! What may be asked of the lock table.

use std::sync::Arc;

use super::{
    DocumentKey, Holder, LeaseId, Lock, MemoKey, Metadata, Which,
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
}

#[derive(Debug, Clone)]
pub struct Wanted {
    pub key: DocumentKey,
    /// The id a grant gets. Chosen by the caller of `decide`, which itself is free of chance.
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
    /// The documents it is about, in the order given. Their locks are always read.
    pub keys: Vec<&'c DocumentKey>,
    /// Whether it also looks at the documents' own rows: the token, the capacity, the version.
    pub rows: bool,
    /// Who may get one lock more by it. Rows of documents that were never locked are made for it.
    pub grants_to: Option<(&'c TenantId, &'c OwnerId)>,
    /// Where the memo of its request is, if it may be sent again.
    pub memo: Option<MemoKey>,
    /// Whose ended lock the caller may have to be told about, and which of that owner's.
    pub ending: Option<(&'c OwnerId, Which)>,
    /// Whether it is a heartbeat or an unlock of one document that touches the lock's row and nothing else.
    pub is_plain: bool,
}

impl Command {
    /// The one place that says what storage has to load for each command.
    pub fn needs(&self) -> Needs<'_> {
        let memo = |request: &Option<Request>, tenant: &TenantId, owner: &OwnerId| {
            request.as_ref().map(|request| request.memo_key(tenant, owner))
        };
        match self {
            Self::Lock(lock) => Needs {
                keys: lock.wanted.iter().map(|wanted| &wanted.key).collect(),
                rows: true,
                grants_to: Some((&lock.tenant, &lock.holder.owner)),
                memo: memo(&lock.request, &lock.tenant, &lock.holder.owner),
                ending: None,
                is_plain: false,
            },
            Self::Extend(extend) => Needs {
                keys: extend.keys.iter().collect(),
                rows: false,
                grants_to: None,
                memo: memo(&extend.request, &extend.tenant, &extend.owner),
                ending: Some((&extend.owner, extend.named.which())),
                is_plain: extend.request.is_none() && extend.keys.len() == 1,
            },
            Self::Unlock(unlock) => Needs {
                keys: unlock.keys.iter().collect(),
                rows: unlock.document_version.is_some(),
                grants_to: None,
                memo: memo(&unlock.request, &unlock.tenant, &unlock.owner),
                ending: Some((&unlock.owner, unlock.named.which())),
                is_plain: unlock.request.is_none() && unlock.document_version.is_none() && unlock.keys.len() == 1,
            },
            Self::Release(release) => {
                Needs { ending: Some((&release.owner, Which::Lease(release.lease_id))), ..Needs::of([&release.key]) }
            }
            Self::ForceUnlock(force) => Needs::of(force.targets.iter().map(|(key, _)| key)),
            Self::Expire(expire) => Needs::of(&expire.keys),
        }
    }
}

impl<'c> Needs<'c> {
    /// The locks of these documents and nothing else.
    fn of(keys: impl IntoIterator<Item = &'c DocumentKey>) -> Self {
        let keys = keys.into_iter().collect();
        Self { keys, rows: false, grants_to: None, memo: None, ending: None, is_plain: false }
    }
}
