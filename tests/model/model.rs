//! What a document should be like, written without looking at the rules' code.

use std::collections::HashMap;

use doclock::locking::{Done, Outcome};
use uuid::Uuid;

use crate::history::Act;

#[derive(Debug, Default)]
pub struct Model {
    tokens: HashMap<u8, i64>,
    pub live: HashMap<u8, Vec<Held>>,
}

#[derive(Debug, Clone)]
pub struct Held {
    lease: Uuid,
    owner: u8,
    session: Option<u8>,
    pub token: i64,
    until: i64,
    capacity: u32,
}

impl Model {
    /// Takes what was answered and says what is wrong with it.
    pub fn check(&mut self, act: &Act, outcome: &Outcome, now: i64) -> Result<(), String> {
        for held in self.live.values_mut() {
            held.retain(|held| now < held.until);
        }
        match act {
            Act::Lock { documents, owner, session, capacity, request, .. } => {
                if outcome.done.is_empty() {
                    return self.check_refusal(documents, *owner, *session, *capacity, request.is_some());
                }
                for (document, done) in documents.iter().zip(&outcome.done) {
                    self.check_lock(*document, *owner, *session, done, request.is_some())?;
                }
            }
            Act::Extend { document, owner, .. } => {
                for done in &outcome.done {
                    let Done::Live { lock, .. } = done else { return Err("an extend ended a lock".into()) };
                    let held =
                        self.own(*document, *owner, lock.lease_id).ok_or("LS-INV-003: extended what is not held")?;
                    held.until = lock.expires_at.millis();
                }
            }
            Act::Unlock { document, owner, request, .. } => {
                for done in &outcome.done {
                    let Done::Ended { fencing_token, .. } = done else { return Err("an unlock left a lock".into()) };
                    let held = self.live.entry(*document).or_default();
                    let before = held.len();
                    held.retain(|held| !(held.owner == *owner && held.token == *fencing_token));
                    // A repeated request tells of a lock that it ended before.
                    if held.len() == before && request.is_none() {
                        return Err("LS-INV-003: unlocked what is not held".into());
                    }
                }
            }
            Act::Release { document, owner, .. } => {
                for done in &outcome.done {
                    match done {
                        Done::Live { lock, .. } => {
                            let held = self.own(*document, *owner, lock.lease_id).ok_or("lingers without a lock")?;
                            held.until = lock.expires_at.millis();
                        }
                        Done::Ended { fencing_token, .. } => self.end(*document, *fencing_token),
                    }
                }
            }
            Act::Force { document, .. } => {
                for done in &outcome.done {
                    if let Done::Ended { fencing_token, .. } = done {
                        self.end(*document, *fencing_token);
                    }
                }
            }
            Act::Expire => {}
        }
        Ok(())
    }

    fn own(&mut self, document: u8, owner: u8, lease: Uuid) -> Option<&mut Held> {
        self.live.entry(document).or_default().iter_mut().find(|held| held.lease == lease && held.owner == owner)
    }

    fn end(&mut self, document: u8, token: i64) {
        self.live.entry(document).or_default().retain(|held| held.token != token);
    }

    fn check_lock(
        &mut self,
        document: u8,
        owner: u8,
        session: Option<u8>,
        done: &Done,
        may_repeat: bool,
    ) -> Result<(), String> {
        let Done::Live { lock, .. } = done else { return Err("a lock ended itself".into()) };
        let until = lock.expires_at.millis();
        let capacity = lock.slot + 1;
        let held = self.live.entry(document).or_default();
        if let Some(known) = held.iter_mut().find(|held| held.lease == lock.lease_id) {
            let resumes = known.owner == owner && known.session == session && session.is_some();
            known.until = until;
            return if resumes || may_repeat { Ok(()) } else { Err("LS-ACQ-001: granted a lease again".into()) };
        }
        let token = self.tokens.entry(document).or_default();
        *token += 1;
        if lock.fencing_token != *token {
            return Err(format!("LS-INV-002: token {} instead of {token}", lock.fencing_token));
        }
        // A new grant in a slot that is taken has taken it over.
        held.retain(|held| held.capacity != capacity);
        held.push(Held { lease: lock.lease_id, owner, session, token: *token, until, capacity });
        Ok(())
    }

    /// LS-ACQ-002: with nothing live, only a repeated request may be refused.
    fn check_refusal(
        &self,
        documents: &[u8],
        owner: u8,
        session: Option<u8>,
        capacity: Option<u32>,
        may_repeat: bool,
    ) -> Result<(), String> {
        let is_free = |document: &u8| self.live.get(document).is_none_or(Vec::is_empty);
        let is_own = |document: &u8| {
            let held = self.live.get(document).map(Vec::as_slice).unwrap_or_default();
            session.is_some() && held.iter().any(|held| held.owner == owner && held.session == session)
        };
        let refuses_nobody =
            documents.iter().all(|document| is_free(document) || (is_own(document) && capacity.is_none()));
        if refuses_nobody && !may_repeat {
            return Err("LS-ACQ-002: an overdue or free document refused".into());
        }
        Ok(())
    }
}
