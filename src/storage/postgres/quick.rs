//! The short cut for plain heartbeats and unlocks, nine of ten requests in real life: only the lock's row is locked.

use std::collections::HashSet;

use crate::locking::{Command, DocumentKey};

/// Documents of which only the locks are locked: a plain heartbeat or unlock is alone on them in its batch.
pub(super) type Quick<'c> = HashSet<&'c DocumentKey>;

pub(super) fn documents<'c>(commands: &[&'c Command]) -> Quick<'c> {
    let (mut quick, mut others) = (Quick::new(), HashSet::new());
    for command in commands {
        for key in command.keys() {
            if !is_plain(command) || !quick.insert(key) {
                others.insert(key);
            }
        }
    }
    quick.retain(|key| !others.contains(key));
    quick
}

fn is_plain(command: &Command) -> bool {
    match command {
        Command::Extend(_) | Command::Unlock(_) => {
            !command.needs_documents() && command.memo_key().is_none() && command.keys().count() == 1
        }
        Command::Lock(_) | Command::Release(_) | Command::ForceUnlock(_) | Command::Expire(_) => false,
    }
}

pub(super) fn is_quick(command: &Command, quick: &Quick<'_>) -> bool {
    command.keys().any(|key| quick.contains(key))
}
