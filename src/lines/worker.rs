//! Keeps the tickets of those who wait here alive, and tells them their positions.

use std::{collections::HashMap, time::Duration};

use super::{LineNews, Lines};
use crate::{
    committer::Committer,
    locking::{DocumentKey, LeaseId},
    storage::{Queries, StorageError},
    time::{clock::Clock, liveness::Judged},
};

const TICK: Duration = Duration::from_millis(250);
/// Tickets are renewed, and all positions looked at, every so many ticks: three seconds, of the fifteen that a ticket lives.
const RENEW_TICKS: u32 = 12;
/// Positions beyond these are told when tickets are renewed: with thousands in line every change would be told to all.
const NEAR: u64 = 100;
/// Tickets in one statement.
const CHUNK: usize = 500;
/// The longest line whose positions are told.
const LONGEST: u64 = 20_000;

#[derive(Debug, Clone)]
pub struct Worker {
    pub lines: Lines,
    pub committer: Committer,
    pub queries: Queries,
    pub clock: Clock,
}

impl Worker {
    pub async fn run(self) {
        let mut ticks = 0;
        loop {
            self.clock.sleep(TICK).await;
            ticks = (ticks + 1) % RENEW_TICKS;
            let done = if ticks == 0 { self.round().await } else { self.tell_positions(false).await };
            if let Err(error) = done {
                tracing::debug!(%error, "waiting lines cannot be read, trying again");
            }
        }
    }

    /// What the worker does every three seconds, and tests when they want it done.
    pub async fn round(&self) -> Result<(), StorageError> {
        self.renew().await?;
        self.tell_positions(true).await
    }

    /// Renews the tickets of those whose clients have been heard of; who has neither ticket nor grant is told.
    pub async fn renew(&self) -> Result<(), StorageError> {
        let tickets: Vec<LeaseId> = {
            let mut registered = self.lines.0.registered.lock();
            let here = registered.waiters.iter_mut().filter(|(_, waiter)| waiter.is_here);
            here.map(|(lease_id, waiter)| {
                waiter.is_here = !waiter.answers_pings;
                *lease_id
            })
            .collect()
        };
        for chunk in tickets.chunks(CHUNK) {
            let gone = self.committer.renew_tickets(chunk.to_vec()).await;
            for lease_id in gone.map_err(|error| StorageError::Unavailable(error.to_string()))? {
                self.find_out(lease_id).await?;
            }
        }
        Ok(())
    }

    /// The ticket is gone: it was served, and the notice of that is on its way, or it has died.
    async fn find_out(&self, lease_id: LeaseId) -> Result<(), StorageError> {
        let Some(key) = self.key_of(lease_id) else { return Ok(()) };
        let judged = Judged { at: self.clock.now(), outages: std::sync::Arc::default() };
        if let Some(lock) = self.queries.lock_by_lease(&key.tenant, lease_id, &judged).await? {
            self.lines.granted(&lock);
            return Ok(());
        }
        let mut registered = self.lines.0.registered.lock();
        if let Some(waiter) = registered.waiters.remove(&lease_id) {
            registered.unlist(&waiter.key, lease_id);
            let _ = waiter.news.send((lease_id, LineNews::Lost));
        }
        Ok(())
    }

    fn key_of(&self, lease_id: LeaseId) -> Option<DocumentKey> {
        self.lines.0.registered.lock().waiters.get(&lease_id).map(|waiter| waiter.key.clone())
    }

    /// `is_whole`: of all lines, and to everyone whose position has changed.
    async fn tell_positions(&self, is_whole: bool) -> Result<(), StorageError> {
        let keys: Vec<DocumentKey> = {
            let mut registered = self.lines.0.registered.lock();
            let changed = std::mem::take(&mut registered.changed);
            if is_whole { registered.by_document.keys().cloned().collect() } else { changed.into_iter().collect() }
        };
        for key in keys {
            let line = self.queries.line(&key, self.clock.now(), LONGEST).await?;
            let positions: HashMap<LeaseId, u64> = line.into_iter().zip(1..).collect();
            let mut registered = self.lines.0.registered.lock();
            let listed: Vec<_> = registered.by_document.get(&key).into_iter().flatten().copied().collect();
            for lease_id in listed {
                let (Some(waiter), Some(position)) =
                    (registered.waiters.get_mut(&lease_id), positions.get(&lease_id).copied())
                else {
                    continue;
                };
                let is_near = position <= NEAR || waiter.position.is_none();
                if waiter.position != Some(position) && (is_whole || is_near) {
                    waiter.position = Some(position);
                    let _ = waiter.news.send((lease_id, LineNews::Position(position)));
                }
            }
        }
        Ok(())
    }
}
