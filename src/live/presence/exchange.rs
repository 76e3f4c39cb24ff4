//! Servers on one database tell each other who is in their rooms.
//!
//! Twice a second each server
//! 1. writes what has changed in its own rooms since the last time, under a version that counts up; and every three
//!    seconds, at least, that it still runs;
//! 2. looks which of the others has a version it has not read, reads what is new there, and hands it to the hub;
//! 3. forgets servers that have written nothing for 15 s.
//!
//! After a failure a server does not know what was written, and a server that the others have given up has lost what it
//! wrote. In both cases it appears again, under another id and with everyone who is there. Nobody flickers, because the
//! hub waits two seconds before it believes that somebody has left.
//!
//! Locks know nothing of this, and never wait for it.

use std::{collections::HashMap, time::Duration};

use tokio::sync::oneshot;
use uuid::Uuid;

use super::{Elsewhere, Participant, Sighting, SightingsWanted};
use crate::{
    live::Hub,
    locking::{
        Timestamp,
        names::{OwnerId, RoomId, TenantId},
    },
    storage::{
        StorageError,
        soft_state::{ActivitySaid, LiveServer, ParticipantRow, SoftState},
    },
    time::clock::Clock,
};

const EVERY_MS: i64 = 500;
const BEAT_MS: i64 = 3000;
/// What is written while another server looks is found by its next look.
const OVERLAP_MS: i64 = 2000;
const DEAD_AFTER_MS: i64 = 15_000;
/// Departures are deleted after one to two times this many rounds. Other servers have read of them by then; one that
/// has not reads everything.
const FORGET_AFTER_ROUNDS: u32 = 60;
/// How many of its earlier ids a server remembers in a long outage. Other servers have given up the oldest by then.
const REMEMBERED: usize = 100;
/// How long a server that stops waits for the database.
const GOODBYE: Duration = Duration::from_secs(1);

/// Stops the exchange.
#[derive(Debug)]
pub struct ExchangeHandle(oneshot::Sender<oneshot::Sender<()>>);

impl ExchangeHandle {
    /// Deletes what the server has said about its people, unless the database takes too long for it.
    pub async fn stop(self) {
        let (reply, stopped) = oneshot::channel();
        if self.0.send(reply).is_ok() {
            let _ = tokio::time::timeout(GOODBYE, stopped).await;
        }
    }
}

#[derive(Debug)]
pub struct Exchange {
    database: SoftState,
    hub: Hub,
    clock: Clock,
    stop: oneshot::Receiver<oneshot::Sender<()>>,
    own: Option<Own>,
    /// The ids it had before, as long as rows of theirs may be in the database.
    before: Vec<Uuid>,
    /// Up to which version it has read each of the others.
    others: HashMap<Uuid, i64>,
    has_failed: bool,
}

/// How others know this server.
#[derive(Debug)]
struct Own {
    id: Uuid,
    version: i64,
    seen_at: Timestamp,
    rounds: u32,
    /// The version when departures were last forgotten.
    forgotten_at: i64,
    /// When it last looked at what holders have said elsewhere, and what it found.
    heard_at: Timestamp,
    heard: Vec<ActivitySaid>,
}

impl Exchange {
    pub fn new(database: SoftState, hub: Hub, clock: Clock) -> (Self, ExchangeHandle) {
        let (handle, stop) = oneshot::channel();
        let (before, others) = (Vec::new(), HashMap::new());
        (Self { database, hub, clock, stop, own: None, before, others, has_failed: false }, ExchangeHandle(handle))
    }

    pub async fn run(mut self) {
        loop {
            // From the beginning of one round to that of the next: what a round takes must not add to the delay.
            let now = self.clock.now();
            self.round(now).await;
            tokio::select! {
                biased;
                // First: after a slow round the next one is due already.
                reply = &mut self.stop => {
                    // If this fails, the other servers forget this one after a while.
                    let _ = self.database.forget_servers(&self.own_ids()).await;
                    if let Ok(reply) = reply {
                        let _ = reply.send(());
                    }
                    return;
                }
                () = self.clock.sleep_until(now.plus_millis(EVERY_MS)) => {}
            }
        }
    }

    async fn round(&mut self, now: Timestamp) {
        match self.exchange(now).await {
            Ok(()) => self.has_failed = false,
            Err(error) => {
                if !self.has_failed {
                    tracing::warn!(%error, "cannot tell other servers who is here, trying again");
                }
                self.has_failed = true;
                self.before = self.own_ids();
                self.own = None;
            }
        }
    }

    async fn exchange(&mut self, now: Timestamp) -> Result<(), StorageError> {
        self.speak(now).await?;
        self.listen(now).await?;
        self.exchange_activity(now).await
    }

    /// Tells others what holders have said here, and the rooms here what they have said elsewhere. It may be told twice.
    async fn exchange_activity(&mut self, now: Timestamp) -> Result<(), StorageError> {
        let Some(own) = &mut self.own else { return Ok(()) };
        let Some(said) = self.hub.untold_activity().await else { return Ok(()) };
        if !said.is_empty() {
            self.database.say_activity(own.id, said, now).await?;
        }
        let heard = self.database.activity_since(own.id, own.heard_at.plus_millis(-OVERLAP_MS)).await?;
        own.heard_at = now;
        let news: Vec<_> = heard.iter().filter(|said| !own.heard.contains(said)).cloned().collect();
        own.heard = heard;
        if !news.is_empty() {
            self.hub.heard_activity(news);
        }
        if own.rounds == 0 {
            self.database.forget_activity(now.plus_millis(-DEAD_AFTER_MS)).await?;
        }
        Ok(())
    }

    async fn speak(&mut self, now: Timestamp) -> Result<(), StorageError> {
        let wanted = if self.own.is_some() { SightingsWanted::Changed } else { SightingsWanted::All };
        // If the publisher has ended, the server is about to stop.
        let Some(sightings) = self.hub.sightings(wanted).await else { return Ok(()) };
        let rows: Vec<_> = sightings.into_iter().map(row).collect();
        let Some(own) = &mut self.own else {
            let id = Uuid::new_v4();
            let before = self.before.clone();
            // Remembered before it is written: a write that fails may have happened all the same.
            self.before.push(id);
            self.before.drain(..self.before.len().saturating_sub(REMEMBERED));
            self.database.appear(id, &before, rows, now).await?;
            self.before.clear();
            self.own = Some(Own {
                id,
                version: 1,
                seen_at: now,
                rounds: 0,
                forgotten_at: 0,
                heard_at: now,
                heard: Vec::new(),
            });
            return Ok(());
        };
        if !rows.is_empty() || now.millis_since(own.seen_at) >= BEAT_MS {
            own.version += i64::from(!rows.is_empty());
            own.seen_at = now;
            if !self.database.say(own.id, own.version, rows, now).await? {
                tracing::info!("other servers had given this one up: telling them again who is here");
                self.own = None;
                return Ok(());
            }
        }
        own.rounds += 1;
        if own.rounds == FORGET_AFTER_ROUNDS {
            own.rounds = 0;
            let forget = std::mem::replace(&mut own.forgotten_at, own.version);
            self.database.forget_departed(own.id, forget).await?;
        }
        Ok(())
    }

    async fn listen(&mut self, now: Timestamp) -> Result<(), StorageError> {
        let own = self.own_ids();
        let servers = self.database.servers().await?;
        let is_dead = |server: &LiveServer| now.millis_since(server.seen_at) > DEAD_AFTER_MS;
        let (dead, alive): (Vec<_>, Vec<_>) =
            servers.into_iter().filter(|server| !own.contains(&server.id)).partition(is_dead);
        if !dead.is_empty() {
            let dead: Vec<_> = dead.iter().map(|server| server.id).collect();
            self.database.forget_servers(&dead).await?;
        }
        // Servers that have come are read before those that are gone are dropped: it may be one server with a new id.
        for server in &alive {
            if self.others.get(&server.id) != Some(&server.version) {
                self.read(server.id).await?;
            }
        }
        let gone = self.others.extract_if(|id, _| !alive.iter().any(|server| server.id == *id));
        for (server, _) in gone {
            self.hub.heard(Elsewhere::Gone { server });
        }
        Ok(())
    }

    async fn read(&mut self, server: Uuid) -> Result<(), StorageError> {
        let Some(said) = self.database.said_since(server, self.others.get(&server).copied()).await? else {
            return Ok(());
        };
        let sightings = said.rows.into_iter().map(sighting).collect();
        self.hub.heard(if said.is_complete {
            Elsewhere::Everyone { server, sightings }
        } else {
            Elsewhere::Changed { server, sightings }
        });
        self.others.insert(server, said.version);
        Ok(())
    }

    /// Returns the id it has, and those it had before that may still be in the database.
    fn own_ids(&self) -> Vec<Uuid> {
        self.own.iter().map(|own| own.id).chain(self.before.iter().copied()).collect()
    }
}

fn row(sighting: Sighting) -> ParticipantRow {
    let Sighting { room: (tenant, room), participant: Participant { owner_id, name }, is_here } = sighting;
    ParticipantRow {
        tenant: tenant.to_string(),
        room: room.to_string(),
        owner_id: owner_id.to_string(),
        name: name.map(|name| name.to_string()),
        is_here,
    }
}

fn sighting(row: ParticipantRow) -> Sighting {
    Sighting {
        room: (TenantId::from_stored(row.tenant), RoomId::from_stored(row.room)),
        participant: Participant { owner_id: OwnerId::from_stored(row.owner_id), name: row.name.map(Into::into) },
        is_here: row.is_here,
    }
}
