//! `/asyncapi.json` against what is really said.

use std::collections::{BTreeMap, BTreeSet};

use jsonschema::Validator;
use serde_json::{Value, json};

use crate::{
    client::Socket,
    support::{Caller, TestServer},
};

const ROOM: &str = "/api/documents/room/lock";

type ByType = BTreeMap<String, Vec<Value>>;

/// At least one of each type that a server says, to the owner of locks and to somebody else.
async fn said(server: TestServer) -> ByType {
    let alice = server.editor("alice").connected();
    let (mut own, mut other) = (alice.unwelcomed("/ws").await, server.viewer("eve").unwelcomed("/ws").await);
    for socket in [&mut own, &mut other] {
        socket.record = Some(Vec::new());
        let epoch = socket.next().await["epoch"].clone();
        socket.ask(json!({"type": "subscribe", "id": 1, "room": "room", "extensions": true})).await;
        socket.ask(json!({"type": "unsubscribe", "id": "two", "room": "none"})).await;
        socket.ask(json!({"type": "subscribe", "room": "none", "after": {"epoch": epoch, "sequence": 0}})).await;
    }
    // Somebody comes and goes.
    server.viewer("bob").in_room("room").await.0.close().await;
    crate::hostile::sockets(&server, 2).await;
    crate::presence::pass(&server).await;
    while own.next_of_any_kind().await["type"] != "ParticipantLeft" {}
    let full = json!({"session_id": "tab", "metadata": {"a": [1, null]}, "document_version": "v1"});
    alice.post("/api/documents/room/full/lock", full).await.ok();
    own.say(json!({"type": "lock", "id": "lock", "room": "room"})).await;
    own.say(json!({"type": "extend", "id": "extend", "room": "room"})).await;
    own.say(json!({"type": "unlock", "id": "unlock", "room": "room"})).await;
    own.say(json!({"type": "extend", "id": 3, "room": "none"})).await;
    own.say(json!({"type": "lock", "id": 4, "room": "room", "ttl_seconds": 0})).await;
    while own.next().await["id"] != 4 {}
    people(&server, &alice, &mut own).await;
    // Every way for a lock to end that there is.
    alice.post(ROOM, json!({})).await.ok();
    server.admin().post(ROOM, json!({"takeover": true, "ttl_seconds": 1})).await.ok();
    own.say(json!({"type": "lock", "id": 5, "room": "room"})).await;
    while own.next().await["id"] != 5 {}
    server.pass_seconds(1).await;
    server.sweep().await;
    server.admin().post("/api/admin/locks/unlock", json!({"filter": {"room": "room"}, "reason": "lunch"})).await.ok();
    while own.next().await["reason"] != "revoked" {}
    while other.next().await["reason"] != "revoked" {}
    for page in 0..3 {
        let documents: Vec<_> = (0..100).map(|index| format!("{page} {index}")).collect();
        alice.post("/api/rooms/large/locks", json!({"documents": documents})).await.ok();
    }
    let told = other.subscribe("large", None).await;
    assert!(told.pages > 1 && told.locks.len() == 300);
    let after = json!({"epoch": told.opening["epoch"], "sequence": 0});
    assert!(other.subscribe("large", Some(after)).await.events.len() == 300);
    let restarting = tokio::spawn(server.restart());
    while own.next().await["type"] != "goodbye" {}
    restarting.await.unwrap();
    let mut by_type = ByType::new();
    for message in own.record.into_iter().chain(other.record).flatten() {
        by_type.entry(message["type"].as_str().unwrap().to_owned()).or_default().push(message);
    }
    by_type
}

/// What is told of waiting, asking and editing: alice hears it on this socket.
async fn people(server: &TestServer, alice: &Caller, socket: &mut Socket) {
    const PATH: &str = "/api/documents/room/wanted/lock";
    let root = server.admin();
    root.post(PATH, json!({})).await.ok();
    let wait = json!({"type": "wait", "id": "wait", "room": "room", "document": "wanted", "session_id": "tab"});
    socket.say(wait).await;
    assert_eq!(socket.next_of("ok").await["granted"], false);
    let asked = alice.post(&format!("{PATH}/handovers"), json!({"session_id": "desk"})).await.ok();
    let answer = format!("{PATH}/handovers/{}/answer", asked["handover_id"].as_str().unwrap());
    root.post(&answer, json!({"grant": false, "message": "soon"})).await.ok();
    socket.next_of("HandoverAnswered").await;
    server.tend_lines().await;
    socket.next_of("LockWaiting").await;
    root.delete(PATH, json!({})).await.ok();
    socket.next_of("extended").await;
    server.editor("bob").post(&format!("{PATH}/handovers"), json!({"message": "please"})).await.ok();
    socket.next_of("HandoverAsked").await;
    let beat = json!({"session_id": "tab", "activity": "idle", "document_version": "v2"});
    alice.put(PATH, beat).await.ok();
    socket.say(json!({"type": "ping", "id": "ping"})).await;
    socket.next_of("pong").await;
    alice.delete(PATH, json!({"session_id": "tab"})).await.ok();
}

fn described(description: &Value) -> BTreeSet<String> {
    let told = description["operations"]["tell"]["messages"].as_array().unwrap();
    told.iter().map(|message| message["$ref"].as_str().unwrap().rsplit('/').next().unwrap().to_owned()).collect()
}

fn validator(description: &Value, kind: &str) -> Validator {
    let payload = format!("#/components/messages/{kind}/payload");
    let schema = json!({"$ref": payload, "components": description["components"]});
    jsonschema::draft202012::new(&schema).unwrap()
}

#[track_caller]
fn check(validator: &Validator, message: &Value) {
    let errors: Vec<_> =
        validator.iter_errors(message).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?} in {message:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_message_matches_its_asyncapi_description_and_every_description_has_a_message() {
    let server = TestServer::start().await;
    let description = server.bearing(None).get("/asyncapi.json").await.ok();
    assert_eq!(description["asyncapi"], "3.0.0");
    refer(&description, &description);
    let said = said(server).await;
    assert_eq!(said.keys().cloned().collect::<BTreeSet<_>>(), described(&description));
    for (kind, messages) in said {
        let validator = validator(&description, &kind);
        for message in &messages {
            check(&validator, message);
        }
        let properties = description["components"]["messages"][&kind]["payload"]["properties"].as_object().unwrap();
        for field in properties.keys() {
            // The description says something about each field, and each was seen at least once.
            let with_it = messages.iter().find(|message| message.get(field).is_some());
            let mut other = with_it.unwrap_or_else(|| panic!("no {kind} with {field}")).clone();
            other[field] = json!({"something": "else"});
            assert!(!validator.is_valid(&other), "{field} of {kind} may be anything");
        }
    }
}

/// Commands are described as well: these are taken, and so they have to be as described.
#[tokio::test]
async fn requests_match_their_asyncapi_description() {
    let server = TestServer::start().await;
    let description = server.bearing(None).get("/asyncapi.json").await.ok();
    let alice = server.editor("alice");
    let mut socket = alice.socket("/ws").await;
    let epoch = uuid::Uuid::nil();
    let ask = async |holder: &Caller, asker: &Caller, document: &str| {
        let path = format!("/api/documents/other/{document}/lock");
        holder.post(&path, json!({})).await.ok();
        asker.post(&format!("{path}/handovers"), json!({})).await.ok()["handover_id"].clone()
    };
    let (root, asked) = (server.admin(), ask(&server.admin(), &alice, "b").await);
    let of_root = ask(&alice, &root, "c").await;
    for message in [
        json!({"type": "auth", "id": 1, "token": alice.token}),
        json!({"type": "subscribe", "id": 2, "room": "room", "after": {"epoch": epoch, "sequence": 0}}),
        json!({"type": "unsubscribe", "id": 3, "room": "room"}),
        json!({"type": "lock", "id": "4", "room": "room", "document": "a", "ttl_seconds": 5}),
        json!({"type": "extend", "id": "5", "room": "room", "document": "a"}),
        json!({"type": "unlock", "id": "6", "room": "room", "document": "a"}),
        json!({"type": "wait", "id": "7", "room": "room", "session_id": "tab", "keep": "connection"}),
        json!({"type": "cancel_wait", "id": "8", "room": "room", "session_id": "tab"}),
        json!({"type": "ask_handover", "id": "9", "room": "other", "document": "b", "message": "please"}),
        json!({"type": "cancel_handover", "id": "10", "room": "other", "document": "b", "handover_id": asked}),
        json!({"type": "answer_handover", "id": "11", "room": "other", "document": "c", "handover_id": of_root, "grant": true}),
        json!({"type": "ping", "id": 12}),
    ] {
        check(&validator(&description, message["type"].as_str().unwrap()), &message);
        let answer = socket.ask(message.clone()).await;
        assert!(answer["id"] == message["id"] && answer["type"] != "error", "{answer}");
    }
}

/// Every reference leads somewhere.
fn refer(document: &Value, part: &Value) {
    match part {
        Value::Object(fields) => {
            if let Some(Value::String(reference)) = fields.get("$ref") {
                let path = reference.strip_prefix('#').unwrap();
                assert!(document.pointer(path).is_some(), "{reference}");
            }
            fields.values().for_each(|field| refer(document, field));
        }
        Value::Array(items) => items.iter().for_each(|item| refer(document, item)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
