//! A builder of states: `state().held_by("alice").session("tab").token(3).waited_for_by("bob").asked_for_by("carol")`.

use super::{
    commands::request,
    samples::{NOW, ask_id, key, lease, owner, session, ticket_lease},
};
use crate::locking::{
    Activity, Ask, AskOutcome, Change, DocumentKey, DocumentRow, EndReason, Ending, Holder, HolderKind, Lock, Memo,
    MemoLock, Policy, Span, State, Ticket,
    names::{DocumentVersion, TenantId},
};

/// Documents 0 to 3, which nobody ever locked.
pub fn state() -> StateBuilder {
    StateBuilder {
        state: State::default(),
        document: 0,
        locks: Vec::new(),
        tickets: Vec::new(),
        asks: Vec::new(),
        rows: [const { None }; 4],
        last: Last::Lock,
    }
}

/// Sentences about locks, tickets and asks speak of the one that was added last.
#[derive(Debug, Clone)]
pub struct StateBuilder {
    state: State,
    document: u8,
    locks: Vec<(Lock, Option<Ending>)>,
    tickets: Vec<Ticket>,
    asks: Vec<Ask>,
    rows: [Option<DocumentRow>; 4],
    last: Last,
}

#[derive(Debug, Clone, Copy)]
enum Last {
    Lock,
    Ticket,
    Ask,
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
            holder: holder(name),
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
        self.last = Last::Lock;
        self
    }

    /// The `n`th ticket built has [`ticket_lease`] `n`, the next place in its document's line, no session, and five seconds
    /// left of fifteen.
    pub fn waited_for_by(mut self, name: &str) -> Self {
        let before = self.tickets.iter().filter(|ticket| ticket.key == key(self.document)).count();
        self.tickets.push(Ticket {
            key: key(self.document),
            place: i64::try_from(before).unwrap() + 1,
            lease_id: ticket_lease(self.tickets.len() as u128 + 1),
            holder: holder(name),
            ttl_seconds: 30,
            metadata: None,
            request: None,
            joined_at: NOW.plus_millis(-10_000),
            expires_at: NOW.plus_millis(5000),
        });
        self.last = Last::Ticket;
        self
    }

    /// Of the lock that was added last. The `n`th ask built has [`ask_id`] `n`, and five seconds left of thirty.
    pub fn asked_for_by(mut self, name: &str) -> Self {
        let lock = self.lock();
        self.asks.push(Ask {
            id: ask_id(self.asks.len() as u128 + 1),
            key: lock.key,
            lease_id: lock.lease_id,
            holder: lock.holder.owner,
            asker: holder(name),
            message: None,
            asked_at: NOW.plus_millis(-25_000),
            expires_at: NOW.plus_millis(5000),
            outcome: None,
            answer: None,
        });
        self.last = Last::Ask;
        self
    }

    /// Of the lock, the ticket or the ask.
    pub fn session(mut self, name: &str) -> Self {
        let holder = match self.last {
            Last::Lock => &mut self.last().holder,
            Last::Ticket => &mut self.last_ticket().holder,
            Last::Ask => &mut self.last_ask().asker,
        };
        holder.session = Some(session(name));
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

    /// Zero or less: the lock is overdue, the ticket dead, the ask unanswered.
    pub fn left_ms(mut self, millis: i64) -> Self {
        let end = NOW.plus_millis(millis);
        match self.last {
            Last::Lock => (self.last().expires_at, self.last().due_at) = (end, end),
            Last::Ticket => self.last_ticket().expires_at = end,
            Last::Ask => self.last_ask().expires_at = end,
        }
        self
    }

    /// Nobody has renewed the ticket.
    pub fn dead(self) -> Self {
        self.left_ms(0)
    }

    /// The ticket was asked for by request `id`.
    pub fn by_request(mut self, id: &str) -> Self {
        self.last_ticket().request = Some(request(id));
        self
    }

    pub fn asked_ms_ago(mut self, millis: i64) -> Self {
        self.last_ask().asked_at = NOW.plus_millis(-millis);
        self
    }

    /// The ask has ended so.
    pub fn that_was(mut self, outcome: AskOutcome) -> Self {
        self.last_ask().outcome = Some(outcome);
        self
    }

    /// Its time ended just now, and nobody has noticed.
    pub fn overdue(self) -> Self {
        self.left_ms(0)
    }

    /// It was granted to somebody who waited, and nobody has claimed it.
    pub fn unclaimed(mut self) -> Self {
        self.last().span = Span::Claim(5000);
        self
    }

    /// Its page said goodbye.
    pub fn lingering(mut self) -> Self {
        self.last().span = Span::Linger(3000);
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

    pub fn waits_per_owner(self, limit: u32) -> Self {
        self.policy(|policy| policy.waits_per_owner = limit)
    }

    pub fn locks_per_owner(self, limit: u32) -> Self {
        self.policy(|policy| policy.locks_per_owner = limit)
    }

    pub fn policy(mut self, change: impl FnOnce(&mut Policy)) -> Self {
        change(&mut self.state.policy);
        self
    }

    pub fn build(self) -> State {
        let Self { mut state, locks, tickets, asks, rows, .. } = self;
        for (number, row) in (0..).zip(rows) {
            state.documents.insert(key(number), row.unwrap_or_default());
        }
        for (mut lock, ending) in locks {
            lock.is_wanted = tickets.iter().any(|ticket| ticket.key == lock.key)
                || asks.iter().any(|ask| ask.lease_id == lock.lease_id && ask.outcome.is_none());
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
        for ticket in tickets {
            state.owner_tickets.entry((TenantId::default_tenant(), ticket.holder.owner.clone())).or_default();
            state.apply(&Change::Queue(ticket));
        }
        for ask in asks {
            state.apply(&Change::Ask(ask));
        }
        state
    }

    /// The lock that was added last.
    pub fn lock(&self) -> Lock {
        self.locks.last().unwrap().0.clone()
    }

    /// As [`StateBuilder::lock`], where somebody waits for it.
    pub fn wanted_lock(&self) -> Lock {
        Lock { is_wanted: true, ..self.lock() }
    }

    pub fn ask(&self) -> Ask {
        self.asks.last().unwrap().clone()
    }

    fn last(&mut self) -> &mut Lock {
        &mut self.locks.last_mut().unwrap().0
    }

    fn last_ticket(&mut self) -> &mut Ticket {
        self.tickets.last_mut().unwrap()
    }

    fn last_ask(&mut self) -> &mut Ask {
        self.asks.last_mut().unwrap()
    }

    fn row(&mut self) -> &mut DocumentRow {
        self.rows[usize::from(self.document)].get_or_insert_default()
    }
}

fn holder(name: &str) -> Holder {
    Holder { owner: owner(name), session: None, name: None, kind: HolderKind::Person }
}
