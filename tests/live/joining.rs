//! Snapshots, resumes, and the seam between them and the live stream.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    client::{apply, sequence},
    support::TestServer,
};

fn lock(document: usize) -> String {
    format!("/api/documents/room/{document}/lock")
}

#[tokio::test]
async fn a_room_by_its_address_is_subscribed_at_once() {
    let server = TestServer::start().await;
    server.editor("alice").post("/api/documents/a%2Fb/lock", json!({})).await.ok();
    let mut socket = server.viewer("eve").socket("/ws/a%2Fb").await;
    let told = socket.told().await;
    assert_eq!((told.opening["room"].clone(), told.locks.len()), (json!("a/b"), 1));
    assert_eq!((&told.opening["recovered"], &told.opening["participants"]), (&json!(false), &json!([])));
}

#[tokio::test]
async fn a_snapshot_and_what_follows_are_exactly_what_the_log_says() {
    const DOCUMENTS: usize = 20;
    let server = TestServer::start().await;
    let busy = (0..4).map(|writer| {
        let editor = server.editor(&format!("editor {writer}")).connected();
        tokio::spawn(async move {
            for turn in 0..150 {
                let path = lock(writer * 5 + turn % 5);
                // Some are left on, and refused when their turn comes again.
                editor.post(&path, json!({})).await;
                if turn % 3 != 0 {
                    editor.delete(&path, json!({})).await.ok();
                }
            }
        })
    });
    let busy: Vec<_> = busy.collect();
    let joins = (0..100).map(|index| {
        let viewer = server.viewer(&format!("viewer {index}"));
        tokio::spawn(async move {
            tokio::time::sleep(std::time::Duration::from_millis(index * 10)).await;
            let (socket, told) = viewer.in_room("room").await;
            (viewer, socket, told)
        })
    });
    let joins: Vec<_> = joins.collect();
    for writer in busy {
        writer.await.unwrap();
    }
    server.editor("last").post("/api/documents/room/last/lock", json!({})).await.ok();
    let log = all_events(&server).await;
    assert!(log.len() > 100, "{}", log.len());
    for join in joins {
        let (_viewer, mut socket, told) = join.await.unwrap();
        let start = sequence(&told.opening);
        let mut state: BTreeMap<String, i64> = told
            .locks
            .iter()
            .map(|lock| (lock["document"].as_str().unwrap().to_owned(), lock["fencing_token"].as_i64().unwrap()))
            .collect();
        assert!(state.len() <= DOCUMENTS + 1);
        let rest = log.iter().filter(|event| sequence(event) > start);
        for expected in rest {
            let notice = socket.next().await;
            assert_eq!(sequence(&notice), sequence(expected));
            apply(&mut state, &notice);
        }
        assert_eq!(state, by_the_log(&log));
    }
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
async fn who_comes_back_gets_what_it_missed_across_a_restart_too() {
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
async fn what_cannot_be_replayed_is_a_snapshot() {
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
async fn what_was_pruned_is_a_snapshot() {
    let server = TestServer::start().await;
    let (_, told) = server.viewer("eve").in_room("room").await;
    server.editor("alice").post(&lock(1), json!({})).await.ok();
    server.skip_hours(31 * 24).await;
    server.sweep().await;
    let told = server.viewer("eve").socket("/ws").await.subscribe("room", Some(told.after())).await;
    // The month away was an outage, which its lock has survived.
    assert_eq!((&told.opening["recovered"], told.locks.len()), (&json!(false), 1));
}

#[tokio::test]
async fn a_room_of_5000_locks_arrives_in_pages() {
    let server = TestServer::start().await;
    let alice = server.editor("alice").connected();
    for page in 0..50 {
        let documents: Vec<_> = (0..100).map(|index| format!("{}", page * 100 + index)).collect();
        alice.post("/api/rooms/room/locks", json!({"documents": documents})).await.ok();
    }
    let mut socket = server.viewer("eve").socket("/ws").await;
    let joining = tokio::spawn(async move {
        let told = socket.subscribe("room", None).await;
        (socket, told)
    });
    // More notices than an outbox holds pass meanwhile: what is being told does not count.
    for turn in 0..10 {
        let documents: Vec<_> = (0..100).map(|index| format!("{}", turn * 100 + index)).collect();
        alice.delete("/api/rooms/room/locks", json!({"documents": documents})).await.ok();
    }
    let (mut socket, told) = joining.await.unwrap();
    assert!(told.pages > 10, "{}", told.pages);
    let head = sequence(&told.opening);
    assert_eq!(i64::try_from(told.locks.len()).unwrap(), 10_000 - head);
    for expected in head + 1..=6000 {
        assert_eq!(sequence(&socket.next().await), expected);
    }
    socket.is_quiet().await;
}
