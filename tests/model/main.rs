//! Both databases answer and keep what the rules by themselves do (`src/locking/testing/core.rs`), however commands are
//! cut into batches. That the rules are right is tested in `src/locking/`, on the same histories.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

#[path = "../../src/locking/testing/core.rs"]
mod core;
mod first_locks;
#[path = "../../src/locking/testing/history/mod.rs"]
mod history;
#[path = "../support/postgres.rs"]
mod postgres;
#[path = "../../src/locking/testing/samples.rs"]
mod samples;
mod server;
mod storage;

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

// The files that are shared with the rules' own tests find it here, as `crate::locking`.
use doclock::locking;
use doclock::{
    auth::RoomGlobs,
    locking::{
        Ask, AskOutcome, Command, DocumentKey, EndReason, Event, EventKind, EventName, LeaseId, Lock, Outcome, Policy,
        names::TenantId,
    },
    settings::DatabaseUrl,
    storage::{Storage, Writer, Writers, event_log::Logged, queries::EventFilter},
    time::{
        clock::{Clock, ManualClock},
        liveness::{Judged, Life},
    },
};
use proptest::{collection::vec, prelude::*};
use tempfile::TempDir;
use uuid::Uuid;

use crate::{
    core::{Came, Core, as_seen, seen},
    history::{Act, History, history, keys, short_pauses},
    samples::NOW,
};

/// A database of its own, with time that the test moves.
struct Subject {
    writers: Writers,
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
    async fn new(home: Home, policy: Policy) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = match home {
            Home::Sqlite => DatabaseUrl::Sqlite(folder.path().join("doclock.db")),
            Home::Postgres => DatabaseUrl::Postgres(postgres::new_database()),
        };
        let storage = Storage::open(&url).await.unwrap();
        let clock = ManualClock::starting_at(NOW);
        let life = Arc::new(Life::new(clock.now()));
        let writers = storage.writers(policy, &Clock::manual(clock.clone()), &life).unwrap();
        Self { writers, clock, storage, _folder: folder }
    }

    /// Commits by one writer. Several writers at once are tested in tests/cluster.
    fn commit(&mut self, commands: &[Command]) -> Vec<Outcome> {
        let committed = self.writers.requests[0].commit(commands).unwrap();
        committed.outcomes.into_iter().map(|outcome| as_seen(outcome.unwrap())).collect()
    }

    /// What servers do by themselves.
    fn chore(&mut self, act: &Act) -> Came {
        match act {
            Act::RenewTickets(leases) => Came::Gone(self.chores().renew_tickets(leases).unwrap()),
            Act::DeleteDeadTickets => Came::Deleted(self.chores().delete_dead_tickets(1000).unwrap()),
            Act::Decide(command) => panic!("this is not a chore: {command:?}"),
        }
    }

    fn chores(&mut self) -> &mut Writer {
        self.writers.chores.as_mut().unwrap_or(&mut self.writers.requests[0])
    }

    /// Lets time pass with a sign of life every second, so that it does not count as an outage.
    fn pass(&mut self, mut millis: u32) {
        while millis > 0 {
            let step = millis.min(1000);
            self.clock.advance(Duration::from_millis(step.into()));
            self.chores().beat().unwrap();
            millis -= step;
        }
    }

    /// As everybody sees them, oldest first.
    fn live(&self, key: &DocumentKey) -> Vec<Lock> {
        let judged = Judged { at: self.clock.now(), outages: Arc::default() };
        let read = block_on(self.storage.queries.document(key, &judged)).unwrap();
        read.locks.iter().map(seen).collect()
    }

    /// Live tickets, the first to be served first.
    fn line(&self, key: &DocumentKey) -> Vec<LeaseId> {
        block_on(self.storage.queries.line(key, self.clock.now(), 1000)).unwrap()
    }

    /// By id.
    fn open_asks(&self) -> Vec<Ask> {
        let (tenant, room) = (TenantId::default_tenant(), samples::key(0).room);
        let mut open = block_on(self.storage.queries.open_asks(&tenant, &room, None, 1000)).unwrap();
        open.sort_unstable_by_key(|ask| ask.id);
        open
    }

    /// The log of each document. Commands of a batch on different documents may pass each other.
    fn log(&self) -> Vec<Vec<Told>> {
        let (tenant, all) = (TenantId::default_tenant(), RoomGlobs::all());
        let page = block_on(self.storage.queries.events(&tenant, &all, &EventFilter::default(), 10_000)).unwrap();
        let sequences = page.events.iter().map(|event| event.sequence);
        assert!(sequences.clone().zip(1..).all(|(found, expected)| found == expected), "the log has gaps");
        let of = |key: DocumentKey| page.events.iter().filter(move |event| event.document == key.document.as_str());
        let told = |event: &Logged| Told {
            name: event.name,
            owner: event.owner_id.clone(),
            token: event.fencing_token,
            reason: event.reason,
            waited_ms: event.waited_ms,
            recipient: event.recipient.clone(),
            version: event.body.document_version.clone(),
            ask: event.body.ask.as_ref().map(|ask| (ask.id, ask.outcome.as_deref().and_then(AskOutcome::from_name))),
        };
        keys().into_iter().map(|key| of(key).map(told).collect()).collect()
    }
}

/// What an event says.
#[derive(Debug, PartialEq)]
struct Told {
    name: EventName,
    owner: String,
    token: i64,
    reason: Option<EndReason>,
    waited_ms: Option<i64>,
    recipient: Option<String>,
    version: Option<String>,
    ask: Option<(Uuid, Option<AskOutcome>)>,
}

/// Runs the future on the runtime of the read pool, which keeps running between calls.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    static RUNTIME: LazyLock<tokio::runtime::Runtime> =
        LazyLock::new(|| tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(1).build().unwrap());
    RUNTIME.block_on(future)
}

fn told_by_rules(core: &Core) -> Vec<Vec<Told>> {
    let told = |event: &Event| Told {
        name: event.kind.name(),
        owner: event.lock.holder.owner.to_string(),
        token: event.lock.fencing_token,
        reason: match &event.kind {
            EventKind::Unlocked { reason, .. } => Some(*reason),
            EventKind::Locked { .. }
            | EventKind::Saved
            | EventKind::HandoverAsked(_)
            | EventKind::HandoverAnswered(_) => None,
        },
        waited_ms: if let EventKind::Locked { waited_ms } = event.kind { waited_ms } else { None },
        recipient: event.recipient().map(ToString::to_string),
        version: event.lock.document_version.as_ref().map(ToString::to_string),
        ask: match &event.kind {
            EventKind::HandoverAsked(ask) | EventKind::HandoverAnswered(ask) => Some((ask.id, ask.outcome)),
            EventKind::Locked { .. } | EventKind::Unlocked { .. } | EventKind::Saved => None,
        },
    };
    let of = |key: DocumentKey| core.events.iter().filter(move |event| event.lock.key == key);
    keys().into_iter().map(|key| of(key).map(told).collect()).collect()
}

/// Each batch is as long as `cuts` says, but no longer than until time passes or a job writes.
fn check(home: Home, history: &History, cuts: &[usize]) {
    let (mut subject, mut core) = (block_on(Subject::new(home, history.policy())), Core::new(history.policy()));
    let (mut play, mut cuts) = (history.play(), cuts.iter().cycle());
    let (mut batch, mut expected) = (Vec::new(), Vec::new());
    let mut at_most = 0;
    while let Some((after_ms, act)) = play.next(&core, subject.clock.now()) {
        let is_next = matches!(act, Act::Decide(_)) && after_ms == 0 && batch.len() < at_most;
        if !is_next {
            compare(&mut subject, &core, &std::mem::take(&mut batch), &std::mem::take(&mut expected));
            at_most = *cuts.next().unwrap();
            subject.pass(after_ms);
        }
        let came = core.act(&act, subject.clock.now());
        match (act, came) {
            (Act::Decide(command), Came::Decided(outcome)) => {
                batch.push(command);
                expected.push(outcome);
            }
            (act, came) => assert_eq!(subject.chore(&act), came, "{act:?}"),
        }
    }
    compare(&mut subject, &core, &batch, &expected);
    assert_eq!(subject.log(), told_by_rules(&core));
}

fn compare(subject: &mut Subject, core: &Core, batch: &[Command], expected: &[Outcome]) {
    assert_eq!(subject.commit(batch), expected, "{batch:#?}");
    let now = subject.clock.now();
    for key in keys() {
        assert_eq!(subject.live(&key), core.live(&key, now), "{batch:#?}");
        assert_eq!(subject.line(&key), core.line(&key, now), "{batch:#?}");
    }
    assert_eq!(subject.open_asks(), core.open_asks(), "{batch:#?}");
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(192))]

    #[test]
    fn ls_cc_001_sqlite_does_what_the_rules_say_in_any_batching(
        history in history(short_pauses()),
        cuts in vec(1..8_usize, 5),
    ) {
        check(Home::Sqlite, &history, &cuts);
    }
}

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn ls_cc_001_postgresql_does_what_the_rules_say_in_any_batching(
        history in history(short_pauses()),
        cuts in vec(1..8_usize, 5),
    ) {
        check(Home::Postgres, &history, &cuts);
    }
}
