//! A process that stands still.

use std::time::Duration;

use crate::process::Home;

#[tokio::test]
async fn locks_that_were_alive_when_the_process_froze_are_alive_right_after() {
    let home = Home::new();
    let process = home.start();
    let alice = process.editor("alice");
    let lease_id = alice.lock("document", 4).await.ok()["lease_id"].clone();
    let other = alice.lock("other", 4).await.ok()["lease_id"].clone();
    process.signal("STOP");
    tokio::time::sleep(Duration::from_secs(5)).await;
    process.signal("CONT");
    // Over a new connection: the old one was idle for too long.
    let alice = process.editor("alice");
    assert_eq!(alice.read("document").await["lease_id"], lease_id);
    assert_eq!(alice.extend("document").await.ok()["lease_id"], lease_id);
    let taken = process.editor("bob").lock("other", 4).await;
    assert_eq!((taken.status, taken.body["code"].as_str()), (409, Some("LOCK_HELD")), "{other} is lost");
}
