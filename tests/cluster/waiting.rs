//! Waiting lines and handovers across two servers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::{
    caller::{Answer, Caller, eventually, lock_path},
    postgres::new_database,
    servers::Servers,
};

const DOCUMENT: &str = "wanted";

/// Waits in line with this name as owner and session; answers the lock.
fn wait(caller: &Caller, name: &str) -> JoinHandle<Option<Answer>> {
    let (caller, body) = (caller.clone(), json!({"session_id": name, "wait_ms": 15_000, "ttl_seconds": 10}));
    tokio::spawn(async move { caller.try_send(Method::POST, &lock_path(DOCUMENT), &body).await })
}

async fn in_line(caller: &Caller, count: usize) {
    eventually("they are in line", async || {
        (caller.get(&lock_path(DOCUMENT)).await.ok()["waiting"] == count).then_some(())
    })
    .await;
}

async fn unlock(caller: &Caller, session: &str) -> Answer {
    caller.send(Method::DELETE, &lock_path(DOCUMENT), json!({ "session_id": session })).await
}

/// Tries to lock again and again until it is told to stop, and gives the lock back should it get it. Answers how often it did.
fn barge(caller: Caller, stop: Arc<AtomicBool>) -> JoinHandle<usize> {
    tokio::spawn(async move {
        let mut got = 0;
        while !stop.load(Ordering::Relaxed) {
            let locked = caller.send(Method::POST, &lock_path(DOCUMENT), json!({"session_id": "barging"})).await;
            if locked.is_ok() {
                got += 1;
                unlock(&caller, "barging").await;
            }
        }
        got
    })
}

fn owners(events: &[Value]) -> Vec<&str> {
    let locked = events.iter().filter(|event| event["type"] == "DocumentLocked");
    locked.map(|event| event["owner_id"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_on_two_servers_are_served_in_the_order_of_their_tickets_and_nobody_barges_in() {
    let servers = Servers::start(new_database(), 2);
    let holder = servers.processes[0].editor("holder");
    holder.send(Method::POST, &lock_path(DOCUMENT), json!({"session_id": "holder"})).await.ok();
    let names: Vec<_> = (0..20).map(|number| format!("waiter-{number:02}")).collect();
    let mut waiting = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let caller = servers.processes[number % 2].editor(name);
        let lock = wait(&caller, name);
        in_line(&holder, number + 1).await;
        let name = name.clone();
        waiting.push(tokio::spawn(async move {
            lock.await.unwrap().unwrap().ok();
            unlock(&caller, &name).await.ok();
        }));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let barging = servers.processes.iter().map(|process| barge(process.editor("barger"), Arc::clone(&stop)));
    let barging: Vec<_> = barging.collect();
    unlock(&holder, "holder").await.ok();
    for served in waiting {
        served.await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    for barging in barging {
        barging.await.unwrap();
    }
    let events = servers.processes[0].admin().events().await;
    let served: Vec<_> = owners(&events).into_iter().take(21).collect();
    let expected: Vec<_> = std::iter::once("holder").chain(names.iter().map(String::as_str)).collect();
    assert_eq!(served, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_of_a_killed_server_are_skipped_once_their_tickets_have_died_not_one_by_one() {
    let mut servers = Servers::start(new_database(), 2);
    let holder = servers.processes[0].editor("holder");
    holder.send(Method::POST, &lock_path(DOCUMENT), json!({"session_id": "holder"})).await.ok();
    let mut doomed = Vec::new();
    for number in 0..10 {
        let name = format!("doomed-{number}");
        doomed.push(wait(&servers.processes[1].editor(&name), &name));
        in_line(&holder, number + 1).await;
    }
    let last = wait(&servers.processes[0].editor("last"), "last");
    in_line(&holder, 11).await;
    servers.processes[1].signal("KILL");
    servers.processes[1].wait();
    for lost in doomed {
        assert!(lost.await.unwrap().is_none(), "its server is gone");
    }
    unlock(&holder, "holder").await.ok();
    // Its request may end before its turn: the place is kept, and it asks again.
    let mut lock = last.await.unwrap().unwrap();
    while !lock.is_ok() {
        lock = wait(&servers.processes[0].editor("last"), "last").await.unwrap().unwrap();
    }
    let events = servers.processes[0].admin().events().await;
    let unclaimed = owners(&events).iter().filter(|owner| owner.starts_with("doomed")).count();
    assert!(unclaimed <= 4, "15 s of life and 5 s to claim are four grants at most, not {unclaimed}");
    assert_eq!(owners(&events).last(), Some(&"last"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_goes_away_frees_its_place_whichever_server_it_waited_on() {
    let servers = Servers::start(new_database(), 2);
    let holder = servers.processes[0].editor("holder");
    holder.send(Method::POST, &lock_path(DOCUMENT), json!({"session_id": "holder"})).await.ok();
    let gone: Vec<_> =
        (0..2).map(|number| wait(&servers.processes[number].editor("gone"), &number.to_string())).collect();
    in_line(&holder, 2).await;
    let next = wait(&servers.processes[1].editor("next"), "next");
    in_line(&holder, 3).await;
    for request in gone {
        request.abort();
    }
    in_line(&holder, 1).await;
    unlock(&holder, "holder").await.ok();
    assert_eq!(next.await.unwrap().unwrap().ok()["fencing_token"], 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handover_between_servers_leaves_no_free_moment_and_no_gap_in_the_log() {
    let servers = Servers::start(new_database(), 2);
    let (holder, asker) = (servers.processes[0].editor("holder"), servers.processes[1].editor("asker"));
    holder.send(Method::POST, &lock_path(DOCUMENT), json!({"session_id": "holder"})).await.ok();
    let stop = Arc::new(AtomicBool::new(false));
    let barging: Vec<_> =
        servers.processes.iter().map(|process| barge(process.editor("barger"), Arc::clone(&stop))).collect();
    let asks = format!("{}/handovers", lock_path(DOCUMENT));
    let asked = asker.send(Method::POST, &asks, json!({"message": "please", "session_id": "asker"})).await.ok();
    let id = asked["handover_id"].as_str().unwrap().to_owned();
    let heartbeat = holder.send(Method::PUT, &lock_path(DOCUMENT), json!({"session_id": "holder"})).await.ok();
    assert_eq!(heartbeat["handovers"][0]["message"], "please");
    let outcome = {
        let (asker, path) = (asker.clone(), format!("{asks}/{id}?wait_ms=10000"));
        tokio::spawn(async move { asker.get(&path).await })
    };
    // Some time for the asker to wait and for the others to barge in; whichever comes first, the outcome is the same.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let answer = json!({"grant": true, "document_version": "v2"});
    assert_eq!(holder.send(Method::POST, &format!("{asks}/{id}/answer"), answer).await.ok()["outcome"], "granted");
    let told = outcome.await.unwrap().ok();
    assert_eq!(told["outcome"], "granted");
    stop.store(true, Ordering::Relaxed);
    for barging in barging {
        assert_eq!(barging.await.unwrap(), 0, "there was a free moment");
    }
    let lock = asker.read(DOCUMENT).await;
    assert_eq!((&lock["holder"]["owner_id"], &lock["document_version"]), (&json!("asker"), &json!("v2")));
    let events = servers.processes[1].admin().events().await;
    let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let expected =
        ["DocumentLocked", "HandoverAsked", "DocumentSaved", "DocumentUnlocked", "DocumentLocked", "HandoverAnswered"];
    assert_eq!(kinds, expected);
    assert!((1..).zip(&events).all(|(sequence, event)| event["sequence"] == sequence));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_on_a_server_that_stops_keeps_its_place_and_waits_on_at_another() {
    let mut servers = Servers::start(new_database(), 2);
    let holder = servers.processes[0].editor("holder");
    holder.send(Method::POST, &lock_path(DOCUMENT), json!({"session_id": "holder"})).await.ok();
    let sent_away = wait(&servers.processes[1].editor("early"), "early");
    in_line(&holder, 1).await;
    let late = wait(&servers.processes[0].editor("late"), "late");
    in_line(&holder, 2).await;
    servers.processes[1].signal("TERM");
    sent_away.await.unwrap().unwrap().is_unavailable(&["DRAINING"]);
    servers.processes[1].wait();
    let early = wait(&servers.processes[0].editor("early"), "early");
    // Asked again, the ticket is the same: there are still two.
    in_line(&holder, 2).await;
    unlock(&holder, "holder").await.ok();
    early.await.unwrap().unwrap().ok();
    unlock(&servers.processes[0].editor("early"), "early").await.ok();
    assert_eq!(late.await.unwrap().unwrap().ok()["fencing_token"], 3);
}
