//! What may be asked of the lock table.

use std::sync::Arc;

use super::{
    DocumentKey, Holder, LeaseId, Lock, MemoKey, Metadata,
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

impl Command {
    /// Whether it looks at more of its documents than their locks: the token, the capacity, the version.
    pub fn needs_documents(&self) -> bool {
        match self {
            Self::Lock(_) => true,
            Self::Unlock(unlock) => unlock.document_version.is_some(),
            Self::Extend(_) | Self::Release(_) | Self::ForceUnlock(_) | Self::Expire(_) => false,
        }
    }

    /// Where its memo would be.
    pub fn memo_key(&self) -> Option<MemoKey> {
        match self {
            Self::Lock(lock) => Some(lock.request.as_ref()?.memo_key(&lock.tenant, &lock.holder.owner)),
            Self::Extend(extend) => {
                Some(extend.request.as_ref()?.memo_key(&extend.keys.first()?.tenant, &extend.owner))
            }
            Self::Unlock(unlock) => Some(unlock.request.as_ref()?.memo_key(&unlock.tenant, &unlock.owner)),
            Self::Release(_) | Self::ForceUnlock(_) | Self::Expire(_) => None,
        }
    }

    /// The documents it looks at, in the order given.
    pub fn keys(&self) -> impl Iterator<Item = &DocumentKey> {
        let (wanted, keys, targets): (&[Wanted], &[DocumentKey], &[(DocumentKey, LeaseId)]) = match self {
            Self::Lock(lock) => (&lock.wanted, &[], &[]),
            Self::Extend(extend) => (&[], &extend.keys, &[]),
            Self::Unlock(unlock) => (&[], &unlock.keys, &[]),
            Self::Release(release) => (&[], std::slice::from_ref(&release.key), &[]),
            Self::ForceUnlock(force) => (&[], &[], &force.targets),
            Self::Expire(expire) => (&[], &expire.keys, &[]),
        };
        wanted.iter().map(|wanted| &wanted.key).chain(keys).chain(targets.iter().map(|(key, _)| key))
    }
}
