//! A heartbeat on one server while the overdue lock is taken on another.

use std::time::Duration;

use doclock::{
    app::{App, Options},
    auth::{Claims, Role},
    locking::Timestamp,
    settings::{DatabaseUrl, Settings, Sources},
    time::clock::ManualClock,
};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    caller::{Answer, Caller, lock_path},
    postgres::new_database,
    servers::{Servers, check_log},
};

const SECRET: &str = "a secret that only the tests of this process know";

/// Checks that at most one of the holder's heartbeat and somebody else's lock succeeds.
#[track_caller]
fn check(heartbeat: &Answer, lock: &Answer, what: &str) {
    let both = format!("{what}: {:#}\n{:#}", heartbeat.body, lock.body);
    assert!(heartbeat.is_ok() || heartbeat.body["code"] == "LEASE_EXPIRED", "{both}");
    assert!(lock.is_ok() || lock.body["code"] == "LOCK_HELD", "{both}");
    assert!(!(heartbeat.is_ok() && lock.is_ok()), "{both}");
}

async fn extend(caller: &Caller, lock: &Value) -> Answer {
    let path = lock_path(lock["document"].as_str().unwrap());
    caller.send(Method::PUT, &path, json!({ "lease_id": lock["lease_id"] })).await
}

/// A server in this process whose database clock is moved by the test.
async fn app(url: &str, clock: &ManualClock) -> String {
    let mut settings = Settings::load(&Sources::default()).unwrap();
    settings.server.listen = "127.0.0.1:0".parse().unwrap();
    settings.database.url = DatabaseUrl::Postgres(url.to_owned());
    settings.auth.secret = Some(SECRET.to_owned());
    let options = Options { clock: Some(clock.clone()), http_workers: Some(1), without_workers: true };
    let app = App::start(settings, options).await.unwrap();
    let base = format!("http://{}", app.address);
    tokio::spawn(app.run(std::future::pending()));
    base
}

fn caller(base: &str, sub: &str) -> Caller {
    let claims = Claims { sub: sub.to_owned(), role: Role::Editor, exp: 4_000_000_000.0, ..Claims::default() };
    Caller::new(base, claims.sign(SECRET.as_bytes()).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_the_millisecond_of_expiry_a_heartbeat_and_a_lock_never_both_succeed() {
    const ROUNDS: u32 = 400;
    let url = new_database();
    let clock = ManualClock::starting_at(Timestamp::from_millis(1_800_000_000_000));
    let (one, other) = (app(&url, &clock).await, app(&url, &clock).await);
    let (alice, bob) = (caller(&one, "alice"), caller(&other, "bob"));
    let (mut extended, mut taken) = (0, 0);
    for round in 0..ROUNDS {
        let document = format!("document-{}", round % 7);
        let held = alice.lock(&document, 1).await.ok();
        clock.advance(Duration::from_millis(999));
        // Later and later, so that the step falls into different moments of both.
        let step = async {
            tokio::time::sleep(Duration::from_micros(u64::from(round % 40) * 100)).await;
            clock.advance(Duration::from_millis(1));
        };
        let (heartbeat, lock, ()) = tokio::join!(extend(&alice, &held), bob.lock(&document, 1), step);
        check(&heartbeat, &lock, &document);
        extended += u32::from(heartbeat.is_ok());
        taken += u32::from(lock.is_ok());
        let holder = if lock.is_ok() { &bob } else { &alice };
        holder.send(Method::DELETE, &lock_path(&document), json!({})).await;
    }
    assert!(extended > 0 && taken > 0, "always the same one: {extended} extended, {taken} taken");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_the_moment_of_expiry_a_heartbeat_and_a_lock_never_both_succeed() {
    const DOCUMENTS: u64 = 200;
    let servers = Servers::start(new_database(), 2);
    let (alice, bob) = (servers.processes[0].editor("alice"), servers.processes[1].editor("bob"));
    let mut rounds = JoinSet::new();
    for index in 0..DOCUMENTS {
        let (alice, bob) = (alice.clone(), bob.clone());
        rounds.spawn(async move {
            let document = format!("document-{index}");
            let held = alice.lock(&document, 1).await.ok();
            let left = held["expires_in_ms"].as_u64().unwrap();
            // From 20 ms before expiry to 20 ms after.
            tokio::time::sleep(Duration::from_millis(left - 20 + index % 41)).await;
            let (heartbeat, lock) = tokio::join!(extend(&alice, &held), bob.lock(&document, 5));
            check(&heartbeat, &lock, &document);
        });
    }
    rounds.join_all().await;
    check_log(&servers.processes[0].admin().events().await);
}
