//! `/asyncapi.json` against what is really said.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::support::TestServer;

/// One of each type that a server says.
async fn said(server: TestServer) -> BTreeMap<String, Vec<Value>> {
    let alice = server.editor("alice").connected();
    let mut socket = alice.unwelcomed("/ws").await;
    let mut said = vec![socket.next().await];
    let epoch = said[0]["epoch"].clone();
    let documents = |page: usize| -> Vec<_> { (0..100).map(|index| format!("{page} {index}")).collect() };
    for page in 0..2 {
        alice.post("/api/rooms/large/locks", json!({"documents": documents(page)})).await.ok();
    }
    for message in [
        json!({"type": "subscribe", "id": 1, "room": "room", "extensions": true}),
        json!({"type": "unsubscribe", "id": 2, "room": "none"}),
        json!({"type": "extend", "id": 3, "room": "none"}),
        json!({"type": "subscribe", "room": "none", "after": {"epoch": epoch, "sequence": 0}}),
    ] {
        said.push(socket.ask(message).await);
    }
    for kind in ["lock", "extend", "unlock"] {
        socket.say(json!({"type": kind, "id": kind, "room": "room"})).await;
        said.extend([socket.next().await, socket.next().await]);
    }
    said.push(socket.ask(json!({"type": "subscribe", "room": "large"})).await);
    while said.last().unwrap()["more"] == true {
        said.push(socket.next().await);
    }
    let restarting = tokio::spawn(server.restart());
    said.push(socket.next().await);
    restarting.await.unwrap();
    let mut by_type: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for message in said {
        by_type.entry(message["type"].as_str().unwrap().to_owned()).or_default().push(message);
    }
    by_type
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_message_is_as_described_and_every_description_is_of_a_message() {
    let server = TestServer::start().await;
    let description = server.bearing(None).get("/asyncapi.json").await.ok();
    assert_eq!(description["asyncapi"], "3.0.0");
    refer(&description, &description);
    let told = description["operations"]["tell"]["messages"].as_array().unwrap();
    let described: BTreeSet<_> =
        told.iter().map(|message| message["$ref"].as_str().unwrap().rsplit('/').next().unwrap().to_owned()).collect();
    let said = said(server).await;
    assert_eq!(said.keys().cloned().collect::<BTreeSet<_>>(), described);
    for (kind, messages) in said {
        let payload = &description["components"]["messages"][&kind]["payload"];
        assert_eq!(payload["properties"]["type"]["const"], kind);
        for message in messages {
            let fields = message.as_object().unwrap();
            for required in payload["required"].as_array().unwrap() {
                assert!(fields.contains_key(required.as_str().unwrap()), "{required} in {message}");
            }
            let is_closed = payload["additionalProperties"] == false;
            for field in fields.keys() {
                assert!(!is_closed || payload["properties"].get(field).is_some(), "{field} of {kind} is not described");
            }
        }
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
