//! The short cut for plain heartbeats and unlocks, nine of ten requests in real life: only the lock's row is locked.

use std::collections::HashSet;

use crate::locking::{Command, DocumentKey};

/// Documents of which only the locks are locked: a plain heartbeat or unlock is alone on them in its batch.
pub(super) type Quick<'c> = HashSet<&'c DocumentKey>;

pub(super) fn documents<'c>(commands: &[&'c Command]) -> Quick<'c> {
    let (mut quick, mut others) = (Quick::new(), HashSet::new());
    for command in commands {
        let needs = command.needs();
        for key in needs.keys {
            if !needs.is_plain || !quick.insert(key) {
                others.insert(key);
            }
        }
    }
    quick.retain(|key| !others.contains(key));
    quick
}

pub(super) fn is_quick(command: &Command, quick: &Quick<'_>) -> bool {
    command.needs().keys.into_iter().any(|key| quick.contains(key))
}
