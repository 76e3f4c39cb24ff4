//! A builder of states: `state().held_by("alice").session("tab").token(3)`.

use super::{
    commands::request,
    samples::{NOW, key, lease, owner, session},
};
use crate::locking::{
    Activity, Change, DocumentKey, DocumentRow, EndReason, Ending, Holder, HolderKind, Lock, Memo, MemoLock, Policy,
    Span, State,
    names::{DocumentVersion, TenantId},
};

/// Documents 0 to 3, which nobody ever locked.
pub fn state() -> StateBuilder {
    StateBuilder { state: State::default(), document: 0, locks: Vec::new(), rows: [const { None }; 4] }
}

/// Sentences about locks speak of the one that was added last.
#[derive(Debug, Clone)]
pub struct StateBuilder {
    state: State,
    document: u8,
    locks: Vec<(Lock, Option<Ending>)>,
    rows: [Option<DocumentRow>; 4],
}

impl StateBuilder {
    /// What follows is about this document. Without it, about document 0.
    pub fn document(mut self, number: u8) -> Self {
        self.document = number;
        self
    }

    /// The `n`th lock built has lease `n`, the next slot and token of its document, no session, and five seconds left of thirty.
    pub fn held_by(mut self, name: &str) -> Self {
        let of_document = || self.locks.iter().filter(|(lock, _)| lock.key == key(self.document));
        let slot = of_document().filter(|(_, ending)| ending.is_none()).count();
        let last_token = of_document().map(|(lock, _)| lock.fencing_token).max().unwrap_or_default();
        let expires_at = NOW.plus_millis(5000);
        let lock = Lock {
            key: key(self.document),
            slot: u32::try_from(slot).unwrap(),
            lease_id: lease(self.locks.len() as u128 + 1),
            hold: 1,
            fencing_token: last_token + 1,
            holder: Holder { owner: owner(name), session: None, name: None, kind: HolderKind::Person },
            acquired_at: NOW.plus_millis(-25_000),
            expires_at,
            due_at: expires_at,
            ttl_seconds: 30,
            metadata: None,
            document_version: None,
            span: Span::Ttl,
            activity: Activity::Active,
            active_at: NOW.plus_millis(-25_000),
            is_wanted: false,
            extend_ids: Vec::new(),
        };
        self.locks.push((lock, None));
        self
    }

    pub fn session(mut self, name: &str) -> Self {
        self.last().holder.session = Some(session(name));
        self
    }

    pub fn token(mut self, token: i64) -> Self {
        self.last().fencing_token = token;
        self
    }

    pub fn slot(mut self, slot: u32) -> Self {
        self.last().slot = slot;
        self
    }

    pub fn hold(mut self, hold: u32) -> Self {
        self.last().hold = hold;
        self
    }

    /// Zero or less: it is overdue.
    pub fn left_ms(mut self, millis: i64) -> Self {
        let lock = self.last();
        lock.expires_at = NOW.plus_millis(millis);
        lock.due_at = lock.expires_at;
        self
    }

    /// Its time ended just now, and nobody has noticed.
    pub fn overdue(self) -> Self {
        self.left_ms(0)
    }

    /// Its page said goodbye.
    pub fn lingering(mut self) -> Self {
        self.last().linger_ms = Some(3000);
        self
    }

    /// It is gone, and only the log knows of it.
    pub fn that_ended(mut self, reason: EndReason, ago_ms: i64) -> Self {
        let (_, ending) = self.locks.last_mut().unwrap();
        *ending = Some(Ending { reason, at: NOW.plus_millis(-ago_ms) });
        self
    }

    /// Request `id` of its holder got it, a second ago.
    pub fn got_by_request(mut self, id: &str) -> Self {
        let lock = self.last().clone();
        let locks = vec![MemoLock { lease_id: lock.lease_id, fencing_token: lock.fencing_token, resumed: false }];
        let request = request(id);
        let memo = Memo { fingerprint: request.fingerprint, created_at: NOW.plus_millis(-1000), locks };
        self.state.memos.insert(request.memo_key(&lock.key.tenant, &lock.holder.owner), memo);
        self
    }

    /// Of the document. Without it, as many as it has locks.
    pub fn capacity(mut self, capacity: u32) -> Self {
        self.row().capacity = capacity;
        self
    }

    /// Left by the document's last holder.
    pub fn version(mut self, version: &str) -> Self {
        self.row().version = Some(DocumentVersion::from_stored(version));
        self
    }

    pub fn locks_per_owner(self, limit: u32) -> Self {
        self.policy(|policy| policy.locks_per_owner = limit)
    }

    pub fn policy(mut self, change: impl FnOnce(&mut Policy)) -> Self {
        change(&mut self.state.policy);
        self
    }

    pub fn build(self) -> State {
        let Self { mut state, locks, rows, .. } = self;
        for (number, row) in (0..).zip(rows) {
            state.documents.insert(key(number), row.unwrap_or_default());
        }
        for (lock, ending) in locks {
            let row = state.documents.get_mut(&lock.key).unwrap();
            row.fencing_token = row.fencing_token.max(lock.fencing_token);
            *state.owner_locks.entry((TenantId::default_tenant(), lock.holder.owner.clone())).or_default() += 1;
            state.add_locks(vec![lock.clone()]);
            if let Some(ending) = ending {
                state.apply(&Change::End { lock, ending });
            }
        }
        for (key, row) in &mut state.documents {
            let count = |key: &DocumentKey| state.locks.get(key).map_or(0, Vec::len);
            row.capacity = row.capacity.max(u32::try_from(count(key)).unwrap());
        }
        state
    }

    /// The lock that was added last.
    pub fn lock(&self) -> Lock {
        self.locks.last().unwrap().0.clone()
    }

    fn last(&mut self) -> &mut Lock {
        &mut self.locks.last_mut().unwrap().0
    }

    fn row(&mut self) -> &mut DocumentRow {
        self.rows[usize::from(self.document)].get_or_insert_default()
    }
}
