//! What is sent wrongly is refused as a problem, with its own code, and changes nothing.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    raw,
    support::{Answer, Caller, TestServer},
};

const LOCK: &str = "/api/documents/room/lock";

/// A server with one lock of alice's, and what it looked like before the bad input.
struct Untouched {
    server: TestServer,
    alice: Caller,
    before: (Vec<Value>, Vec<Value>),
}

impl Untouched {
    async fn start() -> Self {
        let server = TestServer::start().await;
        let alice = server.editor("alice");
        alice.post(LOCK, json!({})).await.ok();
        let before = (server.events().await, server.locks().await);
        Self { server, alice, before }
    }

    async fn check(&self) {
        assert_eq!((self.server.events().await, self.server.locks().await), self.before);
    }

    /// POST, PUT and DELETE of the document with this body, each with the same problem.
    async fn refuses_body(&self, body: &[u8], status: u16, code: &str) {
        for method in [Method::POST, Method::PUT, Method::DELETE] {
            let request = self.alice.request(method.clone(), LOCK).header("content-type", "application/json");
            let answer = Answer::of(request.body(body.to_vec())).await;
            let (found, shown) = (answer.body["code"].clone(), String::from_utf8_lossy(&body[..body.len().min(100)]));
            assert_eq!((answer.status, found), (status, json!(code)), "{method} {shown}: {}", answer.body);
            answer.problem(status, code);
        }
        self.check().await;
    }
}

#[tokio::test]
async fn a_body_that_is_not_json_is_bad_json() {
    let untouched = Untouched::start().await;
    for body in [
        b"{".as_slice(),
        b"nonsense",
        b"{\"session_id\": }",
        b"{\"session_id\": 'x'}",
        b"{} {}",
        b"{},",
        b"{\"session_id\": \"\xff\xfe\"}",
        b"\xff",
        b"{\"session_id\": \"\\ud800\"}",
        b"{\"session_id\": \"a\nb\"}",
        b"{\"session_id\": \"a\0b\"}",
        b"[1,",
        "\u{feff}{}".as_bytes(),
        "[".repeat(10_000).as_bytes(),
    ] {
        untouched.refuses_body(body, 400, "BAD_JSON").await;
    }
    let deep = format!(r#"{{"metadata": {}1{}}}"#, r#"{"a":"#.repeat(1000), "}".repeat(1000));
    let alice = &untouched.alice;
    raw::send(alice, raw::post_json(alice, LOCK, deep.as_bytes())).await.problem(400, "BAD_JSON");
    untouched.check().await;
}

#[tokio::test]
async fn json_that_is_no_object_or_has_the_wrong_types_is_invalid() {
    let untouched = Untouched::start().await;
    for body in [
        json!([]),
        json!(["tab"]),
        json!("text"),
        json!(null),
        json!(1),
        json!(true),
        json!({"session_id": 1}),
        json!({"session_id": {}}),
        json!({"session_id": ["tab"]}),
        json!({"request_id": 1}),
        json!({"session_id": ""}),
        json!({"session_id": "x".repeat(201)}),
        json!({"session_id": "😀".repeat(51)}),
        json!({"session_id": "a\u{0}b"}),
        json!({"session_id": "a\u{7f}b"}),
        json!({"session_id": ".."}),
        json!({"request_id": "a\tb"}),
    ] {
        untouched.refuses_body(body.to_string().as_bytes(), 422, "INVALID_FIELD").await;
    }
    let twice = br#"{"session_id": "a", "session_id": "a"}"#;
    untouched.refuses_body(twice, 422, "INVALID_FIELD").await;
}

#[tokio::test]
async fn an_unknown_field_is_told_by_name() {
    let untouched = Untouched::start().await;
    for field in ["sesion_id", "Session_id", "", "__proto__", "owner_id", "holder"] {
        untouched.refuses_body(json!({field: "x"}).to_string().as_bytes(), 422, "UNKNOWN_FIELD").await;
    }
    let problem = untouched.alice.post(LOCK, json!({"ttl": 1})).await.problem(422, "UNKNOWN_FIELD");
    assert_eq!(problem["field"], "ttl");
}

#[tokio::test]
async fn values_out_of_range_are_told_by_field() {
    let untouched = Untouched::start().await;
    let numbers =
        [json!(0), json!(301), json!(-1), json!(1e9), json!(1_000_000_000), json!("30"), json!(1.5), json!([30])];
    for value in &numbers {
        for method in [Method::POST, Method::PUT] {
            let answer = untouched.alice.json(method, LOCK, json!({"ttl_seconds": value})).await;
            assert_eq!(answer.problem(422, "INVALID_FIELD")["field"], "ttl_seconds", "{value}");
        }
    }
    let large = json!({"text": "x".repeat(2048)});
    for (field, value) in [
        ("capacity", json!(0)),
        ("capacity", json!(1001)),
        ("capacity", json!("2")),
        ("takeover", json!("yes")),
        ("takeover", json!(1)),
        ("expected_token", json!(1)),
        ("metadata", json!("text")),
        ("metadata", json!([])),
        ("metadata", large),
        ("document_version", json!("")),
        ("document_version", json!("v".repeat(201))),
        ("document_version", json!(1)),
        ("session_id", json!("x".repeat(201))),
    ] {
        let problem = untouched.alice.post(LOCK, json!({field: value})).await.problem(422, "INVALID_FIELD");
        assert_eq!(problem["field"], field, "{value}");
    }
    for value in [json!("nonsense"), json!(1), json!("")] {
        for method in [Method::PUT, Method::DELETE] {
            let answer = untouched.alice.json(method, LOCK, json!({"lease_id": value})).await;
            assert_eq!(answer.problem(422, "INVALID_FIELD")["field"], "lease_id", "{value}");
        }
    }
    untouched.check().await;
}

#[tokio::test]
async fn verify_and_release_are_as_strict_as_lock() {
    let untouched = Untouched::start().await;
    let lease = untouched.before.1[0]["lease_id"].clone();
    for (call, body, code) in [
        ("verify", json!({}), "INVALID_FIELD"),
        ("verify", json!({"fencing_token": -1}), "INVALID_FIELD"),
        ("verify", json!({"fencing_token": "1"}), "INVALID_FIELD"),
        ("verify", json!({"fencing_token": 1, "x": 1}), "UNKNOWN_FIELD"),
        ("release", json!({}), "INVALID_FIELD"),
        ("release", json!({"lease_id": lease}), "INVALID_FIELD"),
        ("release", json!({"lease_id": lease, "hold": -1}), "INVALID_FIELD"),
        ("release", json!({"lease_id": lease, "hold": 1, "linger_ms": -1}), "INVALID_FIELD"),
        ("release", json!({"lease_id": lease, "hold": 1, "linger_ms": 10_001}), "INVALID_FIELD"),
        ("release", json!({"lease_id": lease, "hold": 1, "x": 1}), "UNKNOWN_FIELD"),
    ] {
        untouched.alice.post(&format!("{LOCK}/{call}"), body).await.problem(422, code);
    }
    untouched.check().await;
}

#[tokio::test]
async fn values_exactly_at_their_limit_are_accepted() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let metadata = json!({"t": "x".repeat(2048 - r#"{"t":""}"#.len())});
    let body = json!({
        "ttl_seconds": 300, "session_id": "x".repeat(200), "request_id": "😀".repeat(50), "capacity": 1000,
        "metadata": metadata, "document_version": "v".repeat(200), "takeover": false,
    });
    let path = format!("/api/documents/{0}/{0}/lock", "n".repeat(200));
    assert_eq!(alice.post(&path, body).await.ok()["metadata"], metadata);
    alice.put(&path, json!({"session_id": "x".repeat(200), "ttl_seconds": 1})).await.ok();
    for (number, body) in ["", "  ", "{}", "\n{ }\n"].into_iter().enumerate() {
        let request = alice.request(Method::POST, &format!("/api/documents/{number}/lock"));
        Answer::of(request.header("content-type", "application/json").body(body)).await.ok();
    }
    Answer::of(alice.request(Method::POST, "/api/documents/none/lock")).await.ok();
}

#[tokio::test]
async fn a_body_that_is_not_declared_as_json_is_refused() {
    let untouched = Untouched::start().await;
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", "", "application/xml"] {
        for method in [Method::POST, Method::PUT, Method::DELETE] {
            let request = untouched.alice.request(method, LOCK).header("content-type", kind);
            Answer::of(request.body("{}")).await.problem(415, "UNSUPPORTED_MEDIA_TYPE");
        }
    }
    Answer::of(untouched.alice.request(Method::POST, LOCK).body("{}")).await.problem(415, "UNSUPPORTED_MEDIA_TYPE");
    let encoded = untouched.alice.request(Method::PUT, LOCK).header("content-encoding", "gzip");
    let encoded = encoded.header("content-type", "application/json").body("{}");
    Answer::of(encoded).await.problem(415, "UNSUPPORTED_MEDIA_TYPE");
    untouched.check().await;
    let request = untouched.alice.request(Method::PUT, LOCK).header("content-type", "Application/JSON; charset=utf-8");
    Answer::of(request.body("{}")).await.ok();
}

#[tokio::test]
async fn a_body_over_16_kib_is_refused_declared_or_not() {
    let untouched = Untouched::start().await;
    let padded = |length: usize| format!("{{}}{}", " ".repeat(length - 2)).into_bytes();
    let alice = &untouched.alice;
    for length in [16 * 1024 + 1, 17 * 1024, 1024 * 1024] {
        raw::send(alice, raw::post_json(alice, LOCK, &padded(length))).await.problem(413, "BODY_TOO_LARGE");
    }
    // By what it declares, before any of it is there.
    let headers = "content-type: application/json\r\ncontent-length: 1000000000\r\n";
    raw::send(alice, raw::post(alice, LOCK, headers, b"")).await.problem(413, "BODY_TOO_LARGE");
    let chunked = |length: usize| {
        let body = [format!("{length:x}\r\n").as_bytes(), &padded(length), b"\r\n0\r\n\r\n"].concat();
        raw::post(alice, LOCK, "content-type: application/json\r\ntransfer-encoding: chunked\r\n", &body)
    };
    raw::send(alice, chunked(17 * 1024)).await.problem(413, "BODY_TOO_LARGE");
    // Of the size allowed it is read, and the document found to be held.
    raw::send(alice, chunked(16 * 1024)).await.problem(409, "LOCK_HELD");
    raw::send(alice, raw::post_json(alice, LOCK, &padded(16 * 1024))).await.problem(409, "LOCK_HELD");
    untouched.check().await;
}

#[tokio::test]
async fn any_other_method_is_told_which_are_allowed() {
    let untouched = Untouched::start().await;
    let root = untouched.server.admin();
    for (method, path, allow) in [
        ("PATCH", LOCK, "GET, HEAD, POST, PUT, DELETE"),
        ("OPTIONS", LOCK, "GET, HEAD, POST, PUT, DELETE"),
        ("TRACE", LOCK, "GET, HEAD, POST, PUT, DELETE"),
        ("NONSENSE", "/api/documents/room/x/lock", "GET, HEAD, POST, PUT, DELETE"),
        ("GET", "/api/documents/room/lock/release", "POST"),
        ("DELETE", "/api/documents/room/x/lock/verify", "POST"),
        ("PATCH", "/api/rooms/room/locks", "GET, HEAD, POST, PUT, DELETE"),
        ("POST", "/api/admin/locks", "GET, HEAD"),
        ("GET", "/api/admin/locks/unlock", "POST"),
        ("POST", "/api/admin/locks/018f0000-0000-7000-8000-000000000000", "DELETE"),
        ("DELETE", "/api/admin/events", "GET, HEAD"),
        ("PUT", "/api/admin/stats", "GET, HEAD"),
        ("POST", "/healthz", "GET, HEAD"),
        ("DELETE", "/metrics", "GET, HEAD"),
    ] {
        let answer = Answer::of(root.request(method.parse().unwrap(), path)).await;
        assert_eq!(answer.headers["allow"], allow, "{method} {path}");
        answer.problem(405, "METHOD_NOT_ALLOWED");
    }
    untouched.check().await;
}

#[tokio::test]
async fn a_path_that_leads_nowhere_is_not_found() {
    let untouched = Untouched::start().await;
    for path in
        ["/api", "/api/documents", "/api/documents/room", "/api/documents/room/lock/", "/api/documents/a/b/c/lock"]
    {
        untouched.alice.post(path, json!({})).await.problem(404, "NOT_FOUND");
    }
    untouched.check().await;
}
