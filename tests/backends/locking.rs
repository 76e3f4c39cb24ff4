//! What a lock is, on both backends: one at a time, released whatever happens.

use std::time::Duration;

use doclock::client::{LockError, LockManager};

use crate::world::{World, in_both_worlds};

const AT_ONCE: Duration = Duration::ZERO;
const A_MINUTE: Duration = Duration::from_mins(1);

in_both_worlds!(
    tokens_grow_by_one_with_every_grant,
    time_up_is_a_timeout_and_releases_nothing,
    a_lock_is_released_when_it_is_dropped_by_an_error_or_by_a_panic,
    three_may_hold_it_with_parallelism_3,
    another_parallelism_is_refused_while_it_is_held,
    release_lock_releases_what_await_lock_took_and_nothing_else,
    a_manager_that_is_dropped_releases_what_it_took,
);

async fn is_free(manager: &LockManager) -> bool {
    match manager.lock(AT_ONCE).await {
        Ok(held) => held.release().await.is_ok(),
        Err(LockError::Timeout(_)) => false,
        Err(error) => panic!("{error}"),
    }
}

async fn tokens_grow_by_one_with_every_grant(world: &World) {
    let manager = world.manager(1);
    for token in 1..=3 {
        let held = manager.lock(AT_ONCE).await.unwrap();
        assert_eq!(held.fencing_token(), token);
        held.ensure_held().unwrap();
        held.release().await.unwrap();
    }
}

async fn time_up_is_a_timeout_and_releases_nothing(world: &World) {
    let manager = world.manager(1);
    let held = manager.lock(AT_ONCE).await.unwrap();
    for timeout in [AT_ONCE, Duration::from_millis(200)] {
        let error = manager.lock(timeout).await.unwrap_err();
        assert!(matches!(&error, LockError::Timeout(time_up) if time_up.timeout == timeout), "{error}");
    }
    held.ensure_held().unwrap();
    assert!(!is_free(&manager).await, "it is held as before");
    held.release().await.unwrap();
    assert!(is_free(&manager).await);
}

async fn a_lock_is_released_when_it_is_dropped_by_an_error_or_by_a_panic(world: &World) {
    let manager = world.manager(1);
    drop(manager.lock(AT_ONCE).await.unwrap());
    assert!(is_free(&manager).await);

    let fails = async |manager: &LockManager| {
        let _held = manager.lock(AT_ONCE).await.map_err(|error| error.to_string())?;
        Err::<(), _>("the body's own error".to_owned())
    };
    assert_eq!(fails(&manager).await.unwrap_err(), "the body's own error");
    assert!(is_free(&manager).await);

    let panics = manager.clone();
    let work = tokio::spawn(async move {
        let _held = panics.lock(AT_ONCE).await.unwrap();
        panic!("the body panics, on purpose");
    });
    assert!(work.await.unwrap_err().is_panic());
    assert!(is_free(&manager).await);
}

async fn three_may_hold_it_with_parallelism_3(world: &World) {
    let manager = world.manager(3);
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(manager.lock(AT_ONCE).await.unwrap());
    }
    assert!(!is_free(&manager).await, "a fourth is not let in");
    held.pop().unwrap().release().await.unwrap();
    assert!(is_free(&manager).await);
}

async fn another_parallelism_is_refused_while_it_is_held(world: &World) {
    let _held = world.manager(1).lock(AT_ONCE).await.unwrap();
    let error = world.manager(2).lock(A_MINUTE).await.unwrap_err();
    assert_eq!(error.code(), "CAPACITY_MISMATCH");
}

async fn release_lock_releases_what_await_lock_took_and_nothing_else(world: &World) {
    let mut manager = world.manager(1);
    assert_eq!(manager.await_lock(AT_ONCE).await.unwrap().fencing_token(), 1);
    let mut other = manager.clone();
    assert!(matches!(other.release_lock().await, Err(LockError::NotHeld(_))), "the clone has taken nothing");
    assert!(!is_free(&other).await);
    manager.release_lock().await.unwrap();
    assert!(is_free(&other).await);
    assert!(matches!(manager.release_lock().await, Err(LockError::NotHeld(_))));
}

async fn a_manager_that_is_dropped_releases_what_it_took(world: &World) {
    let mut manager = world.manager(1);
    manager.await_lock(AT_ONCE).await.unwrap();
    drop(manager);
    assert!(is_free(&world.manager(1)).await);
}
