//! Server-Sent Events.

use std::time::Duration;

use doclock::auth::{Claims, Role};
use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::support::{Answer, Caller, TestServer, claims};

const LOCK: &str = "/api/documents/room/lock";
const EVENTS: &str = "/api/rooms/room/events";

pub struct Stream {
    response: Response,
    buffer: String,
}

#[derive(Debug)]
pub struct Event {
    pub id: Option<String>,
    pub kind: String,
    pub data: Value,
}

impl Stream {
    pub async fn open(caller: &Caller, path: &str, last: Option<&str>) -> Self {
        let request = caller.request(Method::GET, path);
        let request = match last {
            Some(last) => request.header("last-event-id", last),
            None => request,
        };
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        assert_eq!(response.headers()["cache-control"], "no-store");
        Self { response, buffer: String::new() }
    }

    /// Up to the next empty line; nothing at the end.
    async fn block(&mut self) -> Option<String> {
        loop {
            if let Some((block, rest)) = self.buffer.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.buffer = rest;
                return Some(block);
            }
            let chunk =
                tokio::time::timeout(Duration::from_secs(20), self.response.chunk()).await.expect("nothing came");
            self.buffer.push_str(std::str::from_utf8(&chunk.ok()??).unwrap());
        }
    }

    pub async fn next(&mut self) -> Event {
        let block = self.block().await.expect("the stream has ended");
        let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(ToOwned::to_owned);
        let data = field("data: ").unwrap_or_else(|| panic!("{block}"));
        Event { id: field("id: "), kind: field("event: ").unwrap(), data: serde_json::from_str(&data).unwrap() }
    }
}

#[tokio::test]
async fn an_event_stream_hears_a_room_and_resumes() {
    let server = TestServer::start().await;
    let (alice, eve) = (server.editor("alice"), server.viewer("eve"));
    alice.post(LOCK, json!({})).await.ok();
    let mut stream = Stream::open(&eve, EVENTS, None).await;
    let first = stream.next().await;
    assert_eq!((first.kind.as_str(), first.data["locks"].as_array().unwrap().len()), ("subscribed", 1));
    let epoch = first.data["epoch"].as_str().unwrap().to_owned();
    assert_eq!(first.id, Some(format!("{epoch}:1")));
    alice.delete(LOCK, json!({})).await.ok();
    let second = stream.next().await;
    assert_eq!((second.kind.as_str(), second.id.clone()), ("DocumentUnlocked", Some(format!("{epoch}:2"))));
    assert_eq!((&second.data["type"], &second.data["reason"]), (&json!("DocumentUnlocked"), &json!("released")));
    drop(stream);
    alice.post(LOCK, json!({})).await.ok();
    let mut stream = Stream::open(&eve, EVENTS, second.id.as_deref()).await;
    let missed = stream.next().await;
    assert_eq!((&missed.data["recovered"], missed.id), (&json!(true), Some(format!("{epoch}:3"))));
    assert_eq!(missed.data["events"][0]["sequence"], 3);
    alice.delete(LOCK, json!({})).await.ok();
    assert_eq!(stream.next().await.data["sequence"], 4);
    let mut unknown = Stream::open(&eve, EVENTS, Some("nonsense")).await;
    assert_eq!(unknown.next().await.data["recovered"], false);
    drop((stream, unknown));
    crate::hostile::sockets(&server, 0).await;
}

#[tokio::test]
async fn a_stream_pass_is_good_once_for_30_s_and_for_its_rooms() {
    let server = TestServer::start().await;
    let (eve, stranger) = (server.viewer("eve"), server.bearing(None));
    let ticket = async |rooms: &[&str]| {
        let answer = eve.post("/api/stream-tickets", json!({"rooms": rooms})).await.ok();
        assert_eq!(answer["expires_in_ms"], 30_000);
        format!("{EVENTS}?ticket={}", answer["ticket"].as_str().unwrap())
    };
    let path = ticket(&["other", "room"]).await;
    assert_eq!(Stream::open(&stranger, &path, None).await.next().await.kind, "subscribed");
    stranger.get(&path).await.problem(401, "TOKEN_INVALID");
    stranger.get(&ticket(&["other"]).await).await.problem(403, "ROOM_FORBIDDEN");
    let late = ticket(&["room"]).await;
    server.pass_seconds(30).await;
    stranger.get(&late).await.problem(401, "TOKEN_INVALID");
    stranger.get(EVENTS).await.problem(401, "TOKEN_MISSING");
    stranger.post("/api/stream-tickets", json!({"rooms": ["room"]})).await.problem(401, "TOKEN_MISSING");
    eve.post("/api/stream-tickets", json!({"rooms": []})).await.problem(422, "INVALID_FIELD");
    // Its ticket is good for no longer than a token is.
    let brief = server.caller(Claims { exp: server.seconds_from_now(10), ..claims("eve", Role::Viewer) });
    let ticket = brief.post("/api/stream-tickets", json!({"rooms": ["room"]})).await.ok()["ticket"].clone();
    server.pass_seconds(10).await;
    stranger.get(&format!("{EVENTS}?ticket={}", ticket.as_str().unwrap())).await.problem(401, "TOKEN_EXPIRED");
    let limited = server.caller(Claims { rooms: Some(vec!["a".to_owned()]), ..claims("eve", Role::Viewer) });
    limited.post("/api/stream-tickets", json!({"rooms": ["room"]})).await.problem(403, "ROOM_FORBIDDEN");
    limited.get(EVENTS).await.problem(403, "ROOM_FORBIDDEN");
    assert_eq!(Answer::of(eve.request(Method::HEAD, EVENTS)).await.status, 200);
}

#[tokio::test]
async fn a_page_that_opens_a_new_stream_by_a_new_pass_goes_on_where_it_was() {
    let server = TestServer::start().await;
    let (alice, eve, stranger) = (server.editor("alice"), server.viewer("eve"), server.bearing(None));
    let pass = async || eve.post("/api/stream-tickets", json!({"rooms": ["room"]})).await.ok()["ticket"].clone();
    let path = format!("{EVENTS}?ticket={}", pass().await.as_str().unwrap());
    assert_eq!(Answer::of(stranger.request(Method::HEAD, &path)).await.status, 200, "a HEAD does not use it up");
    let last = Stream::open(&stranger, &path, None).await.next().await.id.unwrap();
    alice.post(LOCK, json!({})).await.ok();
    let path = format!("{EVENTS}?ticket={}&after={last}", pass().await.as_str().unwrap());
    let missed = Stream::open(&stranger, &path, None).await.next().await;
    assert_eq!((&missed.data["recovered"], &missed.data["events"][0]["sequence"]), (&json!(true), &json!(1)));
    let last = missed.id.unwrap();
    let path =
        format!("{EVENTS}?ticket={}&after={}:0", pass().await.as_str().unwrap(), last.split(':').next().unwrap());
    let nothing = Stream::open(&stranger, &path, Some(&last)).await.next().await;
    assert_eq!(nothing.data["events"], json!([]), "what a browser knows itself is newer than the address");
}

#[tokio::test]
async fn a_silent_stream_is_kept_alive_and_ends_with_its_token() {
    let server = TestServer::start().await;
    let caller = server.caller(Claims { exp: server.seconds_from_now(20), ..claims("eve", Role::Viewer) });
    let mut stream = Stream::open(&caller, EVENTS, None).await;
    stream.next().await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    server.pass_seconds(15).await;
    assert_eq!(stream.block().await.as_deref(), Some(":"));
    server.pass_seconds(5).await;
    assert_eq!(stream.block().await, None);
}
