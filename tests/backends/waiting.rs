//! How a lock is waited for: in line, and by seed 002's pauses where there is none.

use std::time::Duration;

use doclock::client::{HeldLock, LockManager, LockName, MemoryLocks, TestClock, Wait};
use tokio::sync::mpsc;

use crate::{
    caller::eventually,
    world::{NAME, World, in_both_worlds},
};

const AT_ONCE: Duration = Duration::ZERO;
const A_MINUTE: Duration = Duration::from_mins(1);

in_both_worlds!(
    the_line_is_first_come_first_served,
    a_wait_that_is_dropped_leaves_the_line,
    a_wait_past_the_timeout_leaves_the_line
);

async fn until_in_line(world: &World, count: usize) {
    eventually("the line is as long as expected", async || (world.waiting().await == count).then_some(())).await;
}

async fn the_line_is_first_come_first_served(world: &World) {
    let manager = world.manager(1);
    let first = manager.lock(AT_ONCE).await.unwrap();
    let (served, mut order) = mpsc::unbounded_channel();
    for number in 1..=4 {
        let (manager, served) = (manager.clone(), served.clone());
        tokio::spawn(async move {
            let held = manager.lock(A_MINUTE).await.unwrap();
            served.send((number, held.fencing_token())).unwrap();
            held.release().await.unwrap();
        });
        until_in_line(world, number).await;
    }
    first.release().await.unwrap();
    for number in 1..=4 {
        assert_eq!(order.recv().await, Some((number, number as u64 + 1)));
    }
}

async fn a_wait_that_is_dropped_leaves_the_line(world: &World) {
    let manager = world.manager(1);
    let held = manager.lock(AT_ONCE).await.unwrap();
    let waits = manager.clone();
    let waiter = tokio::spawn(async move { waits.lock(A_MINUTE).await });
    until_in_line(world, 1).await;
    waiter.abort();
    until_in_line(world, 0).await;
    held.release().await.unwrap();
    assert_eq!(manager.lock(AT_ONCE).await.unwrap().fencing_token(), 2, "nothing was granted to who had left");
}

async fn a_wait_past_the_timeout_leaves_the_line(world: &World) {
    let manager = world.manager(1);
    let _held = manager.lock(AT_ONCE).await.unwrap();
    manager.lock(Duration::from_millis(300)).await.unwrap_err();
    until_in_line(world, 0).await;
}

/// Ten seconds pass, and the holder's heartbeat that was due in them has been answered.
async fn ten_seconds(clock: &TestClock, held: &HeldLock) {
    clock.advance(Duration::from_secs(10));
    eventually("a heartbeat", async || (held.expires_in() > Duration::from_secs(29)).then_some(())).await;
}

#[tokio::test]
async fn who_waits_longer_than_one_request_keeps_its_place() {
    let clock = TestClock::new();
    let locks = MemoryLocks::on(&clock);
    let name = LockName::parse(NAME).unwrap();
    let manager = LockManager::new(NAME, 1).unwrap().backend(locks.clone());
    let held = manager.lock(AT_ONCE).await.unwrap();
    let wait = |manager: LockManager| tokio::spawn(async move { manager.lock(Duration::from_mins(10)).await.unwrap() });
    let in_line = async |count| {
        eventually("in line", async || (locks.waiting(&name) == count).then_some(())).await;
    };
    let early = wait(manager.clone());
    in_line(1).await;
    for _ in 0..3 {
        ten_seconds(&clock, &held).await;
    }
    let late = wait(manager.clone());
    in_line(2).await;
    let before = locks.requests();
    // Past the end of the first one's request, which is sent again.
    for _ in 0..3 {
        ten_seconds(&clock, &held).await;
    }
    eventually("it asked again", async || (locks.requests() == before + 4).then_some(())).await;
    held.release().await.unwrap();
    let early = early.await.unwrap();
    assert_eq!(early.fencing_token(), 2);
    assert!(!late.is_finished());
    early.release().await.unwrap();
    assert_eq!(late.await.unwrap().fencing_token(), 3);
}

#[tokio::test]
async fn without_a_line_it_polls_with_the_pauses_of_seed_002() {
    let clock = TestClock::new();
    let locks = MemoryLocks::without_line(&clock);
    let manager = LockManager::new(NAME, 1).unwrap().backend(locks.clone()).ttl_seconds(600).unwrap().seed(2);
    let held = manager.lock(AT_ONCE).await.unwrap();
    let waits = manager.clone();
    let waiter = tokio::spawn(async move { waits.lock(Wait::default()).await.unwrap() });
    let polled = async |count| eventually("a poll", async || (locks.requests() == count).then_some(())).await;
    polled(2).await;
    let (mut random, mut delay) = (fastrand::Rng::with_seed(2), Duration::from_secs(1));
    for poll in 0..5 {
        let pause = delay.mul_f64(0.5 + random.f64()).min(Duration::from_secs(30));
        clock.advance(pause.saturating_sub(Duration::from_millis(1)));
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(locks.requests(), poll + 2, "not before the pause is over");
        clock.advance(Duration::from_millis(1));
        polled(poll + 3).await;
        delay = delay.mul_f64(1.5).min(Duration::from_secs(30));
    }
    held.release().await.unwrap();
    clock.advance(Duration::from_secs(30));
    assert_eq!(waiter.await.unwrap().fencing_token(), 2);
}
