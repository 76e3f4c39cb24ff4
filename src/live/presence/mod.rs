//! Who is in which room.
//!
//! 1. A participant is an owner in a room, however many sockets and streams it has there, on whichever servers.
//! 2. It joins with the first of them. When the last one is gone it has two seconds to come back before it has left, so
//!    that a page that is loaded again does not flicker.
//! 3. A room lists up to [`LISTED`] people, and tells of the coming and going of those it lists. A newcomer to a fuller
//!    room is not listed; a person who is listed stays so until it leaves; and when at most [`LISTED`] are left, all of
//!    them are listed. So the notices add up to the list, and even if ten thousand leave a room at once, only some
//!    hundreds of notices are sent.
//! 4. Servers tell each other whom they list ([`Exchange`]). What that means for a room is decided here.
//!
//! Owned by the publisher. Nothing is kept of a room that nobody is in.

mod exchange;
mod guard;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    mem,
    sync::Arc,
};

use serde::Serialize;
use uuid::Uuid;

use crate::{
    locking::{
        DocumentKey, Timestamp,
        names::{OwnerId, RoomId, TenantId},
    },
    storage::soft_state::ActivitySaid,
    time::clock::Clock,
};

pub use exchange::{Exchange, ExchangeHandle};
pub use guard::{PresenceGuard, SightingsWanted};

/// The largest room whose people are listed.
pub const LISTED: usize = 100;
const GRACE_MS: i64 = 2000;

pub type RoomKey = (TenantId, RoomId);

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Participant {
    pub owner_id: OwnerId,
    /// The name its token gave when it came.
    pub name: Option<Arc<str>>,
}

/// The participants listed in a room, in order of their ids. The `Arc` is the same one until the list changes.
pub type Participants = Arc<[Participant]>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PresenceChange {
    Joined,
    Left,
}

/// A change that a room has to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    pub room: RoomKey,
    pub change: PresenceChange,
    pub participant: Participant,
}

/// What one server says of one person in one room: whether it has a socket or stream there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    pub room: RoomKey,
    pub participant: Participant,
    pub is_here: bool,
}

/// What another server says of its people.
#[derive(Debug)]
pub enum Elsewhere {
    /// The people about whom something has changed since the last time.
    Changed {
        server: Uuid,
        sightings: Vec<Sighting>,
    },
    /// Everyone who is there: whoever is not named has gone.
    Everyone {
        server: Uuid,
        sightings: Vec<Sighting>,
    },
    Gone {
        server: Uuid,
    },
}

#[derive(Debug)]
pub struct Presence {
    clock: Clock,
    rooms: HashMap<RoomKey, Room>,
    /// The people who have two seconds to come back, with the moment at which these are over; earliest first. The entry
    /// of somebody who came back stays until then, and does nothing.
    leaving: VecDeque<(Timestamp, RoomKey, OwnerId)>,
    news: Vec<News>,
    /// The people whom other servers have to be told about; `None` if no other server uses the database.
    untold: Option<HashSet<(RoomKey, OwnerId)>>,
    elsewhere: HashMap<Uuid, HashSet<(RoomKey, OwnerId)>>,
    /// What holders have said of themselves that other servers have to be told: the last of each lock.
    untold_activity: HashMap<DocumentKey, ActivitySaid>,
}

#[derive(Debug, Default)]
struct Room {
    people: BTreeMap<OwnerId, Person>,
    listed: usize,
    /// `None` if it has changed since it was last asked for.
    list: Option<Participants>,
}

#[derive(Debug, Default)]
struct Person {
    name: Option<Arc<str>>,
    /// How many sockets and streams it has on this server.
    sockets: usize,
    /// On how many other servers it has any.
    servers: usize,
    leaves_at: Option<Timestamp>,
    is_listed: bool,
}

impl Presence {
    /// `is_shared`: whether other servers use the database. Only then is anything noted for them.
    pub fn new(clock: Clock, is_shared: bool) -> Self {
        Self {
            clock,
            rooms: HashMap::new(),
            leaving: VecDeque::new(),
            news: Vec::new(),
            untold: is_shared.then(HashSet::new),
            elsewhere: HashMap::new(),
            untold_activity: HashMap::new(),
        }
    }

    /// Counts one more socket or stream. Returns who is listed in the room, which may leave out the newcomer.
    pub fn arrive(&mut self, room: &RoomKey, owner: &OwnerId, name: Option<&Arc<str>>) -> Participants {
        let person = self.enter(room, owner, name);
        person.sockets += 1;
        if person.sockets == 1 && person.is_listed {
            self.note(room, owner);
        }
        self.list(room)
    }

    /// Counts one socket or stream less.
    pub fn depart(&mut self, room: &RoomKey, owner: &OwnerId) {
        let Some(person) = self.person(room, owner) else { return };
        person.sockets = person.sockets.saturating_sub(1);
        if person.sockets == 0 && person.is_listed {
            self.note(room, owner);
        }
        self.go_if_nowhere(room, owner);
    }

    /// Returns what has changed since the list that a subscriber was told.
    pub fn changes_since(&mut self, told: &Participants, room: &RoomKey) -> Vec<(PresenceChange, Participant)> {
        let now = self.list(room);
        if Arc::ptr_eq(&now, told) {
            return Vec::new();
        }
        let missing = |from: &Participants, in_: &Participants, change| -> Vec<_> {
            let is_missing =
                |person: &&Participant| in_.binary_search_by(|other| other.owner_id.cmp(&person.owner_id)).is_err();
            from.iter().filter(is_missing).map(|person| (change, person.clone())).collect()
        };
        let mut changes = missing(told, &now, PresenceChange::Left);
        changes.extend(missing(&now, told, PresenceChange::Joined));
        changes
    }

    /// Returns when [`Presence::let_go`] has something to do.
    pub fn next_to_go(&self) -> Option<Timestamp> {
        self.leaving.front().map(|(at, ..)| *at)
    }

    /// Removes the people whose time to come back is over.
    pub fn let_go(&mut self) {
        let now = self.clock.now();
        while self.next_to_go().is_some_and(|at| at <= now) {
            if let Some((at, room, owner)) = self.leaving.pop_front()
                && self.person(&room, &owner).is_some_and(|person| person.leaves_at == Some(at))
            {
                self.leave(&room, &owner);
            }
        }
    }

    /// Notes what holders have said, for other servers.
    pub fn note_activity(&mut self, said: Vec<ActivitySaid>) {
        if self.untold.is_some() {
            self.untold_activity.extend(said.into_iter().map(|said| (said.key.clone(), said)));
        }
    }

    pub fn take_untold_activity(&mut self) -> Vec<ActivitySaid> {
        mem::take(&mut self.untold_activity).into_values().collect()
    }

    /// Returns what rooms have to be told since the last time.
    pub fn take_news(&mut self) -> Vec<News> {
        mem::take(&mut self.news)
    }

    /// Returns what other servers have to be told since the last time.
    pub fn take_untold(&mut self) -> Vec<Sighting> {
        let untold = self.untold.as_mut().map(mem::take).unwrap_or_default();
        let sighting = |(room, owner_id): (RoomKey, OwnerId)| {
            let person = self.rooms.get(&room).and_then(|found| found.people.get(&owner_id));
            let is_here = person.is_some_and(Person::is_told_elsewhere);
            let name = person.and_then(|person| person.name.clone());
            Sighting { room, participant: Participant { owner_id, name }, is_here }
        };
        untold.into_iter().map(sighting).collect()
    }

    /// Returns everyone whom other servers should know of. After that nothing is left to be told.
    pub fn take_everyone(&mut self) -> Vec<Sighting> {
        if let Some(untold) = &mut self.untold {
            untold.clear();
        }
        let of_room = |(key, room): (&RoomKey, &Room)| {
            let told = room.people.iter().filter(|(_, person)| person.is_told_elsewhere());
            let sighting = |(owner, person): (&OwnerId, &Person)| Sighting {
                room: key.clone(),
                participant: person.shown(owner),
                is_here: true,
            };
            told.map(sighting).collect::<Vec<_>>()
        };
        self.rooms.iter().flat_map(of_room).collect()
    }

    pub fn heard(&mut self, said: Elsewhere) {
        match said {
            Elsewhere::Changed { server, sightings } => self.sighted(server, sightings),
            Elsewhere::Everyone { server, sightings } => {
                let before = self.elsewhere.remove(&server).unwrap_or_default();
                // Arrivals come before departures, so that nobody who is still there seems to leave.
                self.sighted(server, sightings);
                self.lost(before);
            }
            Elsewhere::Gone { server } => {
                let before = self.elsewhere.remove(&server).unwrap_or_default();
                self.lost(before);
            }
        }
    }

    fn sighted(&mut self, server: Uuid, sightings: Vec<Sighting>) {
        for Sighting { room, participant, is_here } in sightings {
            let there = self.elsewhere.entry(server).or_default();
            let who = (room, participant.owner_id);
            if is_here && there.insert(who.clone()) {
                self.enter(&who.0, &who.1, participant.name.as_ref()).servers += 1;
            } else if !is_here && there.remove(&who) {
                self.lost([who]);
            }
        }
    }

    fn lost(&mut self, people: impl IntoIterator<Item = (RoomKey, OwnerId)>) {
        for (room, owner) in people {
            if let Some(person) = self.person(&room, &owner) {
                person.servers = person.servers.saturating_sub(1);
            }
            self.go_if_nowhere(&room, &owner);
        }
    }

    /// Returns the person, and adds it to the room if it is not there yet.
    fn enter(&mut self, key: &RoomKey, owner: &OwnerId, name: Option<&Arc<str>>) -> &mut Person {
        let room = self.rooms.entry(key.clone()).or_default();
        if !room.people.contains_key(owner) {
            let is_listed = room.people.len() < LISTED;
            let person = Person { name: name.cloned(), is_listed, ..Person::default() };
            if is_listed {
                room.listed += 1;
                room.list = None;
                self.news.push(News {
                    room: key.clone(),
                    change: PresenceChange::Joined,
                    participant: person.shown(owner),
                });
            }
            room.people.insert(owner.clone(), person);
        }
        let person = room.people.entry(owner.clone()).or_default();
        person.leaves_at = None;
        person
    }

    fn go_if_nowhere(&mut self, room: &RoomKey, owner: &OwnerId) {
        let leaves_at = self.clock.now().plus_millis(GRACE_MS);
        let Some(person) = self.person(room, owner) else { return };
        if person.sockets == 0 && person.servers == 0 && person.leaves_at.is_none() {
            person.leaves_at = Some(leaves_at);
            self.leaving.push_back((leaves_at, room.clone(), owner.clone()));
        }
    }

    fn leave(&mut self, key: &RoomKey, owner: &OwnerId) {
        let Some(room) = self.rooms.get_mut(key) else { return };
        let Some(person) = room.people.remove(owner) else { return };
        if room.people.is_empty() {
            self.rooms.remove(key);
        } else if person.is_listed {
            room.listed -= 1;
            room.list = None;
        }
        if person.is_listed {
            self.news.push(News { room: key.clone(), change: PresenceChange::Left, participant: person.shown(owner) });
        }
        self.list_the_rest(key);
    }

    /// Lists everyone, if they are few enough again.
    fn list_the_rest(&mut self, key: &RoomKey) {
        let Some(room) = self.rooms.get_mut(key) else { return };
        if room.people.len() > LISTED || room.listed == room.people.len() {
            return;
        }
        room.listed = room.people.len();
        room.list = None;
        for (owner, person) in room.people.iter_mut().filter(|(_, person)| !person.is_listed) {
            person.is_listed = true;
            self.news.push(News {
                room: key.clone(),
                change: PresenceChange::Joined,
                participant: person.shown(owner),
            });
            if let Some(untold) = self.untold.as_mut().filter(|_| person.sockets > 0) {
                untold.insert((key.clone(), owner.clone()));
            }
        }
    }

    fn list(&mut self, room: &RoomKey) -> Participants {
        let Some(room) = self.rooms.get_mut(room) else { return Participants::default() };
        let people = &room.people;
        let listed = || people.iter().filter(|(_, person)| person.is_listed);
        let list = room.list.get_or_insert_with(|| listed().map(|(owner, person)| person.shown(owner)).collect());
        Arc::clone(list)
    }

    fn note(&mut self, room: &RoomKey, owner: &OwnerId) {
        if let Some(untold) = &mut self.untold {
            untold.insert((room.clone(), owner.clone()));
        }
    }

    fn person(&mut self, room: &RoomKey, owner: &OwnerId) -> Option<&mut Person> {
        self.rooms.get_mut(room)?.people.get_mut(owner)
    }
}

impl Person {
    fn shown(&self, owner: &OwnerId) -> Participant {
        Participant { owner_id: owner.clone(), name: self.name.clone() }
    }

    fn is_told_elsewhere(&self) -> bool {
        self.sockets > 0 && self.is_listed
    }
}
