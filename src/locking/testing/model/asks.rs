//! Asks for a lock, and how they end.

use super::{Model, ToldEvent, grants::NewLock, line::CLAIM_MS};
use crate::locking::{
    Answer, AnswerAsk, Ask, AskForLock, AskOutcome, CancelAsk, DocumentKey, Done, EndReason, LeaseId, Lock, Refusal,
    Span, names::DocumentVersion,
};

const LIFE_MS: i64 = 30_000;
const RING_MS: i64 = 10_000;

impl Model {
    /// Open ones, in the order in which they were asked; of two at once the one with the smaller id goes first.
    pub(super) fn asks_for(&self, lease: LeaseId) -> Vec<Ask> {
        let open = self.asks.iter().filter(|ask| ask.lease_id == lease && ask.outcome.is_none());
        let mut open: Vec<_> = open.cloned().collect();
        open.sort_by_key(|ask| (ask.asked_at, ask.id));
        open
    }

    /// Of all locks, by id.
    pub fn open_asks(&self) -> Vec<Ask> {
        let mut open: Vec<_> = self.asks.iter().filter(|ask| ask.outcome.is_none()).cloned().collect();
        open.sort_by_key(|ask| ask.id);
        open
    }

    fn end_ask(&mut self, ask: &Ask, outcome: AskOutcome) -> Ask {
        let ended = Ask { outcome: Some(outcome), ..ask.clone() };
        *self.asks.iter_mut().find(|known| known.id == ask.id).unwrap() = ended.clone();
        self.log.push((ask.key.clone(), ToldEvent::Answered { ask: ask.id, outcome }));
        ended
    }

    /// Their lock has ended.
    pub(super) fn end_asks_for(&mut self, lease: LeaseId) {
        for ask in self.asks_for(lease) {
            self.end_ask(&ask, AskOutcome::Moot);
        }
    }

    pub(super) fn end_unanswered(&mut self, key: &DocumentKey) {
        for lock in self.live(key) {
            for ask in self.asks_for(lock.lease_id) {
                if ask.expires_at <= self.now {
                    self.end_ask(&ask, AskOutcome::Unanswered);
                }
            }
        }
    }

    pub(super) fn ask(&mut self, asked: &AskForLock) -> Result<Done, Refusal> {
        let own = |ask: &&Ask| ask.key == asked.key && ask.asker.owner == asked.asker.owner;
        if let Some(open) = self.asks.iter().filter(own).find(|ask| ask.outcome.is_none()) {
            return Ok(Done::Asked(open.clone()));
        }
        let is_self = |lock: &Lock| {
            lock.holder.owner == asked.asker.owner
                && lock.holder.session.is_some()
                && lock.holder.session == asked.asker.session
        };
        let lock = self.live(&asked.key).into_iter().find(|lock| !is_self(lock)).ok_or(Refusal::NotFound)?;
        if let Some(last) = self.asks.iter().filter(own).map(|ask| ask.asked_at).max()
            && self.now.millis_since(last) < RING_MS
        {
            return Err(Refusal::AskedTooSoon { again_at: last.plus_millis(RING_MS) });
        }
        let ask = Ask {
            id: asked.id,
            key: asked.key.clone(),
            lease_id: lock.lease_id,
            holder: lock.holder.owner,
            asker: asked.asker.clone(),
            message: asked.message.clone(),
            asked_at: self.now,
            expires_at: self.now.plus_millis(LIFE_MS),
            outcome: None,
            answer: None,
        };
        self.log.push((asked.key.clone(), ToldEvent::Asked { ask: ask.id, lease: lock.lease_id }));
        self.asks.push(ask.clone());
        Ok(Done::Asked(ask))
    }

    pub(super) fn answer_ask(&mut self, asked: &AnswerAsk) -> Result<Done, Refusal> {
        let known = self.asks.iter().find(|ask| ask.id == asked.id && ask.key == asked.key);
        let ask = known.filter(|ask| ask.holder == asked.owner).cloned().ok_or(Refusal::AskNotFound)?;
        if ask.outcome.is_some() {
            return Ok(Done::Asked(ask));
        }
        let lock = self.known(ask.lease_id).lock.clone();
        let named = &asked.named;
        let is_it = named.lease_id.is_none_or(|lease| lease == lock.lease_id)
            && named.session.as_ref().is_none_or(|session| lock.holder.session.as_ref() == Some(session))
            && named.hold.is_none_or(|hold| hold == lock.hold);
        if !is_it {
            return Err(Refusal::Mismatch);
        }
        Ok(Done::Asked(match &asked.answer {
            Answer::Deny => self.end_ask(&ask, AskOutcome::Denied),
            Answer::Grant { lease_id, document_version } => {
                self.hand_over(&ask, &lock, *lease_id, document_version.as_ref())
            }
        }))
    }

    /// The lock ends and the asker's begins in its slot, with nobody in between; then everyone who asked hears.
    fn hand_over(&mut self, ask: &Ask, lock: &Lock, lease: LeaseId, version: Option<&DocumentVersion>) -> Ask {
        self.save(lock.lease_id, version);
        self.note_end(lock.lease_id, EndReason::HandedOver, self.now);
        self.new_lock(NewLock {
            key: &ask.key,
            lease,
            slot: lock.slot,
            capacity: self.capacities[&ask.key],
            holder: &ask.asker,
            ttl_seconds: self.policy.ttl_seconds,
            span: Span::Claim(CLAIM_MS),
            metadata: None,
            version: None,
            waited_ms: None,
        });
        let granted = self.end_ask(ask, AskOutcome::Granted);
        self.end_asks_for(lock.lease_id);
        granted
    }

    pub(super) fn cancel_ask(&mut self, asked: &CancelAsk) -> Result<Done, Refusal> {
        let known = self.asks.iter().find(|ask| ask.id == asked.id && ask.key == asked.key);
        let ask = known.filter(|ask| ask.asker.owner == asked.owner).cloned().ok_or(Refusal::AskNotFound)?;
        Ok(Done::Asked(if ask.outcome.is_none() { self.end_ask(&ask, AskOutcome::Cancelled) } else { ask }))
    }
}
