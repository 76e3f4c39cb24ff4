//! Stream passes, when there are several servers.

use std::time::Duration;

use doclock::auth::Role;
use serde_json::{Value, json};

use crate::{
    pair::{self, Pair, count, until},
    support::{Running, claims},
};

async fn ticket(server: &Running) -> String {
    let request = reqwest::Client::new().post(format!("{}/api/stream-tickets", server.base));
    let request = request.bearer_auth(pair::token(claims("eve", Role::Viewer))).json(&json!({"rooms": ["room"]}));
    let answer: Value = request.send().await.unwrap().json().await.unwrap();
    answer["ticket"].as_str().unwrap().to_owned()
}

/// The status, and what comes first.
async fn redeem(server: &Running, ticket: &str) -> (u16, String) {
    let mut response = reqwest::get(format!("{}/api/rooms/room/events?ticket={ticket}", server.base)).await.unwrap();
    let first = response.chunk().await.unwrap().unwrap();
    (response.status().as_u16(), String::from_utf8(first.to_vec()).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_pass_of_one_server_is_good_on_the_other_once() {
    let pair = Pair::start().await;
    let one = ticket(&pair.first).await;
    let (status, first) = redeem(&pair.second, &one).await;
    assert_eq!(status, 200);
    assert!(first.contains(r#""participants":[{"owner_id":"eve","name":null}]"#), "{first}");
    for server in [&pair.first, &pair.second] {
        let (status, problem) = redeem(server, &one).await;
        assert!(status == 401 && problem.contains("TOKEN_INVALID"), "{status} {problem}");
    }
    assert_eq!(count(&pair.database, "stream_tickets").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_clients_with_one_stream_pass_one_gets_in() {
    let pair = Pair::start().await;
    for _ in 0..20 {
        let one = ticket(&pair.first).await;
        let (a, b) = tokio::join!(redeem(&pair.first, &one), redeem(&pair.second, &one));
        let mut statuses = [a.0, b.0];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 401]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_pass_ends_after_30_s_and_is_swept_away() {
    let pair = Pair::start().await;
    let (one, two) = (ticket(&pair.first).await, ticket(&pair.first).await);
    let by_digest = format!("stream_tickets WHERE digest = sha256('{one}') AND body NOT LIKE '%{one}%'");
    assert_eq!(count(&pair.database, &by_digest).await, 1, "the table does not show it");
    pair.clock.advance(Duration::from_millis(29_999));
    assert_eq!(redeem(&pair.second, &one).await.0, 200);
    pair.second.sweeper.sweep().await.unwrap();
    assert_eq!(count(&pair.database, "stream_tickets").await, 1);
    pair.clock.advance(Duration::from_millis(1));
    let last = ticket(&pair.second).await;
    assert_eq!(redeem(&pair.second, &two).await.0, 401);
    assert_eq!(redeem(&pair.first, &last).await.0, 200);
    let _unused = ticket(&pair.first).await;
    pair.clock.advance(Duration::from_secs(30));
    pair.second.sweeper.sweep().await.unwrap();
    until(&pair.database, "stream_tickets", 0).await;
}
