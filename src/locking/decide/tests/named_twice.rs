//! Commands that name a document or a lease several times, on documents with overdue locks.

use std::collections::BTreeMap;

use proptest::{collection::vec, prelude::*};

use super::{decide_now, granted};
use crate::locking::{
    Change, Command, DocumentKey, Expire, Extend, ForceUnlock, LockDocuments, State, Unlock,
    testing::{
        StateBuilder,
        commands::{extend, force_unlock, lock, unlock, wanted},
        samples::{NOW, key, lease},
        state,
    },
};

fn keys(documents: &[u8]) -> Vec<DocumentKey> {
    documents.iter().copied().map(key).collect()
}

fn name() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("alice"), Just("bob")]
}

/// A command of any kind, and the documents it names.
fn command() -> impl Strategy<Value = (Vec<u8>, Command)> {
    let by = |make: fn(&[u8], &str) -> Command| {
        (vec(0..4_u8, 1..8), name()).prop_map(move |(documents, name)| (documents.clone(), make(&documents, name)))
    };
    prop_oneof![
        by(|documents, name| {
            let wanted = documents.iter().copied().map(wanted).collect();
            LockDocuments { wanted, ..lock(name) }.into()
        }),
        by(|documents, name| Extend { keys: keys(documents), ..extend(name) }.into()),
        by(|documents, name| Unlock { keys: keys(documents), ..unlock(name) }.into()),
        by(|documents, _| {
            let leases = documents.iter().flat_map(|document| (1..12).map(|number| (key(*document), lease(number))));
            ForceUnlock { targets: leases.collect(), ..force_unlock(1) }.into()
        }),
        by(|documents, _| Expire { keys: keys(documents) }.into()),
    ]
}

/// Up to three locks on each document, some of them overdue.
fn some_locks() -> impl Strategy<Value = State> {
    let one = (0..4_u8, 0..3_u32, name(), prop_oneof![Just(-5_i64), Just(5000)]);
    vec(one, 0..10).prop_map(|locks| {
        let by_slot: BTreeMap<_, _> =
            locks.into_iter().map(|(document, slot, name, left_ms)| ((document, slot), (name, left_ms))).collect();
        let build = |built: StateBuilder, ((document, slot), (name, left_ms))| {
            built.document(document).held_by(name).slot(slot).left_ms(left_ms).capacity(4)
        };
        by_slot.into_iter().fold(state(), build).build()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ls_exp_001_whatever_a_command_names_each_lock_ends_and_begins_at_most_once(
        before in some_locks(),
        (documents, command) in command(),
    ) {
        let decision = decide_now(&before, command);
        let ended: Vec<_> = decision.changes.iter().filter_map(|change| match change {
            Change::End { lock, .. } => Some(lock.lease_id),
            _ => None,
        }).collect();
        let mut once = ended.clone();
        once.sort_unstable();
        once.dedup();
        prop_assert_eq!(once.len(), ended.len(), "a lock ended twice");
        for lock in documents.iter().flat_map(|document| before.locks_of(&key(*document))) {
            prop_assert!(lock.is_live(NOW) || ended.contains(&lock.lease_id), "an overdue lock was met and left");
        }
        prop_assert_eq!(decision.events.len(), ended.len() + granted(&decision).len());
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
