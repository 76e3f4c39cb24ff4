//! What the homes of storage do with batches that fail, with rows that are past their retention, and with time.

use std::time::Duration;

use doclock::{
    locking::{
        Command, Extend, Named, Policy, Refusal,
        names::{OwnerId, TenantId},
    },
    storage::StorageError,
};
use sea_orm::sqlx::{Connection as _, Executor as _, PgConnection, query_scalar};

use crate::{Home, Subject, block_on, first_locks::lock, postgres, samples::key, server::Server};

fn heartbeat(document: u8, owner: &str) -> Command {
    Command::Extend(Extend {
        tenant: TenantId::default_tenant(),
        keys: vec![key(document)],
        owner: OwnerId::parse(owner).unwrap(),
        named: Named::default(),
        ttl_seconds: None,
        metadata: None,
        activity: None,
        document_version: None,
        request: None,
    })
}

/// Both heartbeats would be refused, so the short cut leaves both to be decided one by one. There the first one meets an
/// overdue lock that a trigger does not let end.
#[test]
fn a_conflicting_command_does_not_fail_the_rest_of_its_batch() {
    let url = postgres::new_database();
    let mut server = Server::on(&url);
    server.commit(&[lock(0, "alice", None, false), lock(1, "alice", None, false)]);
    let mut connection = block_on(PgConnection::connect(&url)).unwrap();
    block_on(connection.execute(
        "UPDATE document_locks SET expires_at = 1, due_at = 1, ttl_seconds = 0 WHERE document = 'd0';
         CREATE FUNCTION stays() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN RAISE EXCEPTION 'it stays' USING ERRCODE = 'check_violation'; END $$;
         CREATE TRIGGER stays BEFORE DELETE ON document_locks FOR EACH ROW EXECUTE FUNCTION stays()",
    ))
    .unwrap();
    let committed = server.writer.commit(&[heartbeat(0, "bob"), heartbeat(1, "bob")]).unwrap();
    let [conflicts, refused] = &committed.outcomes[..] else { panic!("{committed:?}") };
    assert!(matches!(conflicts, Err(StorageError::Conflict(reason)) if reason.contains("it stays")), "{conflicts:?}");
    let refusal = &refused.as_ref().unwrap().failed[0].refusal;
    assert!(matches!(refusal, Refusal::NotOwner { .. }), "{refusal:?}");
}

/// Another transaction holds the oldest events. Younger ones must not be pruned before them, or a reader that continues
/// from there would not notice that some are missing.
#[test]
fn pruning_leaves_no_hole_in_the_log() {
    let url = postgres::new_database();
    let mut server = Server::on(&url);
    for document in 0..20 {
        server.commit(&[lock(document, "alice", None, false)]);
    }
    let [mut holder, mut observer] = [0, 1].map(|_| block_on(PgConnection::connect(&url)).unwrap());
    block_on(holder.execute("UPDATE events SET at = 1")).unwrap();
    block_on(holder.execute("BEGIN; DELETE FROM events WHERE sequence <= 5")).unwrap();
    // What was taken is pruned in the end, or not at all; never something after it.
    let pruned = server.writer.prune(10);
    block_on(holder.execute("ROLLBACK")).unwrap();
    let gaps = "SELECT count(*) FROM events AS e WHERE sequence < 20
        AND NOT EXISTS (SELECT 1 FROM events AS next WHERE next.sequence = e.sequence + 1)";
    let gaps: i64 = block_on(query_scalar(gaps).fetch_one(&mut observer)).unwrap();
    assert_eq!(gaps, 0, "{pruned:?}");
    assert_eq!(server.writer.prune(10).unwrap(), 10);
    let first: i64 = block_on(query_scalar("SELECT min(sequence) FROM events").fetch_one(&mut observer)).unwrap();
    assert_eq!(first, 11);
}

/// Nobody but these batches writes: each one is a sign of life, so that there is no outage and nobody gets grace.
#[test]
fn every_committed_batch_counts_as_a_sign_of_life() {
    for home in [Home::Sqlite, Home::Postgres] {
        let mut subject = block_on(Subject::new(home, Policy::default()));
        subject.commit(&[lock(0, "alice", None, false)]);
        for document in 1..160 {
            subject.clock.advance(Duration::from_secs(2));
            subject.commit(&[lock(document, "bob", None, false)]);
        }
        // Alice's 300 seconds are over.
        let outcome = subject.commit(&[lock(0, "carol", None, false)]).remove(0);
        assert_eq!(outcome.failed, vec![], "{home:?}");
    }
}
