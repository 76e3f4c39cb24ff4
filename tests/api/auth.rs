//! SPEC section 10: whose tokens count, and what their roles and rooms allow.

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use doclock::auth::{Claims, Role};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Answer, SECRET, TestServer, claims};

const LOCK: &str = "/api/documents/room/lock";

const RSA: &[u8] = include_bytes!("keys/rs256.pem");
const RSA_PUBLIC: &[u8] = include_bytes!("keys/rs256.public.pem");
const EC: &[u8] = include_bytes!("keys/es256.pem");
const ED: &[u8] = include_bytes!("keys/eddsa.pem");
const STRANGER: &[u8] = include_bytes!("keys/stranger.pem");

/// With the public keys of `rs256.pem`, `es256.pem` and `eddsa.pem` beside the secret.
async fn with_jwks() -> TestServer {
    TestServer::configured(|settings| {
        settings.auth.jwks_file = Some(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/api/keys/jwks.json").into());
    })
    .await
}

fn signed(algorithm: Algorithm, kid: Option<&str>, key: &EncodingKey, claims: &Value) -> String {
    let header = Header { kid: kid.map(ToOwned::to_owned), ..Header::new(algorithm) };
    encode(&header, claims, key).unwrap()
}

fn by_secret(claims: &Value) -> String {
    signed(Algorithm::HS256, None, &EncodingKey::from_secret(SECRET.as_bytes()), claims)
}

/// What an editor's token says.
fn good(server: &TestServer) -> Value {
    json!({"sub": "alice", "role": "editor", "exp": server.seconds_from_now(3600)})
}

/// The same with another claim.
fn with(server: &TestServer, name: &str, value: Value) -> Value {
    let mut claims = good(server);
    claims[name] = value;
    claims
}

fn without(server: &TestServer, name: &str) -> Value {
    let mut claims = good(server);
    claims.as_object_mut().unwrap().remove(name);
    claims
}

async fn lock_with(server: &TestServer, token: String) -> Answer {
    server.bearing(Some(token)).post(LOCK, json!({})).await
}

#[tokio::test]
async fn without_a_bearer_token_nothing_is_done() {
    let server = TestServer::start().await;
    let stranger = server.bearing(None);
    let answer = stranger.post(LOCK, json!({})).await;
    assert_eq!(answer.headers["www-authenticate"], "Bearer");
    answer.problem(401, "TOKEN_MISSING");
    for (method, path) in [
        (Method::GET, LOCK),
        (Method::PUT, LOCK),
        (Method::DELETE, LOCK),
        (Method::GET, "/api/rooms/room/locks"),
        (Method::POST, "/api/rooms/room/locks"),
        (Method::GET, "/api/admin/locks"),
        (Method::POST, "/api/admin/locks/unlock"),
        (Method::GET, "/api/admin/events"),
        (Method::GET, "/api/admin/stats"),
        (Method::POST, "/api/documents/room/lock/verify"),
        (Method::POST, "/api/documents/room/lock/release"),
    ] {
        Answer::of(stranger.request(method, path)).await.problem(401, "TOKEN_MISSING");
    }
    let token = server.editor("alice").token.unwrap();
    for header in [format!("Basic {token}"), token.clone(), "Bearer".to_owned(), "Bearer ".to_owned()] {
        let request = stranger.request(Method::POST, LOCK).header("authorization", header);
        Answer::of(request).await.problem(401, "TOKEN_MISSING");
    }
    // Never in the URL, where logs would keep it.
    stranger.post(&format!("{LOCK}?access_token={token}"), json!({})).await.problem(401, "TOKEN_MISSING");
    let request = stranger.request(Method::POST, LOCK).header("authorization", format!("bearer {token}"));
    Answer::of(request).await.ok();
}

#[tokio::test]
async fn a_token_that_is_not_ours_is_invalid() {
    let server = with_jwks().await;
    let claims = good(&server);
    let encoded = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let unsigned = |alg: &str| format!("{}.{}.", encoded(&json!({"alg": alg, "typ": "JWT"})), encoded(&claims));
    let ours = by_secret(&claims);
    let (start, signature) = ours.rsplit_once('.').unwrap();
    let head = start.split('.').next().unwrap();
    let admin = format!("{head}.{}.{signature}", encoded(&with(&server, "role", json!("admin"))));
    let stranger = EncodingKey::from_ed_pem(STRANGER).unwrap();
    // The public key is public: a server that took its text for a secret would let everyone in.
    let public_text = EncodingKey::from_secret(RSA_PUBLIC);
    let trimmed_text = EncodingKey::from_secret(RSA_PUBLIC.trim_ascii());
    for (name, token) in [
        ("garbage", "garbage".to_owned()),
        ("dots", "..".to_owned()),
        ("three parts", "a.b.c".to_owned()),
        ("alg none", unsigned("none")),
        ("alg None", unsigned("None")),
        ("no signature", unsigned("HS256")),
        ("cut off", start.to_owned()),
        ("changed claims", admin),
        ("another secret", signed(Algorithm::HS256, None, &EncodingKey::from_secret(b"another secret"), &claims)),
        ("our secret, another algorithm", {
            signed(Algorithm::HS512, None, &EncodingKey::from_secret(SECRET.as_bytes()), &claims)
        }),
        ("another key", signed(Algorithm::EdDSA, None, &stranger, &claims)),
        ("another key by our name", signed(Algorithm::EdDSA, Some("ed"), &stranger, &claims)),
        ("a public key as secret", signed(Algorithm::HS256, Some("rsa"), &public_text, &claims)),
        ("a public key as secret, without name", signed(Algorithm::HS256, None, &trimmed_text, &claims)),
    ] {
        let answer = lock_with(&server, token).await;
        assert_eq!(answer.body["code"], "TOKEN_INVALID", "{name}: {}", answer.body);
        assert_eq!(answer.headers["www-authenticate"], "Bearer");
        answer.problem(401, "TOKEN_INVALID");
    }
    assert_eq!(server.events().await.len(), 0);
    lock_with(&server, ours).await.ok();
}

#[tokio::test]
async fn claims_that_do_not_fit_make_a_token_invalid() {
    let server = TestServer::start().await;
    for claims in [
        without(&server, "sub"),
        without(&server, "exp"),
        with(&server, "exp", json!("tomorrow")),
        with(&server, "exp", json!(null)),
        with(&server, "role", json!(1)),
        with(&server, "role", json!("owner")),
        with(&server, "role", json!("Admin")),
        with(&server, "role", json!(["admin"])),
        with(&server, "role", json!(null)),
        with(&server, "sub", json!("")),
        with(&server, "sub", json!("x".repeat(201))),
        with(&server, "sub", json!("a\nb")),
        with(&server, "sub", json!(7)),
        with(&server, "tenant", json!("")),
        with(&server, "tenant", json!("..")),
        with(&server, "rooms", json!("room")),
        with(&server, "rooms", json!(["a\0b"])),
        with(&server, "rooms", json!(["x".repeat(201)])),
        with(&server, "rooms", json!(vec!["x"; 201])),
        with(&server, "permissions", json!("takeover")),
        with(&server, "nbf", json!(server.seconds_from_now(10))),
    ] {
        let answer = lock_with(&server, by_secret(&claims)).await;
        assert_eq!(answer.body["code"], "TOKEN_INVALID", "{claims}: {}", answer.body);
    }
    assert_eq!(server.events().await.len(), 0);
    for claims in [
        with(&server, "aud", json!("someone")),
        with(&server, "rooms", json!(null)),
        with(&server, "nbf", json!(server.seconds_from_now(0))),
        with(&server, "exp", json!(server.seconds_from_now(10) + 0.5)),
    ] {
        let answer = lock_with(&server, by_secret(&claims)).await;
        assert!(matches!(answer.status, 200 | 409), "{claims}: {}", answer.body);
    }
}

#[tokio::test]
async fn a_token_is_good_until_its_exp() {
    let server = TestServer::start().await;
    let exp = server.seconds_from_now(10);
    let alice = server.caller(Claims { exp, ..claims("alice", Role::Editor) });
    alice.post(LOCK, json!({})).await.ok();
    server.pass_seconds(9).await;
    alice.put(LOCK, json!({})).await.ok();
    server.pass_seconds(1).await;
    alice.put(LOCK, json!({})).await.problem(401, "TOKEN_EXPIRED");
    // The lock is the owner's, not the token's.
    server.editor("alice").put(LOCK, json!({})).await.ok();
}

#[tokio::test]
async fn tokens_signed_by_keys_of_the_jwks_file_count() {
    let server = with_jwks().await;
    let claims = good(&server);
    let keys = [
        (Algorithm::RS256, "rsa", EncodingKey::from_rsa_pem(RSA).unwrap()),
        (Algorithm::ES256, "ec", EncodingKey::from_ec_pem(EC).unwrap()),
        (Algorithm::EdDSA, "ed", EncodingKey::from_ed_pem(ED).unwrap()),
    ];
    for (algorithm, kid, key) in &keys {
        for kid in [Some(*kid), None] {
            let caller = server.bearing(Some(signed(*algorithm, kid, key, &claims)));
            let lock = caller.post(&format!("/api/documents/{kid:?} {algorithm:?}/lock"), json!({})).await.ok();
            assert_eq!(lock["holder"]["owner_id"], "alice");
        }
        lock_with(&server, signed(*algorithm, Some("unknown"), key, &claims)).await.problem(401, "TOKEN_INVALID");
    }
    // A key is good for its own algorithm only, and not if it is for something else.
    let (_, _, rsa) = &keys[0];
    lock_with(&server, signed(Algorithm::RS512, Some("rsa"), rsa, &claims)).await.problem(401, "TOKEN_INVALID");
    lock_with(&server, signed(Algorithm::RS256, Some("encryption"), rsa, &claims)).await.problem(401, "TOKEN_INVALID");
    lock_with(&server, by_secret(&claims)).await.ok();
}

#[tokio::test]
async fn with_a_jwks_file_alone_no_secret_counts() {
    let server = TestServer::configured(|settings| {
        settings.auth.secret = None;
        settings.auth.jwks_file = Some(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/api/keys/jwks.json").into());
    })
    .await;
    let claims = good(&server);
    lock_with(&server, by_secret(&claims)).await.problem(401, "TOKEN_INVALID");
    let key = EncodingKey::from_ed_pem(ED).unwrap();
    lock_with(&server, signed(Algorithm::EdDSA, Some("ed"), &key, &claims)).await.ok();
}

#[tokio::test]
async fn a_viewer_reads_and_changes_nothing() {
    let server = TestServer::start().await;
    server.editor("alice").post(LOCK, json!({})).await.ok();
    let lease = server.locks().await[0]["lease_id"].clone();
    // No role is the least of them.
    let nobody = server.bearing(Some(by_secret(&without(&server, "role"))));
    for viewer in [server.viewer("alice"), nobody] {
        viewer.get(LOCK).await.ok();
        viewer.get("/api/rooms/room/locks").await.ok();
        viewer.post("/api/documents/room/lock/verify", json!({"fencing_token": 1})).await.ok();
        let many = json!({"documents": ["a"]});
        for (method, path, body) in [
            (Method::POST, LOCK, json!({})),
            (Method::PUT, LOCK, json!({})),
            (Method::DELETE, LOCK, json!({})),
            (Method::POST, "/api/documents/room/lock/release", json!({"lease_id": lease, "hold": 1})),
            (Method::POST, "/api/rooms/room/locks", many.clone()),
            (Method::PUT, "/api/rooms/room/locks", many.clone()),
            (Method::DELETE, "/api/rooms/room/locks", many),
        ] {
            viewer.json(method, path, body).await.problem(403, "ROLE_FORBIDS");
        }
    }
    assert_eq!(server.events().await.len(), 1);
}

#[tokio::test]
async fn admin_calls_are_for_admins() {
    let server = TestServer::start().await;
    server.editor("alice").post(LOCK, json!({})).await.ok();
    let lease = format!("/api/admin/locks/{}", server.locks().await[0]["lease_id"].as_str().unwrap());
    for caller in [server.viewer("alice"), server.editor("alice")] {
        for (method, path, body) in [
            (Method::GET, "/api/admin/locks", json!({})),
            (Method::DELETE, &*lease, json!({})),
            (Method::POST, "/api/admin/locks/unlock", json!({"filter": {"owner": "alice"}})),
            (Method::GET, "/api/admin/events", json!({})),
            (Method::GET, "/api/admin/stats", json!({})),
        ] {
            caller.json(method, path, body).await.problem(403, "ROLE_FORBIDS");
        }
    }
    assert_eq!(server.locks().await.len(), 1);
}

#[tokio::test]
async fn a_token_is_good_for_its_rooms_only() {
    let server = TestServer::start().await;
    let rooms = |globs: &[&str]| Some(globs.iter().map(|glob| (*glob).to_owned()).collect());
    let caller = |globs: &[&str], role: Role| server.caller(Claims { rooms: rooms(globs), ..claims("alice", role) });
    for (globs, room, may) in [
        (&["team-*"][..], "team-a", true),
        (&["team-*"], "team-", true),
        (&["team-*"], "other", false),
        (&["team-?"], "team-ab", false),
        (&["a", "b"], "b", true),
        (&["Team"], "team", false),
        (&["[ab]"], "a", false),
        (&["[ab]"], "[ab]", true),
        (&[], "a", false),
        (&["*"], "a", true),
    ] {
        let editor = caller(globs, Role::Editor);
        let path = format!("/api/documents/{room}/lock");
        let list = editor.get(&format!("/api/rooms/{room}/locks")).await;
        let read = editor.get(&path).await;
        let lock = editor.post(&path, json!({})).await;
        if may {
            assert_eq!((list.status, read.status, lock.status), (200, 200, 200), "{globs:?} {room}");
            editor.delete(&path, json!({})).await.ok();
        } else {
            for answer in [list, read, lock, caller(globs, Role::Viewer).post(&path, json!({})).await] {
                answer.problem(403, "ROOM_FORBIDDEN");
            }
        }
    }
}

#[tokio::test]
async fn an_admin_of_some_rooms_sees_and_ends_locks_of_those_only() {
    let server = TestServer::start().await;
    for room in ["team-a", "team-b", "other", "[x]"] {
        server.editor("alice").post(&format!("/api/documents/{room}/lock"), json!({})).await.ok();
    }
    let rooms = Some(vec!["team-*".to_owned(), "[x]".to_owned()]);
    let admin = server.caller(Claims { rooms, ..claims("boss", Role::Admin) });
    let table = admin.get("/api/admin/locks").await.ok();
    let seen: Vec<_> = table["items"].as_array().unwrap().iter().map(|lock| lock["room"].as_str().unwrap()).collect();
    assert_eq!((seen, &table["total"]), (vec!["[x]", "team-a", "team-b"], &json!(3)));
    assert_eq!(admin.get("/api/admin/events").await.ok()["items"].as_array().unwrap().len(), 3);
    assert_eq!(admin.get("/api/admin/stats").await.ok()["locks"], 3);
    let foreign = server.locks().await.into_iter().find(|lock| lock["room"] == "other").unwrap();
    let path = format!("/api/admin/locks/{}", foreign["lease_id"].as_str().unwrap());
    admin.delete(&path, json!({})).await.problem(403, "ROOM_FORBIDDEN");
    let all = json!({"filter": {"owner": "alice"}});
    assert_eq!(admin.post("/api/admin/locks/unlock", all).await.ok()["unlocked"], 3);
    assert_eq!(server.locks().await, [foreign]);
}

#[tokio::test]
async fn a_token_may_name_200_rooms() {
    let server = TestServer::start().await;
    server.editor("alice").post("/api/documents/room-199/lock", json!({})).await.ok();
    let rooms = (0..200).map(|index| format!("?oom-{index}*")).collect();
    let admin = server.caller(Claims { rooms: Some(rooms), ..claims("boss", Role::Admin) });
    assert_eq!(admin.get("/api/admin/locks").await.ok()["total"], 1);
    assert_eq!(admin.get("/api/admin/events").await.ok()["items"].as_array().unwrap().len(), 1);
    assert_eq!(admin.get("/api/admin/stats").await.ok()["locks"], 1);
}
