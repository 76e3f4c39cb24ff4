//! One server on SQLite that is stopped, killed and started again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::task::block_in_place;

use crate::{
    process::Home,
    readers::{EVENTS, every_reader_gets_its_room},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_miss_nothing_of_a_server_that_is_killed_and_restarted() {
    const RESTARTS: usize = 6;
    let home = Home::new().set("DOCLOCK_SERVER__DRAIN_SECONDS", "1");
    let first = home.start();
    let (base, admin) = (first.base.clone(), first.admin());
    let address = base.strip_prefix("http://").unwrap();
    let restart = async |done: Arc<AtomicUsize>| {
        let mut process = first;
        for restart in 1..=RESTARTS {
            while done.load(Ordering::Relaxed) < EVENTS * restart / (RESTARTS + 1) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            process = block_in_place(|| {
                if restart % 2 == 0 {
                    process.stop();
                } else {
                    process.kill();
                }
                home.start_on(address)
            });
        }
        process
    };
    every_reader_gets_its_room(vec![base.clone()], || admin.clone(), restart).await.stop();
}
