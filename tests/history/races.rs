//! Documents that nobody has locked before, wanted by several at the same moment: first use is where two servers have
//! no row yet that either could wait for.

use std::sync::Arc;

use futures_util::future::join_all;

use crate::{
    chance::Chance,
    record::{Answer, Name},
    request::{Request, Verb},
    world::{OWNERS, Person, World},
};

pub struct Racer {
    index: usize,
    world: Arc<World>,
    people: Vec<Person>,
    chance: Chance,
    count: u64,
}

impl Racer {
    pub fn new(world: &Arc<World>, index: usize, chance: Chance) -> Self {
        let people = OWNERS.iter().map(|owner| Person::new(world, owner)).collect();
        Self { index, world: Arc::clone(world), people, chance, count: 0 }
    }

    pub async fn run(mut self) {
        while !self.world.is_over() {
            let mut chance = self.chance.one();
            self.race(&mut chance).await;
            tokio::time::sleep(chance.millis(0, 8)).await;
        }
    }

    async fn race(&mut self, chance: &mut Chance) {
        self.count += 1;
        let document: Name = format!("race-{}-{}", self.index, self.count).into();
        let first = chance.below(self.world.bases.len());
        let runners = if chance.percent(75) { 2 } else { 3 };
        let asked = (0..runners).map(|runner| {
            let takes_over = runner > 0 && chance.percent(85);
            // Those at odd places may take over from others.
            let person = &self.people[(2 * chance.below(OWNERS.len() / 2)) + usize::from(takes_over)];
            let request = self.lock(&document, runner, takes_over, chance);
            let server = (first + runner) % self.world.bases.len();
            let delay = chance.millis(0, 3).mul_f64(if runner == 0 { 0.0 } else { 1.0 });
            async move {
                tokio::time::sleep(delay).await;
                let answer = person.send(server, &request, None).await;
                (person, request, answer)
            }
        });
        for (person, request, answer) in join_all(asked).await {
            self.follow_up(person, &request, &answer, chance).await;
        }
    }

    fn lock(&self, document: &Name, runner: usize, takeover: bool, chance: &mut Chance) -> Arc<Request> {
        let (round, index, count) = (self.world.round, self.index, self.count);
        let racer = 512 + index as u64;
        Arc::new(Request {
            session: chance.percent(50).then(|| format!("tab-{}", chance.below(3)).into()),
            id: chance.percent(30).then(|| format!("{round}-r{index}-{count}-{runner}").into()),
            tag: Some(((round as u64) << 44) | (racer << 34) | (count << 2) | runner as u64),
            ttl_seconds: Some(u32::try_from(chance.between(1, 3)).unwrap_or(1)),
            takeover,
            ..Request::on(Verb::Lock, &self.world.fresh, document)
        })
    }

    /// Sometimes it is unlocked, sometimes it is left to expire.
    async fn follow_up(&self, person: &Person, lock: &Request, answer: &Answer, chance: &mut Chance) {
        let server = chance.below(self.world.bases.len());
        let choice = chance.weighted(&[25, 15, 60]);
        let Some(lease) = answer.live().first().and_then(|seen| seen.lease) else { return };
        let verb = match choice {
            0 => Verb::Heartbeat,
            1 => Verb::Unlock,
            _ => return,
        };
        let named = Request { lease: Some(lease), ..Request::on(verb, &lock.room, &lock.documents[0]) };
        person.send(server, &Arc::new(named), None).await;
    }
}
