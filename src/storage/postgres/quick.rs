//! The short cut for plain heartbeats and unlocks, nine of ten requests in real life, and for the server's own renewals: only
//! the lock's row is locked.

use std::collections::{HashMap, HashSet};

use crate::locking::{Change, Command, Decision, DocumentKey, Needs, ShortCut};

/// Documents of which only the locks are locked: the command that names them may take the short cut, and is alone on them
/// in its batch.
pub(super) type Quick<'c> = HashSet<&'c DocumentKey>;

pub(super) fn documents<'c>(commands: &[&'c Command]) -> Quick<'c> {
    let needs: Vec<_> = commands.iter().map(|command| command.needs()).collect();
    let mut counts: HashMap<&DocumentKey, usize> = HashMap::new();
    for key in needs.iter().flat_map(|needs| &needs.keys) {
        *counts.entry(*key).or_default() += 1;
    }
    let is_alone = |needs: &&Needs<'_>| needs.keys.iter().all(|key| counts.get(key) == Some(&1));
    let quick = needs.iter().filter(|needs| needs.short_cut != ShortCut::No).filter(is_alone);
    quick.flat_map(|needs| needs.keys.iter().copied()).collect()
}

/// Whether what was decided by the locks alone may be written. A refusal may be old news: a statement that waited for a
/// lock's row cannot see the row that has taken its place. And where somebody wants a lock (`is_wanted`), none must end, nor
/// a holder be answered, without a look at the line and the asks.
pub(super) fn accepts(needs: &Needs<'_>, is_wanted: bool, decision: &Decision, quick: &Quick<'_>) -> bool {
    if !needs.keys.iter().any(|key| quick.contains(key)) {
        return true;
    }
    let ends_wanted = |change: &Change| matches!(change, Change::End { lock, .. } if lock.is_wanted);
    match needs.short_cut {
        ShortCut::No => true,
        ShortCut::Plain => decision.outcome.failed.is_empty() && !is_wanted,
        ShortCut::Always => !decision.changes.iter().any(ends_wanted),
    }
}
