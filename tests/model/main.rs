//! Random histories against a small model that was written without looking at the rules' code, and the same history in
//! any batching against one command at a time. On both databases.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod first_locks;
mod history;
mod model;
#[path = "../support/postgres.rs"]
mod postgres;
mod server;
mod storage;

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use doclock::{
    auth::RoomGlobs,
    locking::{Command, EndReason, Outcome, Policy, Timestamp, names::TenantId},
    settings::DatabaseUrl,
    storage::{Storage, Writer, Writers, queries::EventFilter},
    time::{
        clock::{Clock, ManualClock},
        liveness::{Judged, Life},
    },
};
use proptest::{collection::vec, prelude::*};
use tempfile::TempDir;

use crate::{
    history::{Step, command, history, key},
    model::Model,
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
        let writers = storage.writers(policy, &Clock::manual(clock.clone()), &life).unwrap();
        Self { writers, clock, storage, _folder: folder }
    }

    /// One writer's work: what several do at once is seen in tests/cluster.
    fn commit(&mut self, commands: &[Command]) -> Vec<Outcome> {
        let committed = self.writers.requests[0].commit(commands).unwrap();
        committed.outcomes.into_iter().map(Result::unwrap).collect()
    }

    fn chores(&mut self) -> &mut Writer {
        self.writers.chores.as_mut().unwrap_or(&mut self.writers.requests[0])
    }

    /// With signs of life, so that it is no outage.
    fn pass(&mut self, mut millis: u32) {
        while millis > 0 {
            let step = millis.min(1000);
            self.clock.advance(Duration::from_millis(step.into()));
            self.chores().beat().unwrap();
            millis -= step;
        }
    }

    /// Sequence, type, token and reason of every event.
    fn log(&self) -> Vec<(i64, String, i64, Option<EndReason>)> {
        let (tenant, all) = (TenantId::default_tenant(), RoomGlobs::all());
        let page = block_on(self.storage.queries.events(&tenant, &all, &EventFilter::default(), 10_000)).unwrap();
        page.events
            .into_iter()
            .map(|e| (e.sequence, format!("{:?} {} {}", e.name, e.document, e.owner_id), e.fencing_token, e.reason))
            .collect()
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
        let outcome = subject.commit(std::slice::from_ref(&command)).remove(0);
        model.check(&step.act, &outcome, subject.clock.now().millis())?;
        for document in 0..2 {
            let judged = Judged { at: subject.clock.now(), outages: Arc::default() };
            let read = block_on(subject.storage.queries.document(&key(document), &judged)).unwrap();
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
        let singly: Vec<_> = batch.iter().flat_map(|command| one.commit(std::slice::from_ref(command))).collect();
        assert_eq!(many.commit(&batch), singly, "{batch:#?}");
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
