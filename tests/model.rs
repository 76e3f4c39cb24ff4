//! Random histories against a small model that was written without looking at the rules' code, and the same history in
//! any batching against one command at a time. On both databases.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

#[path = "support/postgres.rs"]
mod postgres;

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
    time::Duration,
};

use doclock::{
    auth::RoomGlobs,
    clock::{Clock, ManualClock},
    life::Life,
    locking::{
        Command, DocumentKey, Done, Expire, Extend, Fingerprint, ForceUnlock, Holder, LockDocuments, Named, Outcome,
        Policy, Release, Request, TakeOver, Timestamp, Unlock, Wanted,
        names::{DocumentId, OwnerId, RequestId, RoomId, SessionId, TenantId},
    },
    settings::DatabaseUrl,
    storage::{Storage, Writer, queries::EventFilter},
};
use proptest::{collection::vec, option, prelude::*};
use tempfile::TempDir;
use uuid::Uuid;

#[derive(Debug, Clone)]
struct Step {
    after_ms: u32,
    act: Act,
}

#[derive(Debug, Clone)]
enum Act {
    Lock {
        documents: Vec<u8>,
        owner: u8,
        session: Option<u8>,
        ttl: u32,
        takeover: bool,
        capacity: Option<u32>,
        request: Option<u8>,
    },
    Extend {
        document: u8,
        owner: u8,
        named: Name,
        request: Option<u8>,
    },
    Unlock {
        document: u8,
        owner: u8,
        named: Name,
        request: Option<u8>,
    },
    Release {
        document: u8,
        owner: u8,
        lease: usize,
        linger_ms: u32,
    },
    Force {
        document: u8,
        lease: usize,
    },
    Expire,
}

#[derive(Debug, Clone)]
enum Name {
    Nothing,
    Session(u8),
    /// Counted back from the newest lease.
    Lease(usize),
}

fn name() -> impl Strategy<Value = Name> {
    prop_oneof![Just(Name::Nothing), (0..2_u8).prop_map(Name::Session), (0..4_usize).prop_map(Name::Lease)]
}

fn act() -> impl Strategy<Value = Act> {
    let request = || option::weighted(0.3, 0..3_u8);
    prop_oneof![
        6 => (
            prop_oneof![4 => vec(0..2_u8, 1), 1 => Just(vec![0, 1])],
            0..3_u8,
            option::of(0..2_u8),
            prop_oneof![Just(1_u32), Just(5), Just(30)],
            prop::bool::weighted(0.2),
            option::weighted(0.3, 1..3_u32),
            request(),
        )
            .prop_map(|(documents, owner, session, ttl, takeover, capacity, request)| Act::Lock {
                documents, owner, session, ttl, takeover, capacity, request
            }),
        3 => (0..2_u8, 0..3_u8, name(), request())
            .prop_map(|(document, owner, named, request)| Act::Extend { document, owner, named, request }),
        3 => (0..2_u8, 0..3_u8, name(), request())
            .prop_map(|(document, owner, named, request)| Act::Unlock { document, owner, named, request }),
        1 => (0..2_u8, 0..3_u8, 0..4_usize, prop_oneof![Just(0_u32), Just(3000)])
            .prop_map(|(document, owner, lease, linger_ms)| Act::Release { document, owner, lease, linger_ms }),
        1 => (0..2_u8, 0..4_usize).prop_map(|(document, lease)| Act::Force { document, lease }),
        1 => Just(Act::Expire),
    ]
}

fn history() -> impl Strategy<Value = Vec<Step>> {
    let after_ms = prop_oneof![5 => Just(0_u32), 2 => 1..1500_u32, 1 => 4000..40_000_u32];
    vec((after_ms, act()).prop_map(|(after_ms, act)| Step { after_ms, act }), 1..40)
}

fn key(document: u8) -> DocumentKey {
    DocumentKey {
        tenant: TenantId::default_tenant(),
        room: RoomId::parse("room").unwrap(),
        document: DocumentId::parse(&format!("d{document}")).unwrap(),
    }
}

fn owner(owner: u8) -> OwnerId {
    OwnerId::parse(&format!("o{owner}")).unwrap()
}

fn session(session: u8) -> SessionId {
    SessionId::parse(&format!("s{session}")).unwrap()
}

fn lease(number: u128) -> Uuid {
    Uuid::from_u128(number + 1)
}

/// The act as a command; `leases` is how many have been given out.
fn command(act: &Act, leases: &mut u128) -> Command {
    let recent = |back: usize, leases: u128| lease(leases.saturating_sub(1 + back as u128));
    let named = |named: &Name, leases: u128| match named {
        Name::Nothing => Named::default(),
        Name::Session(s) => Named { lease_id: None, session: Some(session(*s)) },
        Name::Lease(back) => Named { lease_id: Some(recent(*back, leases)), session: None },
    };
    // The same id with the same content is a repeat; leases named by their age are part of the content.
    let request = |id: &Option<u8>, content: String| {
        id.map(|id| {
            let mut digest = [0_u8; 16];
            content
                .bytes()
                .enumerate()
                .for_each(|(i, byte)| digest[i % 16] = byte.wrapping_add(digest[i % 16].rotate_left(3)));
            Request { id: RequestId::parse(&format!("r{id}")).unwrap(), fingerprint: Fingerprint(digest) }
        })
    };
    match act {
        Act::Lock { documents, owner: o, session: s, ttl, takeover, capacity, request: id } => {
            let wanted = documents.iter().map(|document| {
                *leases += 1;
                Wanted { key: key(*document), lease_id: lease(*leases - 1) }
            });
            Command::Lock(LockDocuments {
                tenant: TenantId::default_tenant(),
                wanted: wanted.collect(),
                holder: Holder { owner: owner(*o), session: s.map(session), name: None },
                ttl_seconds: Some(*ttl),
                takeover: takeover.then_some(TakeOver { expected_token: None, of_others: true }),
                capacity: *capacity,
                metadata: None,
                document_version: None,
                request: request(id, format!("{act:?}")),
            })
        }
        Act::Extend { document, owner: o, named: n, request: id } => Command::Extend(Extend {
            keys: vec![key(*document)],
            owner: owner(*o),
            named: named(n, *leases),
            ttl_seconds: None,
            metadata: None,
            request: request(id, format!("{act:?}{leases}")),
        }),
        Act::Unlock { document, owner: o, named: n, request: id } => Command::Unlock(Unlock {
            tenant: TenantId::default_tenant(),
            keys: vec![key(*document)],
            owner: owner(*o),
            named: named(n, *leases),
            document_version: None,
            request: request(id, format!("{act:?}{leases}")),
        }),
        Act::Release { document, owner: o, lease: back, linger_ms } => Command::Release(Release {
            key: key(*document),
            owner: owner(*o),
            lease_id: recent(*back, *leases),
            hold: 1,
            linger_ms: *linger_ms,
        }),
        Act::Force { document, lease: back } => Command::ForceUnlock(ForceUnlock {
            targets: vec![(key(*document), recent(*back, *leases))],
            by: owner(9),
            note: None,
        }),
        Act::Expire => Command::Expire(Expire { keys: vec![key(0), key(1)] }),
    }
}

/// A database of its own, with time that the test moves.
struct Subject {
    writer: Writer,
    clock: ManualClock,
    storage: Storage,
    _folder: TempDir,
}

#[derive(Debug, Clone, Copy)]
enum Home {
    Sqlite,
    Postgres,
}

impl Subject {
    async fn new(home: Home) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = match home {
            Home::Sqlite => DatabaseUrl::Sqlite(folder.path().join("doclock.db")),
            Home::Postgres => DatabaseUrl::Postgres(postgres::new_database()),
        };
        let storage = Storage::open(&url).await.unwrap();
        let clock = ManualClock::starting_at(Timestamp::from_millis(1_800_000_000_000));
        let life = Arc::new(Life::new(clock.now()));
        let policy = Policy::default();
        let writer = storage.writer(policy, Clock::manual(clock.clone()), life).unwrap();
        Self { writer, clock, storage, _folder: folder }
    }

    /// With signs of life, so that it is no outage.
    fn pass(&mut self, mut millis: u32) {
        while millis > 0 {
            let step = millis.min(1000);
            self.clock.advance(Duration::from_millis(step.into()));
            self.writer.commit(&[]).unwrap();
            millis -= step;
        }
    }

    /// Sequence, type, token and reason of every event.
    fn log(&self) -> Vec<(i64, String, i64, Option<String>)> {
        let (tenant, all) = (TenantId::default_tenant(), RoomGlobs::all());
        let page = block_on(self.storage.queries.events(&tenant, &all, &EventFilter::default(), 10_000)).unwrap();
        page.events
            .into_iter()
            .map(|e| (e.sequence, format!("{} {} {}", e.kind, e.document, e.owner_id), e.fencing_token, e.reason))
            .collect()
    }
}

/// What a document should be like.
#[derive(Debug, Default)]
struct Model {
    tokens: HashMap<u8, i64>,
    live: HashMap<u8, Vec<Held>>,
}

#[derive(Debug, Clone)]
struct Held {
    lease: Uuid,
    owner: u8,
    session: Option<u8>,
    token: i64,
    until: i64,
    capacity: u32,
}

impl Model {
    /// Takes what was answered and says what is wrong with it.
    fn check(&mut self, act: &Act, outcome: &Outcome, now: i64) -> Result<(), String> {
        for held in self.live.values_mut() {
            held.retain(|held| now < held.until);
        }
        match act {
            Act::Lock { documents, owner, session, capacity, request, .. } => {
                if outcome.done.is_empty() {
                    return self.check_refusal(documents, *owner, *session, *capacity, request.is_some());
                }
                for (document, done) in documents.iter().zip(&outcome.done) {
                    self.check_lock(*document, *owner, *session, done, request.is_some())?;
                }
            }
            Act::Extend { document, owner, .. } => {
                for done in &outcome.done {
                    let Done::Live { lock, .. } = done else { return Err("an extend ended a lock".into()) };
                    let held =
                        self.own(*document, *owner, lock.lease_id).ok_or("LS-INV-003: extended what is not held")?;
                    held.until = lock.expires_at.millis();
                }
            }
            Act::Unlock { document, owner, request, .. } => {
                for done in &outcome.done {
                    let Done::Ended { fencing_token, .. } = done else { return Err("an unlock left a lock".into()) };
                    let held = self.live.entry(*document).or_default();
                    let before = held.len();
                    held.retain(|held| !(held.owner == *owner && held.token == *fencing_token));
                    // A repeated request tells of a lock that it ended before.
                    if held.len() == before && request.is_none() {
                        return Err("LS-INV-003: unlocked what is not held".into());
                    }
                }
            }
            Act::Release { document, owner, .. } => {
                for done in &outcome.done {
                    match done {
                        Done::Live { lock, .. } => {
                            let held = self.own(*document, *owner, lock.lease_id).ok_or("lingers without a lock")?;
                            held.until = lock.expires_at.millis();
                        }
                        Done::Ended { fencing_token, .. } => self.end(*document, *fencing_token),
                    }
                }
            }
            Act::Force { document, .. } => {
                for done in &outcome.done {
                    if let Done::Ended { fencing_token, .. } = done {
                        self.end(*document, *fencing_token);
                    }
                }
            }
            Act::Expire => {}
        }
        Ok(())
    }

    fn own(&mut self, document: u8, owner: u8, lease: Uuid) -> Option<&mut Held> {
        self.live.entry(document).or_default().iter_mut().find(|held| held.lease == lease && held.owner == owner)
    }

    fn end(&mut self, document: u8, token: i64) {
        self.live.entry(document).or_default().retain(|held| held.token != token);
    }

    fn check_lock(
        &mut self,
        document: u8,
        owner: u8,
        session: Option<u8>,
        done: &Done,
        may_repeat: bool,
    ) -> Result<(), String> {
        let Done::Live { lock, .. } = done else { return Err("a lock ended itself".into()) };
        let until = lock.expires_at.millis();
        let capacity = lock.slot + 1;
        let held = self.live.entry(document).or_default();
        if let Some(known) = held.iter_mut().find(|held| held.lease == lock.lease_id) {
            let resumes = known.owner == owner && known.session == session && session.is_some();
            known.until = until;
            return if resumes || may_repeat { Ok(()) } else { Err("LS-ACQ-001: granted a lease again".into()) };
        }
        let token = self.tokens.entry(document).or_default();
        *token += 1;
        if lock.fencing_token != *token {
            return Err(format!("LS-INV-002: token {} instead of {token}", lock.fencing_token));
        }
        // A new grant in a slot that is taken has taken it over.
        held.retain(|held| held.capacity != capacity);
        held.push(Held { lease: lock.lease_id, owner, session, token: *token, until, capacity });
        Ok(())
    }

    /// LS-ACQ-002: with nothing live, only a repeated request may be refused.
    fn check_refusal(
        &self,
        documents: &[u8],
        owner: u8,
        session: Option<u8>,
        capacity: Option<u32>,
        may_repeat: bool,
    ) -> Result<(), String> {
        let is_free = |document: &u8| self.live.get(document).is_none_or(Vec::is_empty);
        let is_own = |document: &u8| {
            let held = self.live.get(document).map(Vec::as_slice).unwrap_or_default();
            session.is_some() && held.iter().any(|held| held.owner == owner && held.session == session)
        };
        let refuses_nobody =
            documents.iter().all(|document| is_free(document) || (is_own(document) && capacity.is_none()));
        if refuses_nobody && !may_repeat {
            return Err("LS-ACQ-002: an overdue or free document refused".into());
        }
        Ok(())
    }
}

/// The runtime of the read pool; it goes on between calls.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    static RUNTIME: LazyLock<tokio::runtime::Runtime> =
        LazyLock::new(|| tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(1).build().unwrap());
    RUNTIME.block_on(future)
}

fn check_history(home: Home, steps: &[Step]) -> Result<(), String> {
    let mut subject = block_on(Subject::new(home));
    let (mut model, mut leases) = (Model::default(), 0);
    for step in steps {
        subject.pass(step.after_ms);
        let command = command(&step.act, &mut leases);
        let outcome = subject.writer.commit(std::slice::from_ref(&command)).unwrap().outcomes.remove(0);
        model.check(&step.act, &outcome, subject.clock.now().millis())?;
        for document in 0..2 {
            let read = block_on(subject.storage.queries.document(&key(document), subject.clock.now())).unwrap();
            let mut found: Vec<_> = read.locks.iter().map(|lock| lock.fencing_token).collect();
            let held = model.live.get(&document).map(Vec::as_slice).unwrap_or_default();
            let mut expected: Vec<_> = held.iter().map(|held| held.token).collect();
            found.sort_unstable();
            expected.sort_unstable();
            if found != expected {
                return Err(format!("LS-INV-001: live tokens {found:?} instead of {expected:?} after {step:?}"));
            }
        }
    }
    if subject.log().iter().zip(1..).any(|(event, expected)| event.0 != expected) {
        return Err("the log has gaps".into());
    }
    Ok(())
}

fn check_batching(home: Home, steps: &[Step], cuts: Vec<usize>) {
    let mut leases = 0;
    let commands: Vec<_> = steps.iter().map(|step| (step.after_ms, command(&step.act, &mut leases))).collect();
    let (mut one, mut many) = (block_on(Subject::new(home)), block_on(Subject::new(home)));
    let mut rest = commands.as_slice();
    for size in cuts {
        let Some(((after_ms, _), _)) = rest.split_first() else { break };
        // Time passes before a batch, not within it.
        let length = 1 + rest[1..].iter().take(size - 1).take_while(|(after_ms, _)| *after_ms == 0).count();
        let (batch, later) = rest.split_at(length);
        one.pass(*after_ms);
        many.pass(*after_ms);
        let batch: Vec<_> = batch.iter().map(|(_, command)| command.clone()).collect();
        let singly: Vec<_> = batch
            .iter()
            .flat_map(|command| one.writer.commit(std::slice::from_ref(command)).unwrap().outcomes)
            .collect();
        assert_eq!(many.writer.commit(&batch).unwrap().outcomes, singly, "{batch:#?}");
        rest = later;
    }
    // Of one document in order; commands on different ones may pass each other.
    for document in ["d0", "d1"] {
        let of_document = |subject: &Subject| -> Vec<_> {
            let events = subject.log().into_iter().filter(|(_, event, ..)| event.contains(document));
            events.map(|(_, event, token, reason)| (event, token, reason)).collect()
        };
        assert_eq!(of_document(&many), of_document(&one));
    }
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(96))]

    #[test]
    fn ls_inv_001_to_004_hold_in_random_histories(steps in history()) {
        prop_assert_eq!(check_history(Home::Sqlite, &steps), Ok(()));
    }

    #[test]
    fn ls_cc_001_any_batching_answers_the_same_as_one_by_one(steps in history(), cuts in vec(1..8_usize, 40)) {
        check_batching(Home::Sqlite, &steps, cuts);
    }
}

proptest! {
    #![proptest_config(cases(12))]

    #[test]
    fn ls_inv_001_to_004_hold_in_random_histories_on_postgresql(steps in history()) {
        prop_assert_eq!(check_history(Home::Postgres, &steps), Ok(()));
    }

    #[test]
    fn ls_cc_001_any_batching_answers_the_same_on_postgresql(steps in history(), cuts in vec(1..8_usize, 40)) {
        check_batching(Home::Postgres, &steps, cuts);
    }
}
