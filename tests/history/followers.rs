//! Those who follow rooms over sockets and event streams, through every fault, and write down what they heard.

mod event_stream;
mod socket;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use serde_json::Value;
use tokio::task::JoinSet;

use crate::{
    answers,
    chance::Chance,
    log::Happened,
    record::{Moment, Name, Seen, Watch},
};

/// Every room there is.
pub const ALL_ROOMS: &str = "*";
/// How long a follower may take to hear of the last event, once nothing happens any more.
const PATIENCE: Duration = Duration::from_secs(10);

/// A notice as a follower heard it.
#[derive(Debug, Clone)]
pub struct Notice {
    pub heard: Moment,
    pub sequence: i64,
    pub key: Name,
    pub token: i64,
    pub happened: Happened,
    /// Of a lock.
    pub owner: Option<Name>,
}

/// One room over one connection.
#[derive(Debug, Clone, Default)]
pub struct Visit {
    pub follower: Name,
    pub room: Name,
    pub server: usize,
    /// What it said it knew.
    pub after: Option<i64>,
    pub opened: Moment,
    /// By `subscribed`; without it nothing was heard.
    pub sequence: Option<i64>,
    pub recovered: bool,
    /// The snapshot, unless it was recovered.
    pub locks: Vec<Seen>,
    /// What it had missed, and then what came live.
    pub heard: Vec<Notice>,
}

impl Visit {
    /// Up to where it knows the room.
    pub fn known(&self) -> Option<i64> {
        let last = self.heard.last().map(|notice| notice.sequence);
        last.max(self.sequence)
    }
}

/// What a follower hears, and as whom.
#[derive(Debug, Clone)]
pub struct Follower {
    pub name: Name,
    pub token: String,
    pub rooms: Vec<Name>,
    pub is_event_stream: bool,
}

/// Up to where everyone has to hear before it may go; a negative one while the round goes on.
#[derive(Debug, Clone)]
pub struct Finish(Arc<AtomicI64>);

impl Finish {
    pub fn new() -> Self {
        Self(Arc::new(AtomicI64::new(-1)))
    }

    pub fn at(&self, sequence: i64) {
        self.0.store(sequence, Ordering::Release);
    }

    fn sequence(&self) -> Option<i64> {
        let sequence = self.0.load(Ordering::Acquire);
        (sequence >= 0).then_some(sequence)
    }
}

/// The state of one follower.
struct Following {
    follower: Follower,
    bases: Vec<Name>,
    watch: Watch,
    chance: Chance,
    finish: Finish,
    epoch: String,
    http: reqwest::Client,
    /// By room, the last sequence that was heard of.
    known: BTreeMap<Name, i64>,
    visits: Vec<Visit>,
    gives_up_at: Option<Moment>,
}

pub fn start(
    followers: Vec<Follower>,
    bases: &[Name],
    watch: Watch,
    chance: impl Fn(usize) -> Chance,
    finish: &Finish,
) -> JoinSet<Vec<Visit>> {
    let mut tasks = JoinSet::new();
    for (index, follower) in followers.into_iter().enumerate() {
        let following = Following {
            follower,
            bases: bases.to_vec(),
            watch,
            chance: chance(index),
            finish: finish.clone(),
            epoch: String::new(),
            http: reqwest::Client::new(),
            known: BTreeMap::new(),
            visits: Vec::new(),
            gives_up_at: None,
        };
        tasks.spawn(following.run());
    }
    tasks
}

impl Following {
    async fn run(mut self) -> Vec<Visit> {
        while !self.is_done() {
            let mut chance = self.chance.one();
            let server = chance.below(self.bases.len());
            let first = self.visits.len();
            if self.follower.is_event_stream {
                self.stream(server, &mut chance).await;
            } else {
                self.socket(server, &mut chance).await;
            }
            for visit in &self.visits[first..] {
                if let Some(known) = visit.known() {
                    self.known.insert(visit.room.clone(), known);
                }
            }
            tokio::time::sleep(chance.millis(5, 150)).await;
        }
        self.visits
    }

    /// Whether everything has been heard, or it has been waited for long enough.
    fn is_done(&mut self) -> bool {
        let Some(finish) = self.finish.sequence() else { return false };
        let gives_up_at = *self.gives_up_at.get_or_insert(self.watch.now() + PATIENCE);
        self.watch.now() > gives_up_at || self.has_heard(finish)
    }

    /// Rooms in which less has happened are known as far when `subscribed` says so.
    fn has_heard(&self, finish: i64) -> bool {
        let knows = |room: &Name| self.known.get(room).is_some_and(|known| *known >= finish);
        self.follower.rooms.iter().all(knows)
    }

    /// How long it stays this time. Near the end only as long as it takes to see whether all has been heard.
    fn stay(&self, chance: &mut Chance) -> Duration {
        let stay = chance.millis(500, 9000);
        if self.finish.sequence().is_some() { stay.min(Duration::from_millis(500)) } else { stay }
    }

    fn visit(&self, room: &Name, server: usize) -> Visit {
        Visit {
            follower: self.follower.name.clone(),
            room: room.clone(),
            server,
            after: self.known.get(room).copied().filter(|_| **room != *ALL_ROOMS),
            opened: self.watch.now(),
            ..Visit::default()
        }
    }

    /// A message of either kind of stream, for the visit to its room.
    fn take(&mut self, message: &Value, visits: &mut [Visit], pages: &mut BTreeMap<Name, Visit>) {
        let heard = self.watch.now();
        match message["type"].as_str().unwrap_or_default() {
            "subscribed" | "snapshot" => {
                let room = answers::text(&message["room"]).unwrap_or_default();
                let Some(place) = visits.iter().position(|visit| visit.room == room) else { return };
                if message["type"] == "subscribed" {
                    message["epoch"].as_str().unwrap_or_default().clone_into(&mut self.epoch);
                    pages.insert(room.clone(), visits[place].clone());
                }
                let Some(page) = pages.get_mut(&room) else { return };
                add_page(page, message, heard);
                // Only a whole one counts: whoever has not got all of it has to get it again.
                if message["more"] == false
                    && let Some(whole) = pages.remove(&room)
                {
                    visits[place] = whole;
                }
            }
            "DocumentLocked" | "DocumentUnlocked" => {
                let room = answers::text(&message["room"]).unwrap_or_default();
                let fits = |visit: &&mut Visit| visit.room == room || *visit.room == *ALL_ROOMS;
                if let (Some(visit), Some(notice)) = (visits.iter_mut().find(fits), notice(message, heard)) {
                    visit.heard.push(notice);
                }
            }
            _ => {}
        }
    }
}

fn add_page(visit: &mut Visit, page: &Value, heard: Moment) {
    if page["type"] == "subscribed" {
        visit.sequence = page["sequence"].as_i64();
        visit.recovered = page["recovered"] == true;
    }
    let items = |name: &str| page[name].as_array().map(Vec::as_slice).unwrap_or_default();
    visit.locks.extend(items("locks").iter().filter_map(answers::seen));
    visit.heard.extend(items("events").iter().filter_map(|event| notice(event, heard)));
}

fn notice(message: &Value, heard: Moment) -> Option<Notice> {
    let is_lock = message["type"] == "DocumentLocked";
    let (token, owner, happened) = if is_lock {
        let lock = answers::seen(&message["lock"])?;
        (lock.token, Some(lock.owner), Happened::Locked)
    } else {
        let reason = answers::reason(&message["reason"])?;
        let by = answers::text(&message["by"]);
        (message["fencing_token"].as_i64()?, None, Happened::Ended { reason, by })
    };
    let key = crate::request::key(message["room"].as_str()?, message["document"].as_str()?);
    Some(Notice { heard, sequence: message["sequence"].as_i64()?, key, token, happened, owner })
}
