//! A lock that is held stays held: heartbeats, answers that get lost, servers that come back.

use std::{sync::atomic::Ordering, time::Duration};

use doclock::client::{HeldLock, LockManager, LockName, MemoryLocks, TestClock};

use crate::{
    caller::eventually,
    process::Home,
    proxy::Proxy,
    world::{NAME, World, history, in_both_worlds, server_at},
};

const AT_ONCE: Duration = Duration::ZERO;
const A_MINUTE: Duration = Duration::from_mins(1);

in_both_worlds!(heartbeats_keep_it_past_its_ttl);

/// Waits until heartbeats have moved the deadline so many times.
async fn heartbeats(held: &HeldLock, count: usize) {
    let mut left = held.expires_in();
    for _ in 0..count {
        eventually("a heartbeat", async || {
            let before = std::mem::replace(&mut left, held.expires_in());
            (left > before).then_some(())
        })
        .await;
    }
}

async fn heartbeats_keep_it_past_its_ttl(world: &World) {
    let held = world.manager(1).ttl_seconds(1).unwrap().lock(AT_ONCE).await.unwrap();
    // Each comes after a third of the ttl.
    heartbeats(&held, 5).await;
    held.ensure_held().unwrap();
    held.release().await.unwrap();
}

#[tokio::test]
async fn work_that_blocks_its_thread_does_not_stop_the_heartbeats() {
    let locks = MemoryLocks::new();
    let manager = LockManager::new(NAME, 1).unwrap().backend(locks.clone()).ttl_seconds(1).unwrap();
    let held = manager.lock(AT_ONCE).await.unwrap();
    let before = locks.requests();
    while locks.requests() < before + 4 {
        std::thread::sleep(Duration::from_millis(10));
    }
    held.ensure_held().unwrap();
}

#[tokio::test]
async fn a_heartbeat_that_did_not_arrive_is_repeated() {
    let clock = TestClock::new();
    let locks = MemoryLocks::on(&clock);
    let held = LockManager::new(NAME, 1).unwrap().backend(locks.clone()).lock(AT_ONCE).await.unwrap();
    let before = locks.requests();
    locks.cut_off();
    clock.advance(Duration::from_secs(11));
    eventually("a heartbeat in vain", async || (locks.requests() > before).then_some(())).await;
    locks.reconnect();
    // The pause after it is a second.
    eventually("another heartbeat", async || {
        clock.advance(Duration::from_millis(100));
        (held.expires_in() > Duration::from_secs(25)).then_some(())
    })
    .await;
    held.ensure_held().unwrap();
}

#[tokio::test]
async fn an_answer_that_got_lost_neither_loses_a_lock_nor_takes_it_twice() {
    let locks = MemoryLocks::new();
    let name = LockName::parse(NAME).unwrap();
    let manager = LockManager::new(NAME, 1).unwrap().backend(locks.clone());
    locks.drop_answers(2);
    let held = manager.lock(A_MINUTE).await.unwrap();
    assert_eq!((held.fencing_token(), locks.held(&name)), (1, vec![1]));
    locks.drop_answers(1);
    held.release().await.unwrap();
    assert!(locks.held(&name).is_empty());
    assert_eq!(manager.lock(AT_ONCE).await.unwrap().fencing_token(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn through_a_proxy_that_loses_answers_no_lock_is_lost_and_none_taken_twice() {
    const EACH: u64 = 10;
    const TASKS: u64 = 4;
    let home = Home::new();
    let process = home.start();
    let proxy = Proxy::losing_answers(&process.base, 15, 0.3).await;
    let manager = LockManager::new(NAME, 1).unwrap().backend(server_at(&proxy.base));
    let counter = home.path().join("counter");
    std::fs::write(&counter, "0").unwrap();
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let (manager, counter) = (manager.clone(), counter.clone());
            tokio::spawn(async move {
                for _ in 0..EACH {
                    let held = manager.lock(A_MINUTE).await.unwrap();
                    let count: u64 = std::fs::read_to_string(&counter).unwrap().parse().unwrap();
                    std::fs::write(&counter, (count + 1).to_string()).unwrap();
                    held.release().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(std::fs::read_to_string(&counter).unwrap(), (TASKS * EACH).to_string());
    assert!(proxy.lost.load(Ordering::SeqCst) > 10, "the proxy did its part");
    let (tokens, ends) = history(&process.admin()).await;
    assert_eq!(tokens, (1..=TASKS * EACH).collect::<Vec<_>>(), "no grant that nobody used");
    assert_eq!(ends, vec!["released"; usize::try_from(TASKS * EACH).unwrap()], "no lock was lost");
}

#[tokio::test]
async fn a_lock_outlives_a_restart_of_its_server() {
    let home = Home::new();
    let process = home.start();
    let address = process.base.strip_prefix("http://").unwrap().to_owned();
    let manager = LockManager::new(NAME, 1).unwrap().backend(server_at(&process.base)).ttl_seconds(30).unwrap();
    let held = manager.ttl_seconds(6).unwrap().lock(AT_ONCE).await.unwrap();
    process.kill();
    let process = home.start_on(&address);
    heartbeats(&held, 2).await;
    held.release().await.unwrap();
    assert_eq!(history(&process.admin()).await, (vec![1], vec!["released".to_owned()]));
}
