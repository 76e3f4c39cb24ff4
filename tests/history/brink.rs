//! Locks that nobody else wants, up to the moment when they end: then the holder's heartbeat and someone else's lock come at
//! once, shortly before or after, through any server.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;

use crate::{
    chance::Chance,
    record::Name,
    request::{Request, Verb},
    world::{OWNERS, Person, World},
};

/// Documents at a time: most of the time is spent waiting.
const AT_ONCE: usize = 4;

pub struct Brink {
    index: usize,
    world: Arc<World>,
    people: Vec<Person>,
    chance: Chance,
    count: u64,
}

impl Brink {
    pub fn new(world: &Arc<World>, index: usize, chance: Chance) -> Self {
        let people = OWNERS.iter().map(|owner| Person::new(world, owner)).collect();
        Self { index, world: Arc::clone(world), people, chance, count: 0 }
    }

    pub async fn run(mut self) {
        while !self.world.is_over() {
            let chances: Vec<_> = (0..AT_ONCE).map(|_| self.chance.one()).collect();
            let first = self.count;
            self.count += AT_ONCE as u64;
            join_all((first..).zip(chances).map(|(number, chance)| self.one(number, chance))).await;
        }
    }

    async fn one(&self, number: u64, mut chance: Chance) {
        let document: Name = format!("brink-{}-{number}", self.index).into();
        let [holder, other] = [0, 1].map(|place| &self.people[2 * chance.below(OWNERS.len() / 2) + place]);
        let lock = |runner: u64| {
            let brink = 768 + self.index as u64;
            let tag = ((self.world.round as u64) << 44) | (brink << 34) | (number << 1) | runner;
            Arc::new(Request {
                tag: Some(tag),
                ttl_seconds: Some(1),
                ..Request::on(Verb::Lock, &self.world.fresh, &document)
            })
        };
        let servers = self.world.bases.len();
        let [first, second, third] = [(); 3].map(|()| chance.below(servers));
        let (around, apart) = (chance.millis(0, 220), chance.millis(0, 6));
        let (is_wanted, is_extended) = (chance.percent(50), chance.percent(80));
        tokio::time::sleep(chance.millis(0, 200)).await;
        let invoked = self.world.watch.now();
        let answer = holder.send(first, &lock(0), None).await;
        let Some(seen) = answer.live().first() else { return };
        let deadline = invoked + Duration::from_millis(seen.expires_in_ms.unsigned_abs());
        let near = (deadline + around).saturating_sub(Duration::from_millis(30));
        tokio::time::sleep(near.saturating_sub(self.world.watch.now())).await;
        let named = Request { lease: seen.lease, ..Request::on(Verb::Heartbeat, &self.world.fresh, &document) };
        let (named, wish) = (Arc::new(named), lock(1));
        let beat = async {
            if is_extended {
                holder.send(second, &named, None).await;
            }
        };
        let want = async {
            if is_wanted {
                tokio::time::sleep(apart).await;
                other.send(third, &wish, None).await;
            }
        };
        tokio::join!(beat, want);
    }
}
