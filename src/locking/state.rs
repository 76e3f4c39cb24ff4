//! What a decision looks at, and how decisions change it.

use std::collections::HashMap;

use super::{
    Ask, DocumentKey, EndReason, Fingerprint, Holder, LeaseId, Line, Lock, Needs, Ticket, Timestamp,
    decide::distinct,
    names::{DocumentVersion, OwnerId, RequestId, SessionId, TenantId},
};

/// The part of the database that a batch of commands is about.
#[derive(Debug, Clone, Default)]
pub struct State {
    pub policy: Policy,
    /// New tokens are above it, whatever the document's own says: set after a restore from a backup.
    pub token_floor: i64,
    /// Rows that were read. A document nobody ever locked has the default row; one that is not here was not read, and
    /// nothing can be granted on it.
    pub documents: HashMap<DocumentKey, DocumentRow>,
    /// Live and overdue ones, by document, oldest first: whichever rule picks one picks the same in every database.
    pub locks: HashMap<DocumentKey, Vec<Lock>>,
    /// Of documents that somebody waits for, as far as they were read.
    pub lines: HashMap<DocumentKey, Line>,
    /// Open asks, and ended ones that a command needs.
    pub asks: HashMap<DocumentKey, Vec<Ask>>,
    pub memos: HashMap<MemoKey, Memo>,
    pub endings: HashMap<Lookup, Ending>,
    /// Of those owners who may get one more.
    pub owner_locks: HashMap<(TenantId, OwnerId), u32>,
    /// How many tickets each owner has that may get one more.
    pub owner_tickets: HashMap<(TenantId, OwnerId), u32>,
}

/// Settings that decisions depend on.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    pub ttl_seconds: u32,
    /// 0: no limit.
    pub locks_per_owner: u32,
    /// Tickets of one owner. 0: no limit.
    pub waits_per_owner: u32,
    pub memo_retention_ms: i64,
    pub event_retention_ms: i64,
}

impl Default for Policy {
    fn default() -> Self {
        const DAY_MS: i64 = 86_400_000;
        Self {
            ttl_seconds: 30,
            locks_per_owner: 0,
            waits_per_owner: 0,
            memo_retention_ms: DAY_MS,
            event_retention_ms: 30 * DAY_MS,
        }
    }
}

/// What a document keeps past its locks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DocumentRow {
    pub fencing_token: i64,
    /// Meaningful while it has locks.
    pub capacity: u32,
    pub version: Option<DocumentVersion>,
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
    End {
        lock: Lock,
        ending: Ending,
    },
    /// What a grant does to its document: the token always grows.
    Document {
        key: DocumentKey,
        row: DocumentRow,
    },
    /// The version a holder leaves, and nothing else of the document.
    Version {
        key: DocumentKey,
        version: DocumentVersion,
    },
    Remember {
        key: MemoKey,
        memo: Memo,
        /// Nothing is written if another request has used the id meanwhile, and that is still remembered.
        if_unused: bool,
    },
    Forget(MemoKey),
    /// A new ticket, or one that its holder has asked for again.
    Queue(Ticket),
    /// The ticket is served, given up or dead.
    Dequeue(Ticket),
    Ask(Ask),
    /// The ask has got an outcome.
    Answer(Ask),
}

impl State {
    pub fn with_policy(policy: Policy) -> Self {
        Self { policy, ..Self::default() }
    }

    pub fn add_locks(&mut self, locks: Vec<Lock>) {
        for lock in locks {
            self.locks.entry(lock.key.clone()).or_default().push(lock);
        }
        for locks in self.locks.values_mut().filter(|locks| !locks.is_sorted_by_key(|lock| lock.fencing_token)) {
            locks.sort_unstable_by_key(|lock| lock.fencing_token);
        }
    }

    pub(super) fn apply(&mut self, change: &Change) {
        match change {
            Change::Grant(lock) => {
                self.locks.entry(lock.key.clone()).or_default().push(lock.clone());
                if let Some(count) = self.owner_locks.get_mut(&owner_of(lock)) {
                    *count += 1;
                }
            }
            Change::Keep(lock) => {
                let locks = self.locks.entry(lock.key.clone()).or_default();
                if let Some(kept) = locks.iter_mut().find(|kept| kept.lease_id == lock.lease_id) {
                    *kept = lock.clone();
                }
            }
            Change::End { lock, ending } => {
                self.locks.entry(lock.key.clone()).or_default().retain(|kept| kept.lease_id != lock.lease_id);
                if let Some(count) = self.owner_locks.get_mut(&owner_of(lock)) {
                    *count = count.saturating_sub(1);
                }
                for which in names_of(lock) {
                    let lookup = Lookup { key: lock.key.clone(), owner: lock.holder.owner.clone(), which };
                    self.endings.insert(lookup, ending.clone());
                }
            }
            Change::Document { key, row } => {
                self.documents.insert(key.clone(), row.clone());
            }
            Change::Version { key, version } => {
                if let Some(row) = self.documents.get_mut(key) {
                    row.version = Some(version.clone());
                }
            }
            Change::Remember { key, memo, if_unused } => {
                let oldest = memo.created_at.plus_millis(-self.policy.memo_retention_ms);
                let is_used = self.memos.get(key).is_some_and(|known| known.created_at > oldest);
                if !(*if_unused && is_used) {
                    self.memos.insert(key.clone(), memo.clone());
                }
            }
            Change::Forget(key) => {
                self.memos.remove(key);
            }
            Change::Queue(ticket) => {
                let line = self.lines.entry(ticket.key.clone()).or_default();
                line.last_place = line.last_place.max(ticket.place);
                let is_new = line.tickets.insert(ticket.place, ticket.clone()).is_none();
                if let Some(count) =
                    self.owner_tickets.get_mut(&owner_in(&ticket.key, &ticket.holder)).filter(|_| is_new)
                {
                    *count += 1;
                }
            }
            Change::Dequeue(ticket) => {
                if let Some(line) = self.lines.get_mut(&ticket.key) {
                    line.tickets.remove(&ticket.place);
                }
                if let Some(count) = self.owner_tickets.get_mut(&owner_in(&ticket.key, &ticket.holder)) {
                    *count = count.saturating_sub(1);
                }
            }
            Change::Ask(ask) | Change::Answer(ask) => {
                let asks = self.asks.entry(ask.key.clone()).or_default();
                match asks.iter_mut().find(|known| known.id == ask.id) {
                    Some(known) => *known = ask.clone(),
                    None => asks.push(ask.clone()),
                }
            }
        }
    }

    /// Open asks for a lease, in the order in which they were asked.
    pub(super) fn asks_for(&self, lock: &Lock) -> impl Iterator<Item = &Ask> {
        let asks = self.asks.get(&lock.key).map(Vec::as_slice).unwrap_or_default();
        let open = asks.iter().filter(|ask| ask.lease_id == lock.lease_id && ask.outcome.is_none());
        let mut open: Vec<_> = open.collect();
        open.sort_unstable_by_key(|ask| (ask.asked_at, ask.id));
        open.into_iter()
    }

    pub(super) fn locks_of(&self, key: &DocumentKey) -> &[Lock] {
        self.locks.get(key).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns which ends of earlier locks the command may ask about: those of the locks that its request got when it came
    /// before, else of the lock that it names. Locks that are in the state need no look-up: should they end within the
    /// batch, `apply` notes how.
    pub fn lookups(&self, needs: &Needs<'_>) -> Vec<Lookup> {
        let memo = needs.memo.as_ref().and_then(|key| Some((&key.owner, self.memos.get(key)?)));
        match (memo, &needs.ending) {
            (Some((owner, memo)), _) => {
                let keys = distinct(needs.keys.iter().copied(), |key| *key);
                self.missing(owner, keys.zip(&memo.locks).map(|(key, lock)| (key, Which::Lease(lock.lease_id))))
            }
            (None, Some((owner, which))) => self.missing(owner, needs.keys.iter().map(|key| (*key, which.clone()))),
            (None, None) => Vec::new(),
        }
    }

    fn missing<'a>(&self, owner: &OwnerId, asked: impl Iterator<Item = (&'a DocumentKey, Which)>) -> Vec<Lookup> {
        asked
            .filter(|(key, which)| {
                !self.locks_of(key).iter().any(|lock| lock.holder.owner == *owner && which.means(lock))
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
    owner_in(&lock.key, &lock.holder)
}

fn owner_in(key: &DocumentKey, holder: &Holder) -> (TenantId, OwnerId) {
    (key.tenant.clone(), holder.owner.clone())
}

fn names_of(lock: &Lock) -> impl Iterator<Item = Which> + use<> {
    [Which::Any, Which::Lease(lock.lease_id)].into_iter().chain(lock.holder.session.clone().map(Which::Session))
}
