//! Who is in a room, when there are several servers.

use std::time::Duration;

use doclock::auth::{Claims, Role};
use serde_json::json;

use crate::{
    pair::{Pair, count, exchange, run, until},
    presence::{joined, left, owners},
    support::claims,
};

const GRACE: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_on_two_servers_are_in_one_room() {
    let pair = Pair::start().await;
    let (mut alice, _) = pair.first.in_room("alice", "room").await;
    // Another tenant's room has the same name only.
    let theirs = Claims { tenant: Some("theirs".to_owned()), ..claims("mallory", Role::Viewer) };
    let mallory = pair.second.in_room_as(theirs, "room").await.0;
    let bob = pair.second.in_room("bob", "room").await.0;
    assert_eq!(alice.next_of_any_kind().await, joined("bob"));
    let (carol, opening) = pair.first.in_room("carol", "room").await;
    assert_eq!(owners(&opening.opening), ["alice", "bob", "carol"]);
    assert_eq!(alice.next_of_any_kind().await, joined("carol"));
    bob.close().await;
    // What is said later is heard later.
    let dave = pair.second.in_room("dave", "room").await.0;
    assert_eq!(alice.next_of_any_kind().await, joined("dave"));
    pair.clock.advance(GRACE);
    assert_eq!(alice.next_of_any_kind().await, left("bob"));
    alice.is_silent().await;
    drop((carol, dave, mallory));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_participant_that_changes_servers_does_not_flicker() {
    let pair = Pair::start().await;
    let (mut alice, _) = pair.first.in_room("alice", "room").await;
    let bob = pair.second.in_room("bob", "room").await.0;
    assert_eq!(alice.next_of_any_kind().await, joined("bob"));
    let mut erin = pair.second.in_room("erin", "room").await.0;
    assert_eq!(alice.next_of_any_kind().await, joined("erin"));
    bob.close().await;
    let (bob, opening) = pair.first.in_room("bob", "room").await;
    assert_eq!(owners(&opening.opening), ["alice", "bob", "erin"]);
    let carol = pair.second.in_room("carol", "room").await.0;
    assert_eq!(alice.next_of_any_kind().await, joined("carol"));
    let dave = pair.first.in_room("dave", "room").await.0;
    assert_eq!(alice.next_of_any_kind().await, joined("dave"));
    for name in ["carol", "dave"] {
        assert_eq!(erin.next_of_any_kind().await, joined(name));
    }
    pair.clock.advance(GRACE);
    alice.is_silent().await;
    erin.is_silent().await;
    drop((bob, carol, dave));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_of_a_server_that_is_killed_are_forgotten_after_15_s() {
    let Pair { clock, first, second, database } = Pair::start().await;
    let (mut alice, _) = first.in_room("alice", "room").await;
    let _bob = second.in_room("bob", "room").await;
    assert_eq!(alice.next_of_any_kind().await, joined("bob"));
    second.kill().await;
    exchange(&clock, &database, 1).await;
    alice.is_silent().await;
    assert_eq!(owners(&first.in_room("alice", "room").await.1.opening), ["alice", "bob"]);
    clock.advance(Duration::from_secs(15));
    until(&database, "live_servers", 1).await;
    assert_eq!(count(&database, "participants").await, 1);
    exchange(&clock, &database, 1).await;
    assert_eq!(alice.next_of_any_kind().await, left("bob"));
    first.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stops_takes_its_people_with_it() {
    let Pair { clock, first, second, database } = Pair::start().await;
    let (mut alice, _) = first.in_room("alice", "room").await;
    let _bob = second.in_room("bob", "room").await;
    assert_eq!(alice.next_of_any_kind().await, joined("bob"));
    second.stop().await;
    assert_eq!(count(&database, "live_servers").await, 1);
    assert_eq!(count(&database, "participants").await, 1);
    exchange(&clock, &database, 1).await;
    assert_eq!(alice.next_of_any_kind().await, left("bob"));
    first.stop().await;
    assert_eq!(count(&database, "live_servers").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_given_up_says_again_who_is_there() {
    let pair = Pair::start().await;
    let (mut alice, _) = pair.first.in_room("alice", "room").await;
    let mut bob = pair.second.in_room("bob", "room").await.0;
    assert_eq!(alice.next_of_any_kind().await, joined("bob"));
    run(&pair.database, "DELETE FROM live_servers").await;
    assert_eq!(count(&pair.database, "participants").await, 0);
    // Both have something to say, and find that nobody listens.
    let carol = pair.first.in_room("carol", "room").await.0;
    let dave = pair.second.in_room("dave", "room").await.0;
    until(&pair.database, "participants", 4).await;
    for (socket, owner) in [(&mut alice, "dave"), (&mut bob, "carol")] {
        while socket.next_of_any_kind().await != joined(owner) {}
    }
    pair.clock.advance(GRACE);
    alice.is_silent().await;
    bob.is_silent().await;
    for server in [&pair.first, &pair.second] {
        assert_eq!(owners(&server.in_room("erin", "room").await.1.opening).len(), 5);
    }
    drop((carol, dave));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_fails_delays_presence_and_nothing_else() {
    let pair = Pair::start().await;
    let (mut alice, _) = pair.first.in_room("alice", "room").await;
    let mut bob = pair.second.in_room("bob", "room").await.0;
    assert_eq!(alice.next_of_any_kind().await, joined("bob"));
    assert_eq!(bob.subscribe("room", None).await.opening["participants"].as_array().unwrap().len(), 2);
    for statement in [
        "CREATE SEQUENCE failures",
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
           'BEGIN PERFORM nextval(''failures''); RAISE EXCEPTION ''not now''; END'",
        "CREATE TRIGGER failing BEFORE INSERT ON participants EXECUTE FUNCTION fail()",
    ] {
        run(&pair.database, statement).await;
    }
    let editor = claims("carol", Role::Editor);
    let mut carol = pair.first.in_room_as(editor, "room").await.0;
    let dave = pair.second.in_room("dave", "room").await.0;
    // A sequence counts what is rolled back, too.
    until(&pair.database, "failures WHERE last_value > 5", 1).await;
    assert_eq!(carol.ask(json!({"type": "lock", "room": "other"})).await["type"], "ok");
    assert_eq!(alice.next_of_any_kind().await, joined("carol"));
    alice.is_silent().await;
    run(&pair.database, "DROP TRIGGER failing ON participants").await;
    assert_eq!(alice.next_of_any_kind().await, joined("dave"));
    for name in ["dave", "carol"] {
        assert_eq!(bob.next_of_any_kind().await, joined(name));
    }
    assert_eq!(count(&pair.database, "live_servers").await, 2);
    pair.clock.advance(GRACE);
    alice.is_silent().await;
    bob.is_silent().await;
    drop(dave);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_departure_is_read_by_other_servers_and_deleted_later() {
    let Pair { clock, first, second, database } = Pair::start().await;
    let (mut alice, _) = first.in_room("alice", "room").await;
    let bob = second.in_room("bob", "room").await.0;
    assert_eq!(alice.next_of_any_kind().await, joined("bob"));
    drop(bob);
    until(&database, "participants WHERE NOT is_here", 1).await;
    exchange(&clock, &database, 2).await;
    assert_eq!(alice.next_of_any_kind().await, left("bob"));
    // Twice thirty seconds of real time are too long for a test: the statement by itself.
    let soft_state = first.sweeper.soft_state.as_ref().unwrap();
    for server in soft_state.servers().await.unwrap() {
        soft_state.forget_departed(server.id, server.version).await.unwrap();
        let early = soft_state.said_since(server.id, Some(0)).await.unwrap().unwrap();
        assert!(early.is_complete, "who has not read so far reads everything");
        let late = soft_state.said_since(server.id, Some(server.version)).await.unwrap().unwrap();
        assert!(!late.is_complete && late.rows.is_empty());
    }
    assert_eq!(count(&database, "participants").await, 1);
}
