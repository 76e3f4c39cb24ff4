//! Has a sign of life written every second.

use std::time::Duration;

use super::clock::Clock;
use crate::committer::Committer;

/// Twice per sign of life, so that the rounding of timers cannot stretch one second to two.
const TICK: Duration = Duration::from_millis(500);

/// Has one sign of life written, if it is due. A failure is logged by the committer and seen in `/readyz`.
pub async fn beat(committer: &Committer) {
    let _ = committer.beat().await;
}

pub async fn run(committer: Committer, clock: Clock) {
    loop {
        beat(&committer).await;
        clock.sleep(TICK).await;
    }
}
