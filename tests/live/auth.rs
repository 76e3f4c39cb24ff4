//! Ways in, and ways to be kept out.

use doclock::{
    auth::{Claims, Role},
    settings::Network,
};
use serde_json::json;

use crate::{
    client::{open, try_open},
    support::{TestServer, claims},
};

#[tokio::test]
async fn a_token_comes_by_header_by_subprotocol_or_by_message() {
    let server = TestServer::start().await;
    let token = server.token(claims("alice", Role::Editor));
    let bearer = format!("Bearer {token}");
    let mut by_header = open(&server.base, "/ws", &[("authorization", &bearer)]).await;
    let welcome = by_header.next().await;
    assert_eq!((&welcome["type"], &welcome["ping_ms"]), (&json!("welcome"), &json!(10_000)));
    assert!(welcome["epoch"].is_string() && welcome["server_time"].is_string());
    assert_eq!(welcome["limits"], json!({"message_bytes": 16_384, "rooms": 128}));

    let offered = format!("doclock.v1, bearer.{token}");
    let mut by_protocol = open(&server.base, "/ws", &[("sec-websocket-protocol", &offered)]).await;
    assert_eq!(by_protocol.response.headers()["sec-websocket-protocol"], "doclock.v1");
    assert_eq!(by_protocol.next().await["type"], "welcome");

    let mut by_message = open(&server.base, "/ws/room", &[]).await;
    by_message.say(json!({"type": "auth", "id": "a", "token": token})).await;
    assert_eq!(by_message.next().await["id"], "a");
    assert_eq!(by_message.next().await["type"], "welcome");
    assert_eq!(by_message.told().await.opening["room"], "room");
    assert_eq!(by_message.ask(json!({"type": "lock", "room": "other"})).await["type"], "ok");
}

#[tokio::test]
async fn a_bad_token_is_accepted_and_closed_4401() {
    let server = TestServer::start().await;
    let expired = Claims { exp: server.seconds_from_now(-1), ..claims("alice", Role::Editor) };
    for (token, code) in [("nonsense".to_owned(), "TOKEN_INVALID"), (server.token(expired), "TOKEN_EXPIRED")] {
        let bearer = format!("Bearer {token}");
        let mut socket = open(&server.base, "/ws", &[("authorization", &bearer)]).await;
        assert_eq!(socket.closed().await, (4401, code.to_owned()));
        let mut socket = open(&server.base, "/ws", &[]).await;
        socket.say(json!({"type": "auth", "token": token})).await;
        assert_eq!(socket.closed().await, (4401, code.to_owned()));
    }
    let mut silent = open(&server.base, "/ws", &[]).await;
    silent.say(json!({"type": "subscribe", "room": "room"})).await;
    assert_eq!(silent.closed().await, (4401, "TOKEN_MISSING".to_owned()));
}

#[tokio::test]
async fn a_token_in_the_address_is_refused() {
    let server = TestServer::start().await;
    let token = server.token(claims("alice", Role::Editor));
    for query in [format!("token={token}"), format!("access_token={token}"), "rooms=room".to_owned()] {
        let refused = try_open(&server.base, &format!("/ws?{query}"), &[]).await;
        assert_eq!(status(refused), 422, "{query}");
    }
}

fn status(refused: Result<crate::client::Socket, tokio_tungstenite::tungstenite::Error>) -> u16 {
    match refused.map(|socket| socket.response) {
        Err(tokio_tungstenite::tungstenite::Error::Http(response)) => response.status().as_u16(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn pages_of_foreign_origins_are_refused_before_the_upgrade() {
    let server = TestServer::start().await;
    let bearer = format!("Bearer {}", server.token(claims("alice", Role::Editor)));
    for (origin, may) in [
        ("http://localhost:5173", true),
        (server.base.as_str(), true),
        ("https://evil.example", false),
        ("null", false),
    ] {
        let opened = try_open(&server.base, "/ws", &[("origin", origin), ("authorization", &bearer)]).await;
        if may {
            assert_eq!(opened.unwrap().next().await["type"], "welcome", "{origin}");
        } else {
            assert_eq!(status(opened), 403, "{origin}");
        }
    }
    server.viewer("eve").get("/ws").await.problem(400, "BAD_REQUEST");
}

#[tokio::test]
async fn a_renewed_token_must_be_of_the_same_caller() {
    let server = TestServer::start().await;
    let mut socket = server.editor("alice").socket("/ws").await;
    let token = server.token(claims("alice", Role::Editor));
    assert_eq!(socket.ask(json!({"type": "auth", "id": 1, "token": token})).await["type"], "ok");
    let token = server.token(claims("bob", Role::Editor));
    socket.say(json!({"type": "auth", "token": token})).await;
    assert_eq!(socket.close_code().await, 4403);
}

#[tokio::test]
async fn sockets_per_owner_and_rooms_per_socket_are_limited() {
    let server = TestServer::configured(|settings| {
        settings.limits.sockets_per_owner = 2;
        settings.limits.rooms_per_socket = 2;
    })
    .await;
    let alice = server.editor("alice");
    let (mut first, second) = (alice.socket("/ws").await, alice.socket("/ws").await);
    assert_eq!(alice.unwelcomed("/ws").await.close_code().await, 4429);
    alice.get("/api/rooms/room/events").await.problem(429, "LIMIT_REACHED");
    server.editor("bob").socket("/ws").await;
    second.close().await;
    crate::hostile::sockets(&server, 1).await;
    alice.socket("/ws").await;
    for room in ["a", "b", "b"] {
        first.subscribe(room, None).await;
    }
    let refused = first.ask(json!({"type": "subscribe", "room": "c"})).await;
    assert_eq!(refused["code"], "LIMIT_REACHED");
    assert_eq!(first.close_code().await, 4429);
}

#[tokio::test]
async fn sockets_per_address_are_limited() {
    let server = TestServer::configured(|settings| settings.limits.sockets_per_address = 1).await;
    let first = server.editor("alice").socket("/ws").await;
    assert_eq!(server.editor("bob").unwelcomed("/ws").await.close_code().await, 4429);
    first.close().await;
    crate::hostile::sockets(&server, 0).await;
    server.editor("bob").socket("/ws").await;
}

/// How sockets fare that seem to come from these addresses, one after the other.
async fn forwarded_for(server: &TestServer, addresses: [&str; 3]) -> Vec<String> {
    let bearer = format!("Bearer {}", server.token(claims("alice", Role::Editor)));
    let (mut sockets, mut ends) = (Vec::new(), Vec::new());
    for address in addresses {
        let mut socket = open(&server.base, "/ws", &[("authorization", &bearer), ("x-forwarded-for", address)]).await;
        ends.push(match socket.try_next().await {
            Some(welcome) => welcome["type"].as_str().unwrap().to_owned(),
            None => "closed".to_owned(),
        });
        sockets.push(socket);
    }
    ends
}

#[tokio::test]
async fn the_address_of_a_client_is_the_one_a_trusted_proxy_names() {
    let clients = ["203.0.113.5", "203.0.113.6", "203.0.113.5"];
    let trusting = TestServer::configured(|settings| {
        settings.limits.sockets_per_address = 1;
        settings.server.trusted_proxies = vec![Network::try_from("127.0.0.0/8".to_owned()).unwrap()];
    })
    .await;
    assert_eq!(forwarded_for(&trusting, clients).await, ["welcome", "welcome", "closed"]);
    let distrusting = TestServer::configured(|settings| settings.limits.sockets_per_address = 1).await;
    assert_eq!(forwarded_for(&distrusting, clients).await, ["welcome", "closed", "closed"]);
}
