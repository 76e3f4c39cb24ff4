//! What a decision looks at, and how decisions change it.

use std::collections::HashMap;

use super::{
    Command, DocumentKey, EndReason, Fingerprint, LeaseId, Lock, Timestamp,
    names::{DocumentVersion, OwnerId, RequestId, SessionId, TenantId},
};

/// The part of the database that a batch of commands is about.
#[derive(Debug, Clone, Default)]
pub struct State {
    pub policy: Policy,
    /// New tokens are above it, whatever the document's own says: set after a restore from a backup.
    pub token_floor: i64,
    pub documents: HashMap<DocumentKey, DocumentState>,
    pub memos: HashMap<MemoKey, Memo>,
    pub endings: HashMap<Lookup, Ending>,
    /// Of those owners who may get one more.
    pub owner_locks: HashMap<(TenantId, OwnerId), u32>,
}

/// Settings that decisions depend on.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    pub ttl_seconds: u32,
    /// 0: no limit.
    pub locks_per_owner: u32,
    pub memo_retention_ms: i64,
    pub event_retention_ms: i64,
}

impl Default for Policy {
    fn default() -> Self {
        const DAY_MS: i64 = 86_400_000;
        Self { ttl_seconds: 30, locks_per_owner: 0, memo_retention_ms: DAY_MS, event_retention_ms: 30 * DAY_MS }
    }
}

/// A document nobody ever locked is the default: no row, token 0. So is, but for its locks, one of which nobody needs
/// more.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DocumentState {
    pub fencing_token: i64,
    /// Meaningful while it has locks.
    pub capacity: u32,
    pub version: Option<DocumentVersion>,
    /// Live and overdue ones, by slot or any order.
    pub locks: Vec<Lock>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoKey {
    pub tenant: TenantId,
    pub owner: OwnerId,
    pub request_id: RequestId,
}

/// What a request did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memo {
    pub fingerprint: Fingerprint,
    pub created_at: Timestamp,
    pub locks: Vec<MemoLock>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoLock {
    pub lease_id: LeaseId,
    pub fencing_token: i64,
    pub resumed: bool,
}

/// A question to the log: how did the owner's last lock on this document end?
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lookup {
    pub key: DocumentKey,
    pub owner: OwnerId,
    pub which: Which,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Which {
    Lease(LeaseId),
    Session(SessionId),
    Any,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    pub reason: EndReason,
    /// Of an expired lock the moment it was due, whenever that was noticed.
    pub at: Timestamp,
}

/// One row to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Grant(Lock),
    Keep(Lock),
    End { lock: Lock, ending: Ending },
    Document { key: DocumentKey, fencing_token: i64, capacity: u32, version: Option<DocumentVersion> },
    Remember { key: MemoKey, memo: Memo },
}

impl State {
    pub fn with_policy(policy: Policy) -> Self {
        Self { policy, ..Self::default() }
    }

    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Grant(lock) => {
                self.documents.entry(lock.key.clone()).or_default().locks.push(lock.clone());
                if let Some(count) = self.owner_locks.get_mut(&owner_of(lock)) {
                    *count += 1;
                }
            }
            Change::Keep(lock) => {
                let locks = &mut self.documents.entry(lock.key.clone()).or_default().locks;
                if let Some(kept) = locks.iter_mut().find(|kept| kept.lease_id == lock.lease_id) {
                    *kept = lock.clone();
                }
            }
            Change::End { lock, ending } => {
                let locks = &mut self.documents.entry(lock.key.clone()).or_default().locks;
                locks.retain(|kept| kept.lease_id != lock.lease_id);
                if let Some(count) = self.owner_locks.get_mut(&owner_of(lock)) {
                    *count = count.saturating_sub(1);
                }
                for which in names_of(lock) {
                    let lookup = Lookup { key: lock.key.clone(), owner: lock.holder.owner.clone(), which };
                    self.endings.insert(lookup, ending.clone());
                }
            }
            Change::Document { key, fencing_token, capacity, version } => {
                let document = self.documents.entry(key.clone()).or_default();
                document.fencing_token = *fencing_token;
                document.capacity = *capacity;
                document.version.clone_from(version);
            }
            Change::Remember { key, memo } => {
                self.memos.insert(key.clone(), memo.clone());
            }
        }
    }

    /// Which ends of earlier locks the command may ask about. Locks that are in the state need no look-up: should
    /// they end within the batch, [`State::apply`] notes how.
    pub fn lookups(&self, command: &Command) -> Vec<Lookup> {
        match command {
            Command::Lock(lock) => {
                let memo = command.memo_key().and_then(|key| self.memos.get(&key));
                let leases = memo.into_iter().flat_map(|memo| &memo.locks);
                let pairs = lock.wanted.iter().zip(leases);
                self.missing(&lock.holder.owner, pairs.map(|(wanted, memo)| (&wanted.key, Which::Lease(memo.lease_id))))
            }
            Command::Extend(extend) => {
                self.missing(&extend.owner, extend.keys.iter().map(|key| (key, extend.named.which())))
            }
            Command::Unlock(unlock) => {
                self.missing(&unlock.owner, unlock.keys.iter().map(|key| (key, unlock.named.which())))
            }
            Command::Release(release) => {
                self.missing(&release.owner, std::iter::once((&release.key, Which::Lease(release.lease_id))))
            }
            Command::ForceUnlock(_) | Command::Expire(_) => Vec::new(),
        }
    }

    fn missing<'a>(&self, owner: &OwnerId, asked: impl Iterator<Item = (&'a DocumentKey, Which)>) -> Vec<Lookup> {
        asked
            .filter(|(key, which)| {
                let locks = self.documents.get(*key).map(|document| document.locks.as_slice()).unwrap_or_default();
                !locks.iter().any(|lock| lock.holder.owner == *owner && which.means(lock))
            })
            .map(|(key, which)| Lookup { key: key.clone(), owner: owner.clone(), which })
            .collect()
    }
}

impl Which {
    pub(super) fn means(&self, lock: &Lock) -> bool {
        match self {
            Self::Lease(lease_id) => lock.lease_id == *lease_id,
            Self::Session(session) => lock.holder.session.as_ref() == Some(session),
            Self::Any => true,
        }
    }
}

fn owner_of(lock: &Lock) -> (TenantId, OwnerId) {
    (lock.key.tenant.clone(), lock.holder.owner.clone())
}

fn names_of(lock: &Lock) -> impl Iterator<Item = Which> + use<> {
    [Which::Any, Which::Lease(lock.lease_id)].into_iter().chain(lock.holder.session.clone().map(Which::Session))
}
