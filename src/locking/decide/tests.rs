//! Decisions on states made by hand.

use proptest::{collection::vec, prelude::*};
use uuid::Uuid;

use super::{super::*, decide};
use crate::locking::names::{DocumentId, OwnerId, RequestId, RoomId, TenantId};

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn key(document: u8) -> DocumentKey {
    DocumentKey {
        tenant: TenantId::default_tenant(),
        room: RoomId::parse("room").unwrap(),
        document: DocumentId::parse(&format!("d{document}")).unwrap(),
    }
}

fn owner(name: &str) -> OwnerId {
    OwnerId::parse(name).unwrap()
}

fn lease(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

/// Held by `name`, for as many milliseconds; overdue if there are none left.
fn lock(document: u8, slot: u32, name: &str, left_ms: i64) -> Lock {
    let expires_at = NOW.plus_millis(left_ms);
    Lock {
        key: key(document),
        slot,
        lease_id: lease(u128::from(document) * 100 + u128::from(slot) + 1),
        hold: 1,
        fencing_token: i64::from(slot) + 1,
        holder: Holder { owner: owner(name), session: None, name: None },
        acquired_at: NOW.plus_millis(-60_000),
        expires_at,
        due_at: expires_at,
        ttl_seconds: 30,
        metadata: None,
        document_version: None,
        linger_ms: None,
        extend_ids: Vec::new(),
    }
}

/// Documents 0 to 3 with these locks.
fn state(locks: Vec<Lock>) -> State {
    let mut state = State::default();
    for document in 0..4 {
        let of_document = locks.iter().filter(|lock| lock.key == key(document));
        let fencing_token = of_document.map(|lock| lock.fencing_token).max().unwrap_or_default();
        state.documents.insert(key(document), DocumentRow { fencing_token, capacity: 4, version: None });
    }
    state.add_locks(locks);
    state
}

fn lock_command(documents: &[u8], name: &str, request: Option<Request>) -> Command {
    let wanted =
        |(index, document): (usize, &u8)| Wanted { key: key(*document), lease_id: lease(1000 + index as u128) };
    Command::Lock(LockDocuments {
        tenant: TenantId::default_tenant(),
        wanted: documents.iter().enumerate().map(wanted).collect(),
        holder: Holder { owner: owner(name), session: None, name: None },
        ttl_seconds: None,
        takeover: None,
        capacity: None,
        metadata: None,
        document_version: None,
        request,
    })
}

fn request() -> Request {
    Request { id: RequestId::parse("r").unwrap(), fingerprint: Fingerprint([7; 16]) }
}

#[test]
fn nothing_is_granted_on_a_document_that_was_not_read() {
    let mut state = state(vec![lock(1, 0, "alice", 5000)]);
    state.documents.remove(&key(1));
    assert_eq!(decide(&state, &lock_command(&[0, 1], "bob", None), NOW), Err(NotRead(key(1))));
}

#[test]
fn a_repeated_lock_whose_end_is_not_in_the_log_any_more_is_a_mismatch() {
    let mut state = state(Vec::new());
    let memo = Memo {
        fingerprint: request().fingerprint,
        created_at: NOW.plus_millis(-1000),
        locks: vec![MemoLock { lease_id: lease(5), fencing_token: 1, resumed: false }],
    };
    state.memos.insert(request().memo_key(&TenantId::default_tenant(), &owner("alice")), memo);
    let decision = decide(&state, &lock_command(&[0], "alice", Some(request())), NOW).unwrap();
    assert_eq!(decision.outcome.single(), Err(Refusal::Mismatch));
    assert_eq!((decision.changes, decision.events), (vec![], vec![]));
}

/// A command of any kind on documents and leases that may be named several times.
fn command() -> impl Strategy<Value = Command> {
    let documents = || vec(0..4_u8, 1..8);
    let keys = |documents: Vec<u8>| documents.into_iter().map(key).collect::<Vec<_>>();
    let name = || prop_oneof![Just("alice"), Just("bob")];
    prop_oneof![
        (documents(), name()).prop_map(|(documents, name)| lock_command(&documents, name, None)),
        (documents(), name()).prop_map(move |(documents, name)| Command::Extend(Extend {
            tenant: TenantId::default_tenant(),
            keys: keys(documents),
            owner: owner(name),
            named: Named::default(),
            ttl_seconds: None,
            metadata: None,
            request: None,
        })),
        (documents(), name()).prop_map(move |(documents, name)| Command::Unlock(Unlock {
            tenant: TenantId::default_tenant(),
            keys: keys(documents),
            owner: owner(name),
            named: Named::default(),
            document_version: None,
            request: None,
        })),
        vec((0..4_u8, 0..3_u32), 1..12).prop_map(|targets| Command::ForceUnlock(ForceUnlock {
            targets: targets
                .into_iter()
                .map(|(document, slot)| (key(document), lock(document, slot, "any", 0).lease_id))
                .collect(),
            by: owner("root"),
            note: None,
        })),
        documents().prop_map(move |documents| Command::Expire(Expire { keys: keys(documents) })),
    ]
}

fn locks() -> impl Strategy<Value = Vec<Lock>> {
    let one = (0..4_u8, 0..3_u32, prop_oneof![Just("alice"), Just("bob")], prop_oneof![Just(-5_i64), Just(5000)]);
    vec(one, 0..10).prop_map(|locks| {
        let mut distinct = std::collections::BTreeMap::new();
        for (document, slot, name, left_ms) in locks {
            distinct.insert((document, slot), lock(document, slot, name, left_ms));
        }
        distinct.into_values().collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ls_exp_001_whatever_a_command_names_each_lock_ends_and_begins_at_most_once(
        locks in locks(),
        command in command(),
    ) {
        let before = state(locks.clone());
        let decision = decide(&before, &command, NOW).unwrap();
        let ended: Vec<_> = decision.changes.iter().filter_map(|change| match change {
            Change::End { lock, .. } => Some(lock.lease_id),
            _ => None,
        }).collect();
        let mut once = ended.clone();
        once.sort_unstable();
        once.dedup();
        prop_assert_eq!(once.len(), ended.len(), "a lock ended twice");
        let named = command.needs().keys;
        for lock in locks.iter().filter(|lock| !lock.is_live(NOW) && named.contains(&&lock.key)) {
            prop_assert!(ended.contains(&lock.lease_id), "an overdue lock was met and left");
        }
        let grants = decision.changes.iter().filter(|change| matches!(change, Change::Grant(_))).count();
        prop_assert_eq!(decision.events.len(), ended.len() + grants);
        let mut after = before;
        decision.changes.iter().for_each(|change| after.apply(change));
        for locks in after.locks.values() {
            let mut slots: Vec<_> = locks.iter().map(|lock| lock.slot).collect();
            slots.sort_unstable();
            slots.dedup();
            prop_assert_eq!(slots.len(), locks.len(), "a slot was given twice");
        }
    }
}
