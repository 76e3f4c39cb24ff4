//! Who is in a room.

use std::collections::BTreeSet;

use doclock::auth::{Claims, Role};
use serde_json::{Value, json};

use crate::{
    client::Socket,
    event_stream::Stream,
    hostile,
    support::{TestServer, claims},
};

/// What is told of somebody's coming or going.
fn told(kind: &str, room: &str, owner: &str) -> Value {
    json!({"type": kind, "room": room, "participant": {"owner_id": owner, "name": null}})
}

pub fn joined(owner: &str) -> Value {
    told("ParticipantJoined", "room", owner)
}

pub fn left(owner: &str) -> Value {
    told("ParticipantLeft", "room", owner)
}

pub fn owners(opening: &Value) -> Vec<&str> {
    let participants = opening["participants"].as_array().unwrap();
    participants.iter().map(|participant| participant["owner_id"].as_str().unwrap()).collect()
}

/// Two seconds after everything that was done before.
pub async fn pass(server: &TestServer) {
    // The hub does one thing after the other.
    drop(server.viewer("witness").in_room("another room").await);
    server.pass_seconds(2).await;
}

async fn unsubscribe(socket: &mut Socket) {
    assert_eq!(socket.ask(json!({"type": "unsubscribe", "room": "room"})).await["type"], "ok");
}

#[tokio::test]
async fn a_room_hears_who_comes_and_goes_and_a_newcomer_who_is_there() {
    let server = TestServer::start().await;
    let bob = server.caller(Claims { name: Some("Bob".to_owned()), ..claims("bob", Role::Editor) });
    let (mut alice, opening) = server.viewer("alice").in_room("room").await;
    assert_eq!(opening.opening["participants"], json!([{"owner_id": "alice", "name": null}]));
    let (mut bobs, opening) = bob.in_room("room").await;
    let participant = json!({"owner_id": "bob", "name": "Bob"});
    assert_eq!(opening.opening["participants"], json!([{"owner_id": "alice", "name": null}, participant]));
    let expected = json!({"type": "ParticipantJoined", "room": "room", "participant": participant});
    assert_eq!(alice.next_of_any_kind().await, expected);
    unsubscribe(&mut bobs).await;
    pass(&server).await;
    let expected = json!({"type": "ParticipantLeft", "room": "room", "participant": participant});
    assert_eq!(alice.next_of_any_kind().await, expected);
    // Nobody is told about itself, or about a room it has left.
    alice.is_silent().await;
    bobs.is_silent().await;
    assert_eq!(owners(&server.viewer("carol").in_room("room").await.1.opening), ["alice", "carol"]);
}

#[tokio::test]
async fn an_owner_is_one_participant_however_many_sockets_it_has() {
    let server = TestServer::start().await;
    let bob = server.viewer("bob");
    let mut alice = server.viewer("alice").in_room("room").await.0;
    let (first, _) = bob.in_room("room").await;
    assert_eq!(alice.next_of_any_kind().await, joined("bob"));
    let (second, opening) = bob.in_room("room").await;
    assert_eq!(owners(&opening.opening), ["alice", "bob"]);
    let mut stream = Stream::open(&bob, "/api/rooms/room/events", None).await;
    assert_eq!(owners(&stream.next().await.data), ["alice", "bob"]);
    first.close().await;
    // Cut, not closed.
    drop(second);
    hostile::sockets(&server, 2).await;
    pass(&server).await;
    alice.is_silent().await;
    drop(stream);
    hostile::sockets(&server, 1).await;
    pass(&server).await;
    assert_eq!(alice.next_of_any_kind().await, left("bob"));
    alice.is_silent().await;
}

#[tokio::test]
async fn a_page_that_is_loaded_again_does_not_flicker() {
    let server = TestServer::start().await;
    let (mut alice, bob) = (server.viewer("alice").in_room("room").await.0, server.viewer("bob"));
    let mut bobs = bob.in_room("room").await.0;
    assert_eq!(alice.next_of_any_kind().await, joined("bob"));
    for _ in 0..3 {
        drop(bobs);
        hostile::sockets(&server, 1).await;
        bobs = bob.in_room("room").await.0;
        pass(&server).await;
    }
    alice.is_silent().await;
    // Subscribing again is not leaving either.
    bobs.subscribe("room", None).await;
    pass(&server).await;
    alice.is_silent().await;
}

#[tokio::test]
async fn an_event_stream_hears_of_participants_without_an_id() {
    let server = TestServer::start().await;
    let mut stream = Stream::open(&server.viewer("alice"), "/api/rooms/room/events", None).await;
    assert_eq!(owners(&stream.next().await.data), ["alice"]);
    let mut bob = server.viewer("bob").in_room("room").await.0;
    let event = stream.next().await;
    assert_eq!((event.id, event.kind.as_str(), event.data), (None, "ParticipantJoined", joined("bob")));
    unsubscribe(&mut bob).await;
    pass(&server).await;
    let event = stream.next().await;
    assert_eq!((event.id, event.kind.as_str(), event.data), (None, "ParticipantLeft", left("bob")));
    drop(stream);
    hostile::sockets(&server, 1).await;
    pass(&server).await;
    assert_eq!(owners(&bob.subscribe("room", None).await.opening), ["bob"]);
}

#[tokio::test]
async fn nobody_is_seen_in_another_room_or_by_another_tenant() {
    let server = TestServer::start().await;
    let mut ours = server.editor_of("ours", "alice").in_room("room").await.0;
    let mut root = server.admin_of("ours").socket("/ws?rooms=*").await;
    assert_eq!(root.told().await.opening["participants"], json!([]));
    let (_theirs, opening) = server.editor_of("theirs", "bob").in_room("room").await;
    assert_eq!(owners(&opening.opening), ["bob"]);
    let (mut other, opening) = server.editor_of("ours", "carol").in_room("other").await;
    assert_eq!(owners(&opening.opening), ["carol"]);
    ours.is_silent().await;
    other.is_silent().await;
    assert_eq!(root.next_of_any_kind().await, told("ParticipantJoined", "other", "carol"));
    root.is_silent().await;
    // Who hears every room is in none.
    assert_eq!(owners(&other.subscribe("other", None).await.opening), ["carol"]);
}

#[tokio::test]
async fn rooms_star_hears_of_participants_in_rooms_its_token_may_see() {
    let server = TestServer::start().await;
    let rooms = Some(vec!["team-*".to_owned()]);
    let limited = server.caller(Claims { rooms, ..claims("eve", Role::Viewer) });
    let mut socket = limited.socket("/ws?rooms=*").await;
    socket.told().await;
    let mut alice = server.viewer("alice").in_room("other").await.0;
    alice.subscribe("team-a", None).await;
    assert_eq!(socket.next_of_any_kind().await, told("ParticipantJoined", "team-a", "alice"));
    let refused = limited.socket("/ws").await.ask(json!({"type": "subscribe", "room": "other"})).await;
    assert_eq!(refused["code"], "ROOM_FORBIDDEN");
    alice.is_silent().await;
    drop(alice);
    hostile::sockets(&server, 1).await;
    pass(&server).await;
    assert_eq!(socket.next_of_any_kind().await, told("ParticipantLeft", "team-a", "alice"));
    socket.is_silent().await;
}

#[tokio::test]
async fn a_hundred_participants_are_listed_and_newcomers_to_a_fuller_room_are_not_announced() {
    let server = TestServer::start().await;
    let name = |index: usize| format!("viewer {index:03}");
    let mut sockets = Vec::new();
    let mut known = BTreeSet::new();
    for index in 0..103 {
        let (socket, opening) = server.viewer(&name(index)).in_room("room").await;
        let listed = owners(&opening.opening);
        assert_eq!(listed.len(), (index + 1).min(101), "a hundred, and the newcomer itself");
        assert!(listed.contains(&name(index).as_str()), "the newcomer is among them");
        if index == 100 {
            known = listed.into_iter().map(ToOwned::to_owned).collect();
        }
        sockets.push(socket);
    }
    let mut first = sockets.remove(0);
    for index in 1..100 {
        assert_eq!(first.next_of_any_kind().await, joined(&name(index)));
    }
    first.is_silent().await;
    unsubscribe(&mut sockets[0]).await;
    unsubscribe(&mut sockets[101]).await;
    pass(&server).await;
    assert_eq!(first.next_of_any_kind().await, left(&name(1)));
    first.is_silent().await;
    // Few enough again: the rest is told of.
    unsubscribe(&mut sockets[1]).await;
    pass(&server).await;
    assert_eq!(first.next_of_any_kind().await, left(&name(2)));
    for index in [100, 101] {
        assert_eq!(first.next_of_any_kind().await, joined(&name(index)));
    }
    // What the first one of too many was told adds up to who is there as well.
    while known.len() != 100 || !known.contains(&name(101)) {
        let told = sockets[99].next_of_any_kind().await;
        let owner = told["participant"]["owner_id"].as_str().unwrap().to_owned();
        match told["type"].as_str() {
            Some("ParticipantJoined") => known.insert(owner),
            _ => known.remove(&owner),
        };
    }
    assert!(known.into_iter().eq((0..=101).filter(|index| ![1, 2].contains(index)).map(name)));
    first.is_silent().await;
}
