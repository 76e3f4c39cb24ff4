//! Who is in a room, when there are several servers.

use std::time::Duration;

use doclock::auth::{Claims, Role};
use sea_orm::DatabaseConnection;
use serde_json::json;

use crate::{
    pair::{Pair, beat, count, exchange, round, run, tell, token, until},
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
    tell(&pair.clock, &pair.database, &["mallory", "bob"]).await;
    assert_eq!(alice.next_of_any_kind().await, joined("bob"));
    let (carol, opening) = pair.first.in_room("carol", "room").await;
    assert_eq!(owners(&opening.opening), ["alice", "bob", "carol"]);
    assert_eq!(alice.next_of_any_kind().await, joined("carol"));
    bob.close().await;
    // What is said later is heard later.
    let dave = pair.second.in_room("dave", "room").await.0;
    tell(&pair.clock, &pair.database, &["dave"]).await;
    assert_eq!(alice.next_of_any_kind().await, joined("dave"));
    pair.clock.advance(GRACE);
    assert_eq!(alice.next_of_any_kind().await, left("bob"));
    alice.is_silent().await;
    drop((carol, dave, mallory));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_participant_that_changes_servers_does_not_flicker() {
    let Pair { clock, first, second, database } = Pair::start().await;
    let (mut alice, _) = first.in_room("alice", "room").await;
    let bob = second.in_room("bob", "room").await.0;
    let mut erin = second.in_room("erin", "room").await.0;
    tell(&clock, &database, &["alice", "bob", "erin"]).await;
    let mut told = [alice.next_of_any_kind().await, alice.next_of_any_kind().await];
    told.sort_by_key(ToString::to_string);
    assert_eq!(told, [joined("bob"), joined("erin")]);
    assert_eq!(erin.next_of_any_kind().await, joined("alice"));
    bob.close().await;
    let (bob, opening) = first.in_room("bob", "room").await;
    assert_eq!(owners(&opening.opening), ["alice", "bob", "erin"]);
    // Whoever hears of these has heard where Bob is, too.
    let dave = first.in_room("dave", "room").await.0;
    let carol = second.in_room("carol", "room").await.0;
    tell(&clock, &database, &["carol", "dave"]).await;
    for name in ["dave", "carol"] {
        assert_eq!(alice.next_of_any_kind().await, joined(name));
    }
    for name in ["carol", "dave"] {
        assert_eq!(erin.next_of_any_kind().await, joined(name));
    }
    clock.advance(GRACE);
    alice.is_silent().await;
    erin.is_silent().await;
    drop((bob, carol, dave));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_of_a_server_that_is_killed_are_forgotten_after_15_s() {
    let Pair { clock, first, second, database } = Pair::start().await;
    let (mut alice, _) = first.in_room("alice", "room").await;
    let _bob = second.in_room("bob", "room").await;
    tell(&clock, &database, &["bob"]).await;
    assert_eq!(alice.next_of_any_kind().await, joined("bob"));
    second.kill().await;
    exchange(&clock, &database, 1).await;
    // For one who was given up in these nine seconds, the grace is over now.
    beat(&clock, &database, 1).await;
    alice.is_silent().await;
    assert_eq!(owners(&first.in_room("alice", "room").await.1.opening), ["alice", "bob"]);
    // Bob's server spoke last in the round before Alice heard of him: by now, 15.5 s ago.
    clock.advance(Duration::from_secs(3));
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
    tell(&clock, &database, &["bob"]).await;
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
    let Pair { clock, first, second, database } = Pair::start().await;
    let (mut alice, _) = first.in_room("alice", "room").await;
    let mut bob = second.in_room("bob", "room").await.0;
    tell(&clock, &database, &["alice", "bob"]).await;
    assert_eq!(alice.next_of_any_kind().await, joined("bob"));
    assert_eq!(bob.next_of_any_kind().await, joined("alice"));
    run(&database, "DELETE FROM live_servers").await;
    assert_eq!(count(&database, "participants").await, 0);
    count_statements(&database, "UPDATE ON live_servers", "").await;
    // Both have something to say, and find that nobody listens.
    let carol = first.in_room("carol", "room").await.0;
    let dave = second.in_room("dave", "room").await.0;
    round(&clock);
    until(&database, "statements WHERE last_value = 2", 1).await;
    tell(&clock, &database, &["alice", "bob", "carol", "dave"]).await;
    for name in ["carol", "dave"] {
        assert_eq!(alice.next_of_any_kind().await, joined(name));
    }
    for name in ["dave", "carol"] {
        assert_eq!(bob.next_of_any_kind().await, joined(name));
    }
    clock.advance(GRACE);
    alice.is_silent().await;
    bob.is_silent().await;
    for server in [&first, &second] {
        assert_eq!(owners(&server.in_room("erin", "room").await.1.opening).len(), 5);
    }
    drop((carol, dave));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_fails_delays_presence_and_nothing_else() {
    let Pair { clock, first, second, database } = Pair::start().await;
    let (mut alice, _) = first.in_room("alice", "room").await;
    let mut bob = second.in_room("bob", "room").await.0;
    tell(&clock, &database, &["alice", "bob"]).await;
    assert_eq!(alice.next_of_any_kind().await, joined("bob"));
    assert_eq!(bob.next_of_any_kind().await, joined("alice"));
    assert_eq!(bob.subscribe("room", None).await.opening["participants"].as_array().unwrap().len(), 2);
    count_statements(&database, "INSERT ON participants", "RAISE EXCEPTION ''not now'';").await;
    let editor = claims("carol", Role::Editor);
    let mut carol = first.in_room_as(editor, "room").await.0;
    let dave = second.in_room("dave", "room").await.0;
    for times in 1..=3 {
        round(&clock);
        until(&database, &format!("statements WHERE last_value = {}", 2 * times), 1).await;
    }
    assert_eq!(carol.ask(json!({"type": "lock", "room": "other"})).await["type"], "ok");
    assert_eq!(alice.next_of_any_kind().await, joined("carol"));
    alice.is_silent().await;
    run(&database, "DROP TRIGGER counting ON participants").await;
    tell(&clock, &database, &["alice", "bob", "carol", "dave"]).await;
    assert_eq!(alice.next_of_any_kind().await, joined("dave"));
    for name in ["dave", "carol"] {
        assert_eq!(bob.next_of_any_kind().await, joined(name));
    }
    assert_eq!(count(&database, "live_servers").await, 2);
    exchange(&clock, &database, 2).await;
    alice.is_silent().await;
    bob.is_silent().await;
    drop(dave);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_departure_is_read_by_other_servers_and_deleted_later() {
    let Pair { clock, first, second, database } = Pair::start().await;
    // A stream answers no pings: it stays however fast time passes.
    let request = reqwest::Client::new().get(format!("{}/api/rooms/room/events", first.base));
    let mut carol = request.bearer_auth(token(claims("carol", Role::Viewer))).send().await.unwrap();
    carol.chunk().await.unwrap().expect("she is told who is there");
    let (mut alice, _) = first.in_room("alice", "room").await;
    let bob = second.in_room("bob", "room").await.0;
    tell(&clock, &database, &["alice", "bob", "carol"]).await;
    assert_eq!(alice.next_of_any_kind().await, joined("bob"));
    bob.close().await;
    round(&clock);
    until(&database, "participants WHERE NOT is_here", 1).await;
    exchange(&clock, &database, 2).await;
    assert_eq!(alice.next_of_any_kind().await, left("bob"));
    alice.close().await;
    // Every sixty rounds a server forgets who had left sixty rounds before: so far that is nobody.
    for _ in 0..60 {
        beat(&clock, &database, 2).await;
    }
    assert_eq!(count(&database, "participants WHERE NOT is_here").await, 2);
    for _ in 0..60 {
        beat(&clock, &database, 2).await;
    }
    until(&database, "participants WHERE NOT is_here", 0).await;
    let soft_state = first.sweeper.soft_state.as_ref().unwrap();
    for server in soft_state.servers().await.unwrap() {
        let early = soft_state.said_since(server.id, Some(0)).await.unwrap().unwrap();
        assert!(early.is_complete, "who has not read so far reads everything");
        let late = soft_state.said_since(server.id, Some(server.version)).await.unwrap().unwrap();
        assert!(!late.is_complete && late.rows.is_empty());
    }
    assert_eq!(count(&database, "participants").await, 1);
}

/// From now on every statement of this kind is counted in the sequence `statements`, even if it is rolled back, and `then`
/// is run.
async fn count_statements(database: &DatabaseConnection, kind: &str, then: &str) {
    for statement in [
        "CREATE SEQUENCE statements",
        &format!(
            "CREATE FUNCTION count_one() RETURNS trigger LANGUAGE plpgsql AS
               'BEGIN PERFORM nextval(''statements''); {then} RETURN NULL; END'"
        ),
        &format!("CREATE TRIGGER counting BEFORE {kind} EXECUTE FUNCTION count_one()"),
    ] {
        run(database, statement).await;
    }
}
