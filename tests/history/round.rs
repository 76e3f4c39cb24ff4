//! One round: load and trouble for a while, then quiet until every lock has ended and every follower has heard of it, and
//! then the history of it all. Rounds have rooms of their own, so that each can be judged by itself and then forgotten.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use doclock::auth::Role;
use reqwest::Method;
use serde_json::Value;
use tokio::{runtime::Handle, task::JoinSet};

use crate::{
    answers,
    brink::Brink,
    caller::Caller,
    chance::Chance,
    clients::Client,
    followers::{self, ALL_ROOMS, Finish, Follower},
    history::History,
    log::Event,
    races::Racer,
    record::{Name, Watch},
    servers::{Servers, token},
    troubles::Troubles,
    world::{ADMIN, World},
};

const CLIENTS: usize = 16;
const RACERS: usize = 5;
const BRINKS: usize = 3;
/// At the end of the load no new trouble begins.
const CALM: Duration = Duration::from_secs(4);
/// Longer than the longest lock, with grace.
const UNTIL_ENDED: Duration = Duration::from_secs(30);

pub struct Round {
    pub number: usize,
    pub seed: u64,
    pub load: Duration,
    pub watch: Watch,
    /// The last sequence of the log before it.
    pub start: i64,
}

impl Round {
    pub async fn run(&self, servers: Servers) -> (Servers, History) {
        let world = Arc::new(World::new(self.watch, self.number, servers.bases.clone()));
        let chance = |part: &'static str| move |index| Chance::branch(self.seed, self.number, part, index);
        let finish = Finish::new();
        let following = followers::start(followers(&world), &servers.bases, self.watch, chance("follower"), &finish);
        let stop = Arc::new(AtomicBool::new(false));
        let troubles = Troubles {
            servers,
            watch: self.watch,
            chance: chance("trouble")(0),
            stop: Arc::clone(&stop),
            runtime: Handle::current(),
            last: self.watch.now() + self.load.saturating_sub(CALM),
        };
        let troubles = tokio::task::spawn_blocking(|| troubles.run());
        let mut clients = JoinSet::new();
        for index in 0..CLIENTS {
            clients.spawn(Client::new(&world, index, chance("client")(index)).run());
        }
        for index in 0..RACERS {
            clients.spawn(Racer::new(&world, index, chance("racer")(index)).run());
        }
        for index in 0..BRINKS {
            clients.spawn(Brink::new(&world, index, chance("brink")(index)).run());
        }
        tokio::time::sleep(self.load).await;
        stop.store(true, Ordering::Release);
        let (mut servers, troubles) = joined(troubles.await);
        world.stop.store(true, Ordering::Release);
        while let Some(client) = clients.join_next().await {
            joined(client);
        }
        let admin = Admin::of(&servers.bases);
        admin.until_all_ended(self.watch).await;
        let log = admin.log_after(self.start).await;
        finish.at(log.last().map_or(self.start, |event| event.sequence));
        let visits = following.join_all().await.into_iter().flatten().collect();
        servers.look_after();
        (0..servers.processes.len()).for_each(|index| servers.read_log(index));
        (servers, History::new(self.start, world.record.take(), troubles, visits, log))
    }
}

#[expect(clippy::panic, reason = "a part of the harness that panicked has said why")]
fn joined<T>(task: Result<T, tokio::task::JoinError>) -> T {
    task.unwrap_or_else(|error| panic!("{error}"))
}

/// Of each kind, and each role: what they are shown differs.
fn followers(world: &World) -> Vec<Follower> {
    let follower = |name: &str, role: Role, rooms: &[&Name], is_event_stream: bool| Follower {
        name: name.into(),
        token: token(name, role, false),
        rooms: rooms.iter().map(|room| Name::clone(room)).collect(),
        is_event_stream,
    };
    let World { hot, many, fresh, .. } = world;
    let all = Name::from(ALL_ROOMS);
    vec![
        follower("viewer of hot", Role::Viewer, &[hot], false),
        follower("ann", Role::Editor, &[hot, many, fresh], false),
        follower("admin of fresh", Role::Admin, &[fresh], false),
        follower("stream of hot", Role::Viewer, &[hot], true),
        follower("stream of fresh", Role::Admin, &[fresh], true),
        follower("stream of many", Role::Viewer, &[many], true),
        follower("everything", Role::Admin, &[&all], false),
        follower("everything shown", Role::Viewer, &[&all], false),
    ]
}

/// Reads past the clients, from whichever server answers.
struct Admin(Vec<Caller>);

impl Admin {
    fn of(bases: &[Name]) -> Self {
        Self(bases.iter().map(|base| Caller::new(base, token(ADMIN, Role::Admin, true))).collect())
    }

    async fn get(&self, path: &str) -> Value {
        loop {
            for caller in &self.0 {
                if let Some(answer) = caller.try_send(Method::GET, path, &Value::Null).await
                    && answer.is_ok()
                {
                    return answer.body;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    async fn until_all_ended(&self, watch: Watch) {
        // Requests whose answer nobody waited for may still be on their way.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let deadline = watch.now() + UNTIL_ENDED;
        while watch.now() < deadline && self.get("/api/admin/locks?limit=1").await["total"] != 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        // Reads leave out what is overdue; its end is put on record a moment later.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    async fn log_after(&self, start: i64) -> Vec<Event> {
        let (mut log, mut after) = (Vec::new(), start);
        loop {
            let page = self.get(&format!("/api/admin/events?limit=1000&after={after}")).await;
            let items = page["items"].as_array().map(Vec::as_slice).unwrap_or_default();
            log.extend(items.iter().filter_map(answers::event));
            match page["next_after"].as_i64() {
                Some(next) => after = next,
                None => return log,
            }
        }
    }
}
