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
    locking::{Command, DocumentKey, EndReason, Event, EventKind, EventName, Lock, Outcome, Policy, names::TenantId},
    settings::DatabaseUrl,
    storage::{Storage, Writer, Writers, event_log::Logged, queries::EventFilter},
    time::{
        clock::{Clock, ManualClock},
        liveness::{Judged, Life},
    },
};
use proptest::{collection::vec, prelude::*};
use tempfile::TempDir;

use crate::{
    core::{Core, seen},
    history::{History, history, keys, short_pauses},
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
        committed.outcomes.into_iter().map(Result::unwrap).collect()
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
            EventKind::Locked { .. }
            | EventKind::Saved
            | EventKind::HandoverAsked(_)
            | EventKind::HandoverAnswered(_) => None,
            EventKind::Unlocked { reason, .. } => Some(*reason),
        },
    };
    let of = |key: DocumentKey| core.events.iter().filter(move |event| event.lock.key == key);
    keys().into_iter().map(|key| of(key).map(told).collect()).collect()
}

/// Each batch is as long as `cuts` says, but no longer than until time passes.
fn check(home: Home, history: &History, cuts: &[usize]) {
    let policy = Policy { locks_per_owner: history.locks_per_owner, ..Policy::default() };
    let (mut subject, mut core) = (block_on(Subject::new(home, policy)), Core::new(policy));
    let commands = history.commands();
    let (mut rest, mut cuts) = (&commands[..], cuts.iter().cycle());
    while let Some((after_ms, _)) = rest.first() {
        let length = 1 + rest[1..].iter().take(cuts.next().unwrap() - 1).take_while(|(ms, _)| *ms == 0).count();
        let batch: Vec<_> = rest[..length].iter().map(|(_, command)| command.clone()).collect();
        subject.pass(*after_ms);
        let now = subject.clock.now();
        let expected: Vec<_> = batch.iter().map(|command| core.commit(command, now)).collect();
        assert_eq!(subject.commit(&batch), expected, "{batch:#?}");
        for key in keys() {
            assert_eq!(subject.live(&key), core.live(&key, now), "{batch:#?}");
        }
        rest = &rest[length..];
    }
    assert_eq!(subject.log(), told_by_rules(&core));
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
