//! Steps as commands. What a step says of earlier ones, such as "the lock before the last", becomes names here.

use std::{
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
};

use uuid::Uuid;

use super::{
    super::{
        core::Core,
        samples::{ask_id, key, lease, owner, session},
    },
    Act, DOCUMENTS, keys, owner_number,
    steps::{Kind, NamedSession, Step, Target},
};
use crate::locking::{
    Answer, AnswerAsk, Ask, AskForLock, CancelAsk, Command, DocumentKey, Expire, Extend, Fingerprint, ForceUnlock,
    Holder, HolderKind, LeaseId, LeaveLine, LockDocuments, Named, Release, Renew, Request, TakeOver, TicketName,
    Timestamp, Unlock, Wanted,
    names::{DocumentVersion, OwnerId, RequestId, SessionId, TenantId},
};

/// Tickets that are renewed at a time.
const RENEWED: usize = 5;

#[derive(Default)]
pub(super) struct Script {
    /// What was sent, to be sent again.
    sent: Vec<Command>,
    /// Every lock and ticket that was asked for, with the document's number, granted or not.
    asked: Vec<(u8, LeaseId, Holder)>,
    asks: usize,
}

/// A step, and where the rules have come to.
struct Scene<'a> {
    step: &'a Step,
    core: &'a Core,
    now: Timestamp,
}

impl Script {
    pub(super) fn act(&mut self, step: &Step, core: &Core, now: Timestamp) -> Act {
        let scene = Scene { step, core, now };
        let command = match possible(&scene) {
            Kind::RenewTickets => {
                let last = self.asked.iter().rev().take(RENEWED);
                return Act::RenewTickets(last.map(|(_, lease, _)| *lease).collect());
            }
            Kind::DeleteDeadTickets => return Act::DeleteDeadTickets,
            Kind::Again(back) => self.again(back),
            Kind::Lock => self.lock(step, false),
            Kind::Wait => self.lock(step, step.documents.len() == 1),
            Kind::Extend | Kind::Unlock => self.of_holder(&scene),
            Kind::Release => self.release(&scene),
            Kind::ForceUnlock => {
                Command::ForceUnlock(ForceUnlock { targets: self.leases(&scene), by: owner("root"), note: None })
            }
            Kind::Renew => Command::Renew(Renew { leases: self.leases(&scene) }),
            Kind::Expire => Command::Expire(Expire { keys: step.documents.iter().copied().map(key).collect() }),
            Kind::LeaveLine => self.leave(&scene),
            Kind::Ask => self.ask(step),
            Kind::Answer => self.answer(&scene),
            Kind::CancelAsk => cancel(&scene),
        };
        if !matches!(command, Command::Expire(_)) {
            self.sent.push(command.clone());
        }
        Act::Decide(command)
    }

    fn lock(&mut self, step: &Step, waits: bool) -> Command {
        let Step { documents, owner: number, session: tab, ttl, takeover, capacity, version, .. } = step;
        let content = (documents, number, tab, ttl, takeover, capacity, version, waits);
        let holder = holder(step);
        Command::Lock(LockDocuments {
            tenant: TenantId::default_tenant(),
            wanted: documents.iter().map(|document| self.wanted(*document, &holder)).collect(),
            holder,
            ttl_seconds: *ttl,
            takeover: takeover.map(|(expected_token, of_others)| TakeOver { expected_token, of_others }),
            capacity: *capacity,
            metadata: None,
            document_version: version.map(version_number),
            request: request(step, &content),
            waits,
        })
    }

    /// A heartbeat or an unlock.
    fn of_holder(&self, scene: &Scene<'_>) -> Command {
        let Step { ttl, version, said, .. } = scene.step;
        let keys: Vec<_> = scene.step.documents.iter().copied().map(key).collect();
        let (caller, named) = self.named(scene);
        let document_version = version.map(version_number);
        let tenant = TenantId::default_tenant();
        if let Kind::Unlock = scene.step.kind {
            let request = request(scene.step, &("unlock", &keys, &named, version));
            return Command::Unlock(Unlock { request, tenant, keys, owner: caller, named, document_version });
        }
        let named = Named { hold: said.hold, ..named };
        Command::Extend(Extend {
            request: request(scene.step, &("extend", &keys, &named, ttl, version, said.activity)),
            tenant,
            keys,
            owner: caller,
            named,
            ttl_seconds: *ttl,
            metadata: None,
            activity: said.activity,
            document_version,
        })
    }

    fn release(&self, scene: &Scene<'_>) -> Command {
        let (owner, (lease_id, _)) = (self.named(scene).0, self.meant(scene, scene.step.documents[0]));
        let (hold, linger_ms) = scene.step.said.goodbye;
        Command::Release(Release { key: key(scene.step.documents[0]), owner, lease_id, hold, linger_ms })
    }

    fn leave(&self, scene: &Scene<'_>) -> Command {
        let key = key(scene.step.documents[0]);
        let line = scene.core.tickets(&key, scene.now);
        let (lease_id, holder) = match line.iter().rev().cycle().nth(scene.step.target.back) {
            Some(ticket) if scene.step.target.is_there => (ticket.lease_id, Some(ticket.holder.clone())),
            _ => self.meant(scene, scene.step.documents[0]),
        };
        let session = holder.as_ref().and_then(|holder| holder.session.clone());
        let session = session.filter(|_| !scene.step.target.names_lease).map(TicketName::Session);
        let ticket = session.unwrap_or(TicketName::Lease(lease_id));
        Command::LeaveLine(LeaveLine { key, owner: caller(scene.step, holder.map(|holder| holder.owner)), ticket })
    }

    fn ask(&mut self, step: &Step) -> Command {
        let id = self.new_ask();
        Command::Ask(AskForLock { key: key(step.documents[0]), asker: holder(step), message: None, id })
    }

    fn answer(&mut self, scene: &Scene<'_>) -> Command {
        let document = scene.step.documents[0];
        let ask = ask_meant(scene);
        let answer = match ask.as_ref().filter(|_| scene.step.said.grants) {
            Some(ask) => Answer::Grant {
                lease_id: self.wanted(document, &ask.asker).lease_id,
                document_version: scene.step.version.map(version_number),
            },
            None => Answer::Deny,
        };
        let named = if scene.step.said.hold.is_some() { self.named(scene).1 } else { Named::default() };
        let (id, owner) = (ask.as_ref().map_or(ask_id(0), |ask| ask.id), ask.map(|ask| ask.holder));
        let owner = caller(scene.step, owner);
        Command::Answer(AnswerAsk { key: key(document), owner, named, id, answer, message: None })
    }

    /// A server gives every request new leases and ids, also one that it has had before.
    fn again(&mut self, back: usize) -> Command {
        let mut command = self.sent.iter().rev().nth(back).cloned().unwrap_or(Command::Expire(Expire { keys: keys() }));
        match &mut command {
            Command::Lock(lock) => {
                for wanted in &mut lock.wanted {
                    *wanted = self.wanted(number_of(&wanted.key), &lock.holder);
                }
            }
            Command::Ask(ask) => ask.id = self.new_ask(),
            Command::Answer(AnswerAsk { key, answer: Answer::Grant { lease_id, .. }, .. }) => {
                let asker = self.asked.iter().find(|(_, known, _)| known == lease_id).map(|(.., asker)| asker.clone());
                *lease_id = self.wanted(number_of(key), &asker.unwrap()).lease_id;
            }
            _ => {}
        }
        command
    }

    fn wanted(&mut self, document: u8, holder: &Holder) -> Wanted {
        let lease_id = lease(self.asked.len() as u128 + 1);
        self.asked.push((document, lease_id, holder.clone()));
        Wanted { key: key(document), lease_id }
    }

    /// As in life, later ids are not greater ones.
    fn new_ask(&mut self) -> Uuid {
        self.asks += 1;
        ask_id(self.asks as u128 * 37 % 101)
    }

    /// If there is none, a lease that nobody ever had.
    fn meant(&self, scene: &Scene<'_>, document: u8) -> (LeaseId, Option<Holder>) {
        let Target { is_there, back, .. } = scene.step.target;
        let live = scene.core.live(&key(document), scene.now);
        let there = live.iter().rev().cycle().nth(back).filter(|_| is_there);
        if let Some(lock) = there {
            return (lock.lease_id, Some(lock.holder.clone()));
        }
        let asked = self.asked.iter().rev().filter(|(asked_on, ..)| *asked_on == document).nth(back);
        asked.map_or((lease(0), None), |(_, lease_id, holder)| (*lease_id, Some(holder.clone())))
    }

    fn leases(&self, scene: &Scene<'_>) -> Vec<(DocumentKey, LeaseId)> {
        scene.step.documents.iter().map(|document| (key(*document), self.meant(scene, *document).0)).collect()
    }

    /// Who calls, and what it names.
    fn named(&self, scene: &Scene<'_>) -> (OwnerId, Named) {
        let Step { documents, session: tab, target, .. } = scene.step;
        let (lease_id, holder) = self.meant(scene, documents[0]);
        let session = match target.session {
            NamedSession::None => None,
            NamedSession::OfLock => holder.as_ref().and_then(|holder| holder.session.clone()),
            NamedSession::OfStep => tab.map(session_number),
        };
        let lease_id = target.names_lease.then_some(lease_id);
        (caller(scene.step, holder.map(|holder| holder.owner)), Named { lease_id, session, hold: None })
    }
}

/// Mostly, what would speak of a lock or an ask that is not there makes one: little is learnt from asking nobody.
fn possible(Scene { step, core, now }: &Scene<'_>) -> Kind {
    let key = key(step.documents[0]);
    match step.kind {
        kind if !step.target.is_there => kind,
        Kind::Extend
        | Kind::Unlock
        | Kind::Release
        | Kind::ForceUnlock
        | Kind::Renew
        | Kind::LeaveLine
        | Kind::Ask
        | Kind::Answer
        | Kind::CancelAsk
            if core.live(&key, *now).is_empty() =>
        {
            Kind::Wait
        }
        Kind::LeaveLine if core.line(&key, *now).is_empty() => Kind::Wait,
        Kind::Answer | Kind::CancelAsk if core.open_asks().iter().all(|ask| ask.key != key) => Kind::Ask,
        kind => kind,
    }
}

/// If there is none, an ask that nobody ever made.
fn cancel(scene: &Scene<'_>) -> Command {
    let ask = ask_meant(scene);
    let (id, owner) = (ask.as_ref().map_or(ask_id(0), |ask| ask.id), ask.map(|ask| ask.asker.owner));
    Command::CancelAsk(CancelAsk { key: key(scene.step.documents[0]), owner: caller(scene.step, owner), id })
}

/// An open one, if there is any and it shall be one that is there.
fn ask_meant(scene: &Scene<'_>) -> Option<Ask> {
    let asks = scene.core.state.asks.get(&key(scene.step.documents[0]))?;
    let Target { is_there, back, .. } = scene.step.target;
    let open: Vec<_> = asks.iter().filter(|ask| ask.outcome.is_none() && is_there).collect();
    let found = open.into_iter().rev().nth(back).or_else(|| asks.iter().rev().nth(back));
    found.cloned()
}

/// The one whose it is, or the step's own.
fn caller(step: &Step, own: Option<OwnerId>) -> OwnerId {
    own.filter(|_| step.target.is_own).unwrap_or_else(|| owner_number(step.owner))
}

/// The kind is of the token, which may be another one the next time.
fn holder(step: &Step) -> Holder {
    let kind = if step.ttl.is_some() { HolderKind::Person } else { HolderKind::Agent };
    Holder { owner: owner_number(step.owner), session: step.session.map(session_number), name: None, kind }
}

fn number_of(wanted: &DocumentKey) -> u8 {
    (0..DOCUMENTS).find(|number| key(*number) == *wanted).unwrap()
}

fn session_number(number: u8) -> SessionId {
    session(&format!("s{number}"))
}

fn version_number(number: u8) -> DocumentVersion {
    DocumentVersion::from_stored(format!("v{number}"))
}

/// The same content under the same id is the same request.
fn request(step: &Step, content: &dyn fmt::Debug) -> Option<Request> {
    let mut hasher = DefaultHasher::new();
    format!("{content:?}").hash(&mut hasher);
    let mut digest = [0; 16];
    digest[..8].copy_from_slice(&hasher.finish().to_be_bytes());
    let id = RequestId::from_stored(format!("r{}", step.request?));
    Some(Request { id, fingerprint: Fingerprint(digest) })
}
