//! Clients that do one thing after the other, by chance: each an owner, in one of its tabs, through any server.

mod wishes;

use std::{collections::VecDeque, sync::Arc, time::Duration};

use crate::{
    chance::Chance,
    record::{Answer, Moment, Name, Seen},
    request::{Request, Verb},
    world::{ADMIN, OWNERS, Person, World},
};

/// How many of its requests a client may send again.
const PAST: usize = 24;

/// A lock that the client was told it has.
#[derive(Debug, Clone)]
struct Held {
    seen: Seen,
    session: Option<Name>,
    /// When it ends by what its holder knows.
    deadline: Moment,
}

pub struct Client {
    index: usize,
    world: Arc<World>,
    person: Person,
    admin: Person,
    chance: Chance,
    count: u64,
    held: Vec<Held>,
    past: VecDeque<Arc<Request>>,
}

impl Client {
    pub fn new(world: &Arc<World>, index: usize, chance: Chance) -> Self {
        let (person, admin) = (Person::new(world, OWNERS[index % OWNERS.len()]), Person::new(world, ADMIN));
        let (held, past) = (Vec::new(), VecDeque::new());
        Self { index, world: Arc::clone(world), person, admin, chance, count: 0, held, past }
    }

    pub async fn run(mut self) {
        while !self.world.is_over() {
            let mut chance = self.chance.one();
            self.count += 1;
            self.act(&mut chance).await;
            tokio::time::sleep(chance.millis(0, 25)).await;
        }
    }

    async fn act(&mut self, chance: &mut Chance) {
        let choice = chance.weighted(&[28, 20, 13, 4, 6, 6, 3, 2, 1, 8, 8, 2, 5]);
        let request = match choice {
            0 => self.lock(chance),
            1 => self.heartbeat(chance),
            2 => self.unlock(chance),
            3 => self.release(chance),
            4 => self.verify(chance),
            5 => self.on_some_document(Verb::Look, chance),
            6 => Request { verb: Verb::List, room: self.room(chance), ..Request::default() },
            7 => return self.force_one(chance).await,
            8 => return self.force_matching(chance).await,
            9 => self.several(chance),
            10 => return self.again(chance).await,
            11 => return self.other_body(chance).await,
            _ => return self.brink(chance).await,
        };
        self.ask(Arc::new(request), chance).await;
    }

    /// Sends it, and sends it again if the answer was lost and it can be.
    async fn ask(&mut self, request: Arc<Request>, chance: &mut Chance) {
        if request.id.is_some() {
            self.past.push_back(Arc::clone(&request));
            if self.past.len() > PAST {
                self.past.pop_front();
            }
        }
        for _ in 0..=chance.below(4) {
            let patience = chance.percent(9).then(|| chance.millis(0, 12));
            let server = chance.below(self.world.bases.len());
            let answer = if chance.percent(25) {
                self.person.say(server, &request, patience).await
            } else {
                self.person.send(server, &request, patience).await
            };
            self.learn(&request, &answer);
            if request.id.is_none() || !answer.is_open() {
                return;
            }
            tokio::time::sleep(chance.millis(0, 60)).await;
        }
    }

    fn learn(&mut self, request: &Request, answer: &Answer) {
        for seen in answer.live() {
            let deadline = self.world.watch.now() + Duration::from_millis(seen.expires_in_ms.unsigned_abs());
            let session = request.session.clone();
            let session = self
                .held
                .iter()
                .find(|held| held.seen.lease == seen.lease)
                .map_or(session, |held| held.session.clone());
            self.held.retain(|held| held.seen.lease != seen.lease);
            self.held.push(Held { seen: seen.clone(), session, deadline });
        }
        for ended in answer.ended() {
            self.held.retain(|held| held.seen.key != ended.key || held.seen.token != ended.token);
        }
        // A lost one is kept for a while, to ask for it: sometimes one must ask in vain.
        let now = self.world.watch.now();
        self.held.retain(|held| held.deadline + Duration::from_secs(2) > now);
    }

    async fn force_one(&mut self, chance: &mut Chance) {
        let sights = self.world.sights();
        let Some(seen) = chance.pick(&sights) else { return };
        let (room, document) = seen.key.split_once('/').unwrap_or_default();
        let request = Request { lease: seen.lease, ..Request::on(Verb::ForceUnlock, &room.into(), &document.into()) };
        self.admin.send(chance.below(self.world.bases.len()), &Arc::new(request), None).await;
    }

    async fn force_matching(&mut self, chance: &mut Chance) {
        let owner = chance.percent(70).then(|| OWNERS[chance.below(OWNERS.len())].into());
        let (room, document, _) = self.document(chance);
        let request = Request {
            verb: Verb::ForceMatching,
            room,
            filter_document: Some(document).filter(|_| owner.is_none() || chance.percent(50)),
            filter_owner: owner,
            ..Request::default()
        };
        self.admin.send(chance.below(self.world.bases.len()), &Arc::new(request), None).await;
    }

    /// The very same request once more, through any server.
    async fn again(&mut self, chance: &mut Chance) {
        let past: Vec<_> = self.past.iter().cloned().collect();
        let Some(request) = chance.pick(&past) else { return };
        let patience = chance.percent(15).then(|| chance.millis(0, 12));
        let answer = self.person.send(chance.below(self.world.bases.len()), request, patience).await;
        self.learn(request, &answer);
    }

    /// The same id for something else.
    async fn other_body(&mut self, chance: &mut Chance) {
        let past: Vec<_> = self.past.iter().filter(|past| past.verb != Verb::Heartbeat).cloned().collect();
        let Some(request) = chance.pick(&past) else { return };
        let mut other = Request::clone(request);
        match request.verb {
            Verb::Lock => other.ttl_seconds = Some(6),
            _ if request.many => other.documents.truncate(1),
            _ => other.session = Some("other".into()),
        }
        other.tag = None;
        let answer = self.person.send(chance.below(self.world.bases.len()), &Arc::new(other.clone()), None).await;
        self.learn(&other, &answer);
    }

    /// Something at the very moment when a lock ends.
    async fn brink(&mut self, chance: &mut Chance) {
        let Some(held) = self.held.iter().min_by_key(|held| held.deadline).cloned() else { return };
        let left = held.deadline.saturating_sub(self.world.watch.now());
        let near = left + chance.millis(0, 260);
        tokio::time::sleep(near.saturating_sub(Duration::from_millis(60)).min(Duration::from_millis(2500))).await;
        let (room, document) = held.seen.key.split_once('/').unwrap_or_default();
        let verb = [Verb::Heartbeat, Verb::Unlock, Verb::Lock][chance.weighted(&[60, 10, 30])];
        let request = Request {
            lease: held.seen.lease.filter(|_| verb != Verb::Lock),
            session: held.session.filter(|_| verb == Verb::Lock),
            ttl_seconds: (verb == Verb::Lock).then_some(1),
            tag: (verb == Verb::Lock).then(|| self.tag()),
            ..Request::on(verb, &room.into(), &document.into())
        };
        self.ask(Arc::new(request), chance).await;
    }
}
