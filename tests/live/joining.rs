//! Snapshots, resumes, and the seam between them and the live stream.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::sync::watch;

use crate::{
    client::{Socket, Told, apply, sequence},
    support::{Caller, TestServer},
};

fn lock(document: usize) -> String {
    format!("/api/documents/room/{document}/lock")
}

#[tokio::test]
async fn a_socket_opened_by_the_address_of_a_room_is_subscribed_at_once() {
    let server = TestServer::start().await;
    server.editor("alice").post("/api/documents/a%2Fb/lock", json!({})).await.ok();
    let mut socket = server.viewer("eve").socket("/ws/a%2Fb").await;
    let told = socket.told().await;
    assert_eq!((told.opening["room"].clone(), told.locks.len()), (json!("a/b"), 1));
    let participants = json!([{"owner_id": "eve", "name": null}]);
    assert_eq!((&told.opening["recovered"], &told.opening["participants"]), (&json!(false), &participants));
}

const WRITERS: usize = 4;
const DOCUMENTS_EACH: usize = 100;

/// Locks and unlocks its own documents, five at a time, at most 125 a second, and counts, until it is told to stop. Half
/// of them are locked.
async fn write(editor: Caller, writer: usize, changes: Arc<watch::Sender<usize>>, stop: watch::Receiver<bool>) {
    const AT_ONCE: usize = 5;
    const PATH: &str = "/api/rooms/room/locks";
    let body = |first: usize, count: usize| {
        let documents = (first..first + count).map(|index| format!("{writer} {}", index % DOCUMENTS_EACH));
        json!({"documents": documents.collect::<Vec<_>>(), "session_id": "tab"})
    };
    editor.post(PATH, body(0, DOCUMENTS_EACH / 2)).await.ok();
    let mut pace = tokio::time::interval(Duration::from_millis(80));
    for first in (0..).step_by(AT_ONCE) {
        pace.tick().await;
        if *stop.borrow() {
            return;
        }
        editor.post(PATH, body(first + DOCUMENTS_EACH / 2, AT_ONCE)).await.ok();
        editor.delete(PATH, body(first, AT_ONCE)).await.ok();
        changes.send_modify(|changes| *changes += 2 * AT_ONCE);
    }
}

/// What follows what it was told, up to the last sequence, as soon as that is known.
async fn listen(mut socket: Socket, told: Told, mut last: watch::Receiver<Option<i64>>) -> (Told, Vec<Value>) {
    let mut notices = Vec::new();
    loop {
        let known = notices.last().map_or(sequence(&told.opening), sequence);
        if *last.borrow() == Some(known) {
            return (told, notices);
        }
        tokio::select! {
            notice = socket.next() => notices.push(notice),
            changed = last.changed() => changed.unwrap(),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_and_what_follows_are_exactly_what_the_log_says() {
    const JOINS: usize = 100;
    /// Between two joins.
    const CHANGES: usize = 10;
    let server = TestServer::start().await;
    let (stop, stopped) = watch::channel(false);
    let (finish, last) = watch::channel(None);
    let changes = Arc::new(watch::Sender::new(0));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let editor = server.editor(&format!("editor {writer}")).connected();
            tokio::spawn(write(editor, writer, Arc::clone(&changes), stopped.clone()))
        })
        .collect();
    let mut joins = Vec::new();
    for index in 0..JOINS {
        changes.subscribe().wait_for(|changes| *changes >= index * CHANGES).await.unwrap();
        let viewer = server.viewer(&format!("viewer {index}"));
        joins.push(tokio::spawn(async move { viewer.in_room("room").await }));
    }
    let mut listeners = Vec::new();
    for join in joins {
        let (socket, told) = join.await.unwrap();
        listeners.push(tokio::spawn(listen(socket, told, last.clone())));
    }
    stop.send_replace(true);
    for writer in writers {
        writer.await.unwrap();
    }
    let log = all_events(&server).await;
    finish.send_replace(log.last().map(sequence));
    let final_state = by_the_log(&log);
    let mut pages = 0;
    for listener in listeners {
        let (told, notices) = listener.await.unwrap();
        pages = pages.max(told.pages);
        let mut state: BTreeMap<String, i64> = told
            .locks
            .iter()
            .map(|lock| (lock["document"].as_str().unwrap().to_owned(), lock["fencing_token"].as_i64().unwrap()))
            .collect();
        let (before, after) = log.split_at(usize::try_from(sequence(&told.opening)).unwrap());
        assert_eq!(state, by_the_log(before));
        assert!(notices.iter().map(sequence).eq(after.iter().map(sequence)));
        for notice in &notices {
            apply(&mut state, notice);
        }
        assert_eq!(state, final_state);
    }
    assert!(pages > 1, "a snapshot of several pages is part of it");
}

async fn all_events(server: &TestServer) -> Vec<Value> {
    let (root, mut events) = (server.admin(), Vec::new());
    loop {
        let after = events.last().map_or(0, sequence);
        let page = root.get(&format!("/api/admin/events?limit=1000&after={after}")).await.ok();
        let items = page["items"].as_array().unwrap().clone();
        if items.is_empty() {
            return events;
        }
        events.extend(items);
    }
}

fn by_the_log(log: &[Value]) -> BTreeMap<String, i64> {
    let mut state = BTreeMap::new();
    for event in log {
        let document = event["document"].as_str().unwrap().to_owned();
        match event["type"].as_str().unwrap() {
            "DocumentLocked" => state.insert(document, event["fencing_token"].as_i64().unwrap()),
            _ => state.remove(&document),
        };
    }
    state
}

#[tokio::test]
async fn a_client_that_comes_back_gets_what_it_missed_also_after_a_restart() {
    let mut server = TestServer::start().await;
    let (mut socket, told) = server.viewer("eve").in_room("room").await;
    server.editor("alice").post(&lock(1), json!({})).await.ok();
    let first = socket.next().await;
    let after = json!({"epoch": told.opening["epoch"], "sequence": first["sequence"]});
    drop(socket);
    server.editor("alice").post(&lock(2), json!({})).await.ok();
    server = server.restart().await;
    server.editor("alice").delete(&lock(1), json!({})).await.ok();
    server.editor("alice").post("/api/documents/other/lock", json!({})).await.ok();
    let mut socket = server.viewer("eve").socket("/ws").await;
    let told = socket.subscribe("room", Some(after)).await;
    assert_eq!((&told.opening["recovered"], sequence(&told.opening)), (&json!(true), 4));
    let types: Vec<_> = told.events.iter().map(|event| (sequence(event), event["type"].as_str().unwrap())).collect();
    assert_eq!(types, [(2, "DocumentLocked"), (3, "DocumentUnlocked")]);
    server.editor("alice").delete(&lock(2), json!({})).await.ok();
    assert_eq!(sequence(&socket.next().await), 5);
    // Nothing missed is recovered as well.
    let again = server
        .viewer("eve")
        .socket("/ws")
        .await
        .subscribe("room", Some(json!({"epoch": told.opening["epoch"], "sequence": 5})))
        .await;
    assert_eq!((&again.opening["recovered"], again.events.len()), (&json!(true), 0));
}

#[tokio::test]
async fn a_replay_shows_leases_as_the_live_notice_does() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let (mut socket, told) = alice.in_room("room").await;
    alice.post(&lock(1), json!({"session_id": "tab", "metadata": {"a": [1, 2]}, "document_version": "v1"})).await.ok();
    alice.delete(&lock(1), json!({"session_id": "tab"})).await.ok();
    let live = [socket.next().await, socket.next().await];
    let replayed = alice.socket("/ws").await.subscribe("room", Some(told.after())).await;
    assert_eq!(replayed.events, live);
    let others = server.viewer("eve").socket("/ws").await.subscribe("room", Some(told.after())).await;
    assert_eq!(others.events[0]["lock"].get("lease_id"), None);
}

#[tokio::test]
async fn a_client_whose_place_in_the_log_is_unknown_gets_a_snapshot() {
    let server = TestServer::start().await;
    let alice = server.editor("alice").connected();
    for _ in 0..501 {
        alice.post(&lock(1), json!({})).await.ok();
        alice.delete(&lock(1), json!({})).await.ok();
    }
    alice.post(&lock(2), json!({})).await.ok();
    let epoch = server.viewer("eve").in_room("room").await.1.opening["epoch"].clone();
    for (after, recovered) in [
        (json!({"epoch": epoch, "sequence": 0}), false),
        (json!({"epoch": epoch, "sequence": 2}), false),
        (json!({"epoch": epoch, "sequence": 3}), true),
        (json!({"epoch": epoch, "sequence": 1003}), true),
        (json!({"epoch": epoch, "sequence": 1004}), false),
        (json!({"epoch": epoch, "sequence": -5}), false),
        (json!({"epoch": epoch, "sequence": u64::MAX}), false),
        (json!({"epoch": "another", "sequence": 1000}), false),
        (json!({"epoch": uuid::Uuid::nil(), "sequence": 1000}), false),
    ] {
        let told = server.viewer("eve").socket("/ws").await.subscribe("room", Some(after.clone())).await;
        assert_eq!(told.opening["recovered"], recovered, "{after}");
        assert_eq!(told.locks.len(), usize::from(!recovered), "{after}");
    }
    // More than a page, and all of it.
    let told =
        server.viewer("eve").socket("/ws").await.subscribe("room", Some(json!({"epoch": epoch, "sequence": 3}))).await;
    assert!(told.pages > 1);
    assert_eq!(told.events.iter().map(sequence).collect::<Vec<_>>(), (4..=1003).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_client_whose_place_in_the_log_was_pruned_gets_a_snapshot() {
    let server = TestServer::start().await;
    let (_, told) = server.viewer("eve").in_room("room").await;
    server.editor("alice").post(&lock(1), json!({})).await.ok();
    server.skip_hours(31 * 24).await;
    server.sweep().await;
    let told = server.viewer("eve").socket("/ws").await.subscribe("room", Some(told.after())).await;
    // The month away was an outage, which its lock has survived.
    assert_eq!((&told.opening["recovered"], told.locks.len()), (&json!(false), 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_room_of_5000_locks_arrives_in_pages_and_nobody_is_closed() {
    const NEWCOMERS: usize = 10;
    let server = TestServer::start().await;
    let alice = server.editor("alice").connected();
    let of_page =
        |page: usize| json!({"documents": (0..100).map(|index| format!("{page} {index}")).collect::<Vec<_>>()});
    let mut first = server.viewer("bob").in_room("room").await.0;
    for page in 0..50 {
        alice.post("/api/rooms/room/locks", of_page(page)).await.ok();
    }
    let newcomers: Vec<_> = (0..NEWCOMERS)
        .map(|_| {
            let viewer = server.viewer("eve");
            tokio::spawn(async move { viewer.in_room("room").await })
        })
        .collect();
    // More notices than an outbox holds pass meanwhile: what is being told does not count.
    for page in 0..10 {
        alice.delete("/api/rooms/room/locks", of_page(page)).await.ok();
    }
    for expected in 1..=6000 {
        assert_eq!(sequence(&first.next().await), expected);
    }
    first.is_quiet().await;
    for newcomer in newcomers {
        let (mut socket, told) = newcomer.await.unwrap();
        assert!(told.pages > 10, "{}", told.pages);
        let head = sequence(&told.opening);
        assert_eq!(i64::try_from(told.locks.len()).unwrap(), 10_000 - head);
        for expected in head + 1..=6000 {
            assert_eq!(sequence(&socket.next().await), expected);
        }
        socket.is_quiet().await;
    }
}
