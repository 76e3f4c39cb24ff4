//! Names and requests that no HTTP client would write: sent as bytes.

use serde_json::json;

use crate::{
    raw,
    support::{Answer, Caller, TestServer},
};

const LOCK: &str = "/api/documents/room/lock";

async fn post_to(caller: &Caller, path: &str) -> Answer {
    raw::send(caller, raw::post_json(caller, path, b"{}")).await
}

#[tokio::test]
async fn invalid_names_are_refused_in_every_place() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let long = "n".repeat(201);
    let long_decoded = "%F0%9F%98%80".repeat(51);
    for name in [
        "",
        ".",
        "..",
        "%2e",
        "%2e%2e",
        "%2E%2e",
        ".%2e",
        "%00",
        "a%00b",
        "%0a",
        "%0D%0A",
        "%7f",
        "%c2%80",
        "%ff",
        "%c3%28",
        "%ed%a0%80",
        &long,
        &long_decoded,
    ] {
        for (field, path) in [
            ("room", format!("/api/documents/{name}/lock")),
            ("room", format!("/api/documents/{name}/x/lock")),
            ("document", format!("/api/documents/room/{name}/lock")),
            ("room", format!("/api/documents/{name}/lock/verify")),
            ("document", format!("/api/documents/room/{name}/lock/release")),
            ("room", format!("/api/rooms/{name}/locks")),
        ] {
            let answer = post_to(&alice, &path).await;
            let shown = format!("{path}: {} {}", answer.status, answer.body);
            // A body that does not fit, where one is needed, may be told first.
            let is_told = answer.status == 422 && answer.body["code"] == "INVALID_FIELD";
            assert!(is_told, "{shown}");
            if path.ends_with("/lock") {
                assert_eq!(answer.body["field"], field, "{shown}");
            }
        }
    }
    assert_eq!(server.events().await.len(), 0);
}

#[tokio::test]
async fn unusual_but_valid_names_are_kept_as_they_are() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let long = "n".repeat(200);
    let emoji = "😀".repeat(50);
    let encoded = "%F0%9F%98%80".repeat(50);
    for (sent, name) in [
        ("...", "..."),
        ("%2e%2e%2e", "..."),
        ("%2e%2e%2f", "../"),
        ("a%2f..%2fb", "a/../b"),
        ("%5c", "\\"),
        ("%27%22%3B--", "'\";--"),
        ("%", "%"),
        ("%zz", "%zz"),
        ("%e2%80%8b", "\u{200b}"),
        ("a;b=c", "a;b=c"),
        ("*", "*"),
        (&long, &long),
        (&encoded, &emoji),
    ] {
        let answer = post_to(&alice, &format!("/api/documents/{sent}/{sent}/lock")).await;
        // "..." is here twice, by two spellings: the second finds the first.
        if answer.status == 409 {
            assert_eq!(answer.body["lock"]["room"], name);
            continue;
        }
        let lock = answer.ok();
        assert_eq!((&lock["room"], &lock["document"]), (&json!(name), &json!(name)), "{sent}");
    }
    assert_eq!(server.locks().await.len(), 12);
}

#[tokio::test]
async fn a_request_cut_off_in_the_middle_does_nothing() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let whole = raw::post_json(&alice, LOCK, br#"{"session_id": "tab", "metadata": {"a": 1}}"#);
    let chunked = raw::post(
        &alice,
        LOCK,
        "content-type: application/json\r\ntransfer-encoding: chunked\r\n",
        b"10\r\n{\"session_id\": \"",
    );
    for length in [1, 20, 60, whole.len() - 40, whole.len() - 20, whole.len() - 1] {
        raw::cut_off(&alice, whole[..length].to_vec()).await;
    }
    raw::cut_off(&alice, chunked).await;
    // A server that had acted on one of them, or been hurt by it, would not answer this.
    assert_eq!(alice.post(LOCK, json!({})).await.ok()["fencing_token"], 1);
    assert_eq!(server.events().await.len(), 1);
}

#[tokio::test]
async fn bytes_that_are_not_http_are_refused_and_do_nothing() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let huge = format!("x-huge: {}\r\n", "x".repeat(200 * 1024));
    let many = "x-many: 1\r\n".repeat(200);
    for (name, request) in [
        ("nonsense", b"nonsense\r\n\r\n".to_vec()),
        ("a huge header", raw::post(&alice, LOCK, &huge, b"")),
        ("many headers", raw::post(&alice, LOCK, &many, b"")),
        ("two lengths", raw::post(&alice, LOCK, "content-length: 2\r\ncontent-length: 3\r\n", b"{}x")),
        ("a negative length", raw::post(&alice, LOCK, "content-length: -1\r\n", b"")),
        (
            "length and chunks",
            raw::post(&alice, LOCK, "content-length: 2\r\ntransfer-encoding: chunked\r\n", b"0\r\n\r\n"),
        ),
        ("a bad chunk", raw::post(&alice, LOCK, "transfer-encoding: chunked\r\n", b"zz\r\n{}\r\n0\r\n\r\n")),
        ("a space in the path", raw::post_json(&alice, "/api/documents/a b/lock", b"{}")),
    ] {
        let status = raw::send(&alice, request).await.status;
        assert!((400..500).contains(&status), "{name}: {status}");
    }
    assert_eq!(server.events().await.len(), 0);
    alice.post(LOCK, json!({})).await.ok();
}

#[tokio::test]
async fn a_header_that_is_not_utf_8_is_refused_as_a_problem() {
    let server = TestServer::start().await;
    let alice = server.editor("alice");
    let mut request = raw::post(&alice, LOCK, "idempotency-key: \u{0}\r\ncontent-length: 0\r\n", b"");
    let at = request.iter().position(|byte| *byte == 0).unwrap();
    request[at] = 0xff;
    assert_eq!(raw::send(&alice, request).await.problem(422, "INVALID_FIELD")["field"], "Idempotency-Key");
    let request = b"GET /api/rooms/room/locks HTTP/1.1\r\nhost: test\r\nauthorization: Bearer \xff\r\n\r\n".to_vec();
    raw::send(&alice, request).await.problem(401, "TOKEN_INVALID");
    assert_eq!(server.events().await.len(), 0);
}
