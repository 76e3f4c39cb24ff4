//! A lock that is lost is known to be lost, in time and for good.

use std::time::Duration;

use doclock::client::{LockError, LockManager, MemoryLocks, TestClock};

use crate::{
    process::Home,
    world::{NAME, World, in_both_worlds, server_at},
};

const AT_ONCE: Duration = Duration::ZERO;

in_both_worlds!(a_lock_that_an_admin_ended_is_lost);

async fn a_lock_that_an_admin_ended_is_lost(world: &World) {
    let held = world.manager(1).ttl_seconds(1).unwrap().lock(AT_ONCE).await.unwrap();
    let lost = held.lost();
    world.revoke().await;
    let lost = lost.await;
    assert_eq!(lost.code, "LEASE_REVOKED");
    assert_eq!(held.ensure_held(), Err(lost));
    assert!(matches!(held.release().await, Err(LockError::Lost(lost)) if lost.code == "LEASE_REVOKED"));
}

#[tokio::test]
async fn without_an_answer_it_is_lost_at_the_deadline_and_not_before_and_for_good() {
    let clock = TestClock::new();
    let locks = MemoryLocks::on(&clock);
    let held = LockManager::new(NAME, 1).unwrap().backend(locks.clone()).lock(AT_ONCE).await.unwrap();
    locks.cut_off();
    clock.advance(Duration::from_millis(29_999));
    held.ensure_held().unwrap();
    clock.advance(Duration::from_millis(1));
    // By the clock alone: nothing else has had time to notice.
    assert_eq!(held.ensure_held().unwrap_err().code, "DEADLINE_PASSED");
    assert_eq!(held.lost().await.code, "DEADLINE_PASSED");
    locks.reconnect();
    assert!(held.ensure_held().is_err());
}

#[tokio::test]
async fn nearly_lost_comes_before_the_deadline() {
    let clock = TestClock::new();
    let locks = MemoryLocks::on(&clock);
    let held = LockManager::new(NAME, 1).unwrap().backend(locks.clone()).lock(AT_ONCE).await.unwrap();
    locks.cut_off();
    let warning = held.nearly_lost(Duration::from_secs(5));
    clock.advance(Duration::from_secs(25));
    warning.await;
    held.ensure_held().unwrap();
}

#[tokio::test]
async fn a_released_lock_is_over_and_was_not_lost() {
    let locks = MemoryLocks::new();
    let held = LockManager::new(NAME, 1).unwrap().backend(locks).lock(AT_ONCE).await.unwrap();
    let lost = held.lost();
    held.release().await.unwrap();
    let waited = tokio::time::timeout(Duration::from_millis(100), lost).await;
    assert!(waited.is_err(), "lost is for locks that were lost");
}

#[tokio::test]
async fn a_server_that_answers_no_heartbeat_loses_it_at_the_deadline() {
    let home = Home::new();
    let process = home.start();
    let manager = LockManager::new(NAME, 1).unwrap().backend(server_at(&process.base));
    let held = manager.ttl_seconds(1).unwrap().lock(AT_ONCE).await.unwrap();
    process.signal("STOP");
    assert_eq!(held.lost().await.code, "DEADLINE_PASSED");
    assert_eq!(held.expires_in(), Duration::ZERO);
    process.signal("CONT");
}

#[tokio::test]
async fn a_token_that_is_refused_is_not_tried_again() {
    let home = Home::new();
    let process = home.start();
    let server = doclock::client::DoclockServer::new(&process.base, "not.a.token").unwrap();
    let manager = LockManager::new(NAME, 1).unwrap().backend(server);
    let error = manager.lock(Duration::from_mins(1)).await.unwrap_err();
    assert_eq!(error.code(), "TOKEN_INVALID");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_asked_until_the_time_is_up() {
    let server = doclock::client::DoclockServer::new("http://127.0.0.1:1", "token").unwrap();
    let manager = LockManager::new(NAME, 1).unwrap().backend(server);
    let error = manager.lock(Duration::from_millis(300)).await.unwrap_err();
    let LockError::Timeout(time_up) = error else { panic!("{error}") };
    assert_eq!(time_up.last.unwrap().code(), "UNREACHABLE");
}
