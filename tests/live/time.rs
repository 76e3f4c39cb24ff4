//! What happens when time passes. Pongs are sent by the client as it reads; one that does not read does not answer.

use std::time::Duration;

use doclock::auth::{Claims, Role};
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use crate::{
    client::open,
    support::{TestServer, claims},
};

/// Long enough for the server to have seen what was sent, or what time it is.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(100)).await;
}

#[tokio::test]
async fn a_socket_that_sends_no_token_within_10_s_is_closed_4401() {
    let server = TestServer::start().await;
    let mut socket = open(&server.base, "/ws", &[]).await;
    settle().await;
    server.pass(Duration::from_millis(9_999)).await;
    settle().await;
    server.pass(Duration::from_millis(1)).await;
    assert_eq!(socket.closed().await, (4401, "TOKEN_MISSING".to_owned()));
}

#[tokio::test]
async fn a_socket_ends_with_its_token_unless_it_is_renewed() {
    let server = TestServer::start().await;
    let claims = Claims { exp: server.seconds_from_now(5), ..claims("alice", Role::Editor) };
    let caller = server.caller(claims.clone());
    let (mut left, mut renewed) = (caller.socket("/ws").await, caller.socket("/ws").await);
    let longer = server.token(Claims { exp: server.seconds_from_now(9), ..claims });
    assert_eq!(renewed.ask(json!({"type": "auth", "id": 1, "token": longer})).await["type"], "ok");
    settle().await;
    server.pass_seconds(5).await;
    assert_eq!(left.closed().await, (4401, "TOKEN_EXPIRED".to_owned()));
    renewed.is_quiet().await;
    server.pass_seconds(4).await;
    assert_eq!(renewed.closed().await, (4401, "TOKEN_EXPIRED".to_owned()));
}

#[tokio::test]
async fn only_the_pong_to_the_outstanding_ping_counts() {
    let server = TestServer::start().await;
    let (mut good, mut bad) = (server.editor("alice").socket("/ws").await, server.editor("bob").socket("/ws").await);
    settle().await;
    server.pass_seconds(10).await;
    let Some(Message::Ping(asked)) = good.message().await else { panic!("no ping") };
    assert_eq!(asked.len(), 8);
    // Reading on sends the pong.
    good.is_quiet().await;
    settle().await;
    // This one answers something else, and reads nothing, so that its client does not answer by itself.
    bad.send_raw(Message::Pong(vec![0; 8].into())).await;
    settle().await;
    server.pass(Duration::from_millis(19_999)).await;
    settle().await;
    assert!(matches!(good.message().await, Some(Message::Ping(_))), "every 10 s");
    good.is_quiet().await;
    settle().await;
    server.pass(Duration::from_millis(1)).await;
    settle().await;
    assert_eq!(bad.close_code().await, 4409);
    assert_eq!(good.ask(json!({"type": "lock", "room": "room"})).await["type"], "ok");
}
