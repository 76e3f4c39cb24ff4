//! What a client may ask for next.

use uuid::Uuid;

use super::Client;
use crate::{
    chance::Chance,
    record::Name,
    request::{Request, Verb},
    world::World,
};

const HOT: usize = 4;
const MANY: usize = 6;

impl Client {
    pub(super) fn room(&self, chance: &mut Chance) -> Name {
        self.world.rooms()[chance.below(3)].clone()
    }

    pub(super) fn session(chance: &mut Chance) -> Option<Name> {
        chance.percent(70).then(|| format!("tab-{}", chance.below(3)).into())
    }

    pub(super) fn request_id(&self, chance: &mut Chance) -> Option<Name> {
        let (World { round, .. }, index, count) = (&*self.world, self.index, self.count);
        chance.percent(60).then(|| format!("{round}-{index}-{count}").into())
    }

    pub(super) fn tag(&self) -> u64 {
        ((self.world.round as u64) << 44) | ((self.index as u64) << 34) | self.count
    }

    /// A document, and the capacity it is asked for with.
    pub(super) fn document(&self, chance: &mut Chance) -> (Name, Name, Option<u32>) {
        let world = &self.world;
        match chance.weighted(&[50, 12, 12, 8, 14]) {
            0 => (world.hot.clone(), format!("page-{}", chance.below(HOT)).into(), None),
            1 => (world.hot.clone(), "pair".into(), Some(2)),
            2 => (world.hot.clone(), "trio".into(), Some(3)),
            3 => (world.many.clone(), format!("part-{}", chance.below(MANY)).into(), None),
            _ => (world.fresh.clone(), format!("new-{}-{}", self.index, self.count).into(), None),
        }
    }

    pub(super) fn on_some_document(&self, verb: Verb, chance: &mut Chance) -> Request {
        let sights = self.world.sights();
        let seen = chance.pick(&sights).filter(|_| chance.percent(50));
        if let Some((room, document)) = seen.and_then(|seen| seen.key.split_once('/')) {
            return Request::on(verb, &room.into(), &document.into());
        }
        let (room, document, _) = self.document(chance);
        Request::on(verb, &room, &document)
    }

    pub(super) fn lock(&self, chance: &mut Chance) -> Request {
        let (room, document, capacity) = self.document(chance);
        let takeover = chance.percent(22);
        let key = crate::request::key(&room, &document);
        let sights = self.world.sights();
        let latest = sights.iter().rev().find(|seen| seen.key == key).map(|seen| seen.token);
        Request {
            session: Self::session(chance),
            id: self.request_id(chance),
            tag: Some(self.tag()),
            ttl_seconds: Some(u32::try_from(chance.between(1, 5)).unwrap_or(1)),
            // Now and then the one that is in force, which for a free document is one.
            capacity: capacity.filter(|_| chance.percent(85)),
            takeover,
            expected_token: latest.filter(|_| takeover && chance.percent(40)),
            version: chance.percent(15).then(|| format!("v{}", self.count).into()),
            ..Request::on(Verb::Lock, &room, &document)
        }
    }

    /// Of a lock it has, named in one of the ways; or of some document where it may have none.
    pub(super) fn of_a_lock(&self, verb: Verb, chance: &mut Chance) -> Request {
        let held = chance.pick(&self.held).filter(|_| chance.percent(90)).cloned();
        let Some(held) = held else {
            let lease = chance.percent(20).then(Uuid::nil);
            return Request { lease, session: Self::session(chance), ..self.on_some_document(verb, chance) };
        };
        let (room, document) = held.seen.key.split_once('/').unwrap_or_default();
        let by_lease = chance.percent(60) || held.session.is_none() && chance.percent(50);
        let by_session = if by_lease { chance.percent(20) } else { chance.percent(85) };
        Request {
            lease: held.seen.lease.filter(|_| by_lease),
            session: held.session.filter(|_| by_session),
            hold: held.seen.hold,
            ..Request::on(verb, &room.into(), &document.into())
        }
    }

    pub(super) fn heartbeat(&self, chance: &mut Chance) -> Request {
        Request {
            id: self.request_id(chance).filter(|_| chance.percent(50)),
            ttl_seconds: chance.percent(50).then(|| u32::try_from(chance.between(1, 5)).unwrap_or(1)),
            ..self.of_a_lock(Verb::Heartbeat, chance)
        }
    }

    pub(super) fn unlock(&self, chance: &mut Chance) -> Request {
        Request {
            id: self.request_id(chance),
            // A version would be a save, which is an event of its own: the checker does not follow those yet.
            version: None,
            ..self.of_a_lock(Verb::Unlock, chance)
        }
    }

    pub(super) fn release(&self, chance: &mut Chance) -> Request {
        let Some(held) = chance.pick(&self.held) else { return self.on_some_document(Verb::Look, chance) };
        let (room, document) = held.seen.key.split_once('/').unwrap_or_default();
        let linger_ms = if chance.percent(60) { u32::try_from(chance.between(1, 1500)).unwrap_or(1) } else { 0 };
        let hold = held.seen.hold;
        Request {
            lease: held.seen.lease,
            hold,
            linger_ms,
            ..Request::on(Verb::Release, &room.into(), &document.into())
        }
    }

    pub(super) fn verify(&self, chance: &mut Chance) -> Request {
        let sights = self.world.sights();
        let Some(seen) = chance.pick(&sights) else { return self.on_some_document(Verb::Look, chance) };
        let (room, document) = seen.key.split_once('/').unwrap_or_default();
        Request { token: seen.token, ..Request::on(Verb::Verify, &room.into(), &document.into()) }
    }

    /// Locks, extends or unlocks some of the documents that are used so.
    pub(super) fn several(&self, chance: &mut Chance) -> Request {
        let mut documents: Vec<Name> = (0..MANY).map(|index| format!("part-{index}").into()).collect();
        chance.shuffle(&mut documents);
        documents.truncate(1 + chance.below(4));
        let verb = [Verb::Lock, Verb::Heartbeat, Verb::Unlock][chance.weighted(&[45, 25, 30])];
        Request {
            verb,
            room: self.world.many.clone(),
            documents,
            many: true,
            session: Some(format!("tab-{}", chance.below(2)).into()),
            id: self.request_id(chance),
            tag: (verb == Verb::Lock).then(|| self.tag()),
            ttl_seconds: (verb != Verb::Unlock).then(|| u32::try_from(chance.between(1, 5)).unwrap_or(1)),
            ..Request::default()
        }
    }
}
