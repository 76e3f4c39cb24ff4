use std::time::Duration;

use super::{PresenceChange::*, *};
use crate::time::clock::ManualClock;

struct House {
    clock: ManualClock,
    presence: Presence,
}

fn owner(name: &str) -> OwnerId {
    OwnerId::from_stored(name)
}

fn room() -> RoomKey {
    (TenantId::default_tenant(), RoomId::from_stored("room"))
}

fn sighting(name: &str, is_here: bool) -> Sighting {
    Sighting { room: room(), participant: Participant { owner_id: owner(name), name: None }, is_here }
}

impl House {
    fn new() -> Self {
        let clock = ManualClock::starting_at(Timestamp::from_millis(0));
        let presence = Presence::new(Clock::manual(clock.clone()), true);
        Self { clock, presence }
    }

    fn arrive(&mut self, name: &str) -> Participants {
        self.presence.arrive(&room(), &owner(name), None)
    }

    fn depart(&mut self, name: &str) {
        self.presence.depart(&room(), &owner(name));
    }

    fn pass(&mut self, millis: u64) {
        self.clock.advance(Duration::from_millis(millis));
        self.presence.let_go();
    }

    fn news(&mut self) -> Vec<(PresenceChange, String)> {
        let news = self.presence.take_news();
        news.into_iter().map(|news| (news.change, news.participant.owner_id.to_string())).collect()
    }

    fn untold(&mut self) -> Vec<(String, bool)> {
        let untold = self.presence.take_untold();
        let mut told: Vec<_> =
            untold.into_iter().map(|told| (told.participant.owner_id.to_string(), told.is_here)).collect();
        told.sort();
        told
    }
}

fn names(list: &Participants) -> Vec<&str> {
    list.iter().map(|person| person.owner_id.as_str()).collect()
}

#[test]
fn an_owner_joins_with_its_first_socket_and_leaves_two_seconds_after_its_last() {
    let mut house = House::new();
    assert_eq!(names(&house.arrive("bob")), ["bob"]);
    assert_eq!(names(&house.arrive("alice")), ["alice", "bob"]);
    house.arrive("bob");
    assert_eq!(house.news(), [(Joined, "bob".into()), (Joined, "alice".into())]);
    house.depart("bob");
    house.pass(5000);
    house.depart("bob");
    house.pass(1999);
    assert_eq!(house.news(), []);
    house.pass(1);
    assert_eq!(house.news(), [(Left, "bob".into())]);
    assert_eq!(names(&house.arrive("alice")), ["alice"]);
}

#[test]
fn who_comes_back_in_time_has_not_left_and_gets_two_seconds_again() {
    let mut house = House::new();
    house.arrive("alice");
    house.news();
    house.depart("alice");
    house.pass(1000);
    house.arrive("alice");
    house.depart("alice");
    house.pass(1500);
    assert_eq!(house.news(), []);
    house.pass(500);
    assert_eq!(house.news(), [(Left, "alice".into())]);
    assert!(house.presence.rooms.is_empty() && house.presence.leaving.is_empty());
}

#[test]
fn of_ten_thousand_who_come_and_go_some_hundreds_are_told() {
    let mut house = House::new();
    let name = |index: usize| format!("{index:05}");
    for index in 0..10_000 {
        house.arrive(&name(index));
    }
    assert_eq!(house.news().len(), LISTED);
    assert_eq!(house.arrive(&name(0)).len(), LISTED);
    // The first fifty were listed, these were not.
    for index in (0..50).chain(200..300) {
        house.depart(&name(index));
    }
    house.depart(&name(0));
    house.pass(2000);
    assert_eq!(house.news().len(), 50);
    assert_eq!(house.arrive("late").len(), 50);
    for index in (50..200).chain(300..9_900) {
        house.depart(&name(index));
    }
    house.depart("late");
    house.pass(2000);
    let (joined, left): (Vec<_>, Vec<_>) = house.news().into_iter().partition(|(change, _)| *change == Joined);
    assert_eq!((joined.len(), left.len()), (100, 50));
    assert_eq!(house.arrive(&name(9_999)).len(), 100);
}

#[test]
fn what_is_told_always_adds_up_to_the_list() {
    let mut house = House::new();
    let mut told = std::collections::BTreeSet::new();
    let mut random = 1_u64;
    let mut here = Vec::new();
    for turn in 0..5000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let grows = (turn / 300) % 2 == 0;
        let name = format!("{}", (random >> 33) % 250);
        if grows {
            house.arrive(&name);
            here.push(name);
        } else if !here.is_empty() {
            let place = usize::try_from(random >> 33).unwrap() % here.len();
            house.depart(&here.swap_remove(place));
        }
        house.pass(100);
        for (change, name) in house.news() {
            let is_new = if change == Joined { told.insert(name) } else { told.remove(&name) };
            assert!(is_new, "nobody is told twice");
        }
        assert_eq!(names(&house.presence.list(&room())), told.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

#[test]
fn a_newcomer_is_told_what_has_changed_since_its_list() {
    let mut house = House::new();
    house.arrive("alice");
    let told = house.arrive("bob");
    assert_eq!(house.presence.changes_since(&told, &room()), []);
    house.depart("alice");
    house.arrive("carol");
    house.pass(2000);
    let person = |name: &str| Participant { owner_id: owner(name), name: None };
    let changes = house.presence.changes_since(&told, &room());
    assert_eq!(changes, [(Left, person("alice")), (Joined, person("carol"))]);
}

#[test]
fn other_servers_are_told_of_those_who_are_here_and_nothing_twice() {
    let mut house = House::new();
    house.arrive("alice");
    house.arrive("alice");
    house.arrive("bob");
    assert_eq!(house.untold(), [("alice".into(), true), ("bob".into(), true)]);
    assert_eq!(house.untold(), []);
    house.depart("alice");
    house.depart("bob");
    house.presence.heard(Elsewhere::Changed { server: Uuid::nil(), sightings: vec![sighting("carol", true)] });
    assert_eq!(house.untold(), [("bob".into(), false)]);
    assert_eq!(house.presence.take_everyone().len(), 1);
}

#[test]
fn people_elsewhere_leave_with_their_last_server() {
    let mut house = House::new();
    let [first, second] = [1, 2].map(Uuid::from_u128);
    house.arrive("alice");
    for server in [first, second] {
        let sightings = vec![sighting("alice", true), sighting("bob", true)];
        house.presence.heard(Elsewhere::Changed { server, sightings });
    }
    assert_eq!(house.news(), [(Joined, "alice".into()), (Joined, "bob".into())]);
    house.presence.heard(Elsewhere::Gone { server: first });
    let sightings = vec![sighting("bob", false), sighting("nobody", false)];
    house.presence.heard(Elsewhere::Changed { server: second, sightings });
    house.pass(2000);
    assert_eq!(house.news(), [(Left, "bob".into())]);
    house.depart("alice");
    house.pass(2000);
    assert_eq!(house.news(), []);
    // It is called by another name from now on: nobody flickers.
    let sightings = vec![sighting("alice", true)];
    house.presence.heard(Elsewhere::Everyone { server: first, sightings });
    house.presence.heard(Elsewhere::Gone { server: second });
    house.presence.heard(Elsewhere::Everyone { server: first, sightings: Vec::new() });
    house.pass(2000);
    assert_eq!(house.news(), [(Left, "alice".into())]);
    assert!(house.presence.rooms.is_empty());
}
