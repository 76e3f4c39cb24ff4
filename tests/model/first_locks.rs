//! A document's first lock by one server, while another one is reading what it needs of the same document.
//!
//! Each test makes the race happen: a transaction of its own holds the row of document `d0`, so that a batch on `d0` and `d1`
//! has read which rows there are, but no locks yet, when the first lock of `d1` is committed.

use std::{thread, time::Duration};

use doclock::locking::{
    Command, Done, Holder, HolderKind, LockDocuments, Named, Outcome, TakeOver, Unlock, Wanted, names::*,
};
use sea_orm::sqlx::{Connection as _, Executor as _, PgConnection, query_as, query_scalar};
use uuid::Uuid;

use crate::{block_on, postgres, samples::key, server::Server};

pub fn lock(document: u8, owner: &str, capacity: Option<u32>, takeover: bool) -> Command {
    Command::Lock(LockDocuments {
        tenant: TenantId::default_tenant(),
        wanted: vec![Wanted { key: key(document), lease_id: Uuid::new_v4() }],
        holder: Holder { owner: OwnerId::parse(owner).unwrap(), session: None, name: None, kind: HolderKind::Person },
        ttl_seconds: Some(300),
        takeover: takeover.then_some(TakeOver { expected_token: None, of_others: true }),
        capacity,
        metadata: None,
        document_version: None,
        request: None,
        waits: false,
    })
}

pub fn unlock(document: u8, owner: &str, version: Option<&str>) -> Command {
    Command::Unlock(Unlock {
        tenant: TenantId::default_tenant(),
        keys: vec![key(document)],
        owner: OwnerId::parse(owner).unwrap(),
        named: Named::default(),
        document_version: version.map(|version| DocumentVersion::parse(version).unwrap()),
        request: None,
    })
}

fn token(outcome: &Outcome) -> Option<i64> {
    match outcome.done.first()? {
        Done::Live { lock, .. } => Some(lock.fencing_token),
        Done::Ended { fencing_token, .. } => Some(*fencing_token),
        Done::Waiting { .. } | Done::LeftLine | Done::Asked(_) => None,
    }
}

/// The second of the batch's outcomes, and the row of `d1` afterwards: token and capacity.
fn race(batch: Vec<Command>, first_lock: &Command) -> (Outcome, (i64, i32)) {
    let url = postgres::new_database();
    let (mut one, mut other) = (Server::on(&url), Server::on(&url));
    one.commit(&[lock(0, "somebody", None, false)]);
    one.commit(&[unlock(0, "somebody", None)]);
    let [mut holder, mut observer] = [0, 1].map(|_| block_on(PgConnection::connect(&url)).unwrap());
    block_on(holder.execute("BEGIN; SELECT 1 FROM documents WHERE document = 'd0' FOR UPDATE")).unwrap();
    let racing = thread::spawn(move || other.commit(&batch));
    while !is_waiting(&mut observer) {
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(token(&one.commit(std::slice::from_ref(first_lock))[0]), Some(1));
    block_on(holder.execute("COMMIT")).unwrap();
    let outcome = racing.join().unwrap().remove(1);
    let row = query_as("SELECT fencing_token, capacity FROM documents WHERE document = 'd1'");
    (outcome, block_on(row.fetch_one(&mut observer)).unwrap())
}

fn is_waiting(observer: &mut PgConnection) -> bool {
    let waiting = "SELECT count(*) FROM pg_stat_activity
        WHERE application_name = 'doclock' AND datname = current_database() AND wait_event_type = 'Lock'";
    block_on(query_scalar::<_, i64>(waiting).fetch_one(observer)).unwrap() > 0
}

#[test]
fn ls_inv_002_a_take_over_of_a_first_lock_gets_the_next_token() {
    let batch = vec![lock(0, "bob", None, false), lock(1, "bob", None, true)];
    let (taken, row) = race(batch, &lock(1, "alice", None, false));
    assert_eq!((token(&taken), row), (Some(2), (2, 1)));
}

#[test]
fn ls_inv_002_an_unlock_that_leaves_a_version_leaves_the_token_alone() {
    let batch = vec![lock(0, "alice", None, false), unlock(1, "alice", Some("v2"))];
    let (unlocked, row) = race(batch, &lock(1, "alice", None, false));
    assert_eq!((token(&unlocked), row), (Some(1), (1, 1)));
}

#[test]
fn a_semaphores_first_lock_leaves_its_other_slots_free() {
    let batch = vec![lock(0, "bob", None, false), lock(1, "bob", Some(2), false)];
    let (second, row) = race(batch, &lock(1, "alice", Some(2), false));
    assert_eq!((token(&second), row), (Some(2), (2, 2)));
}
