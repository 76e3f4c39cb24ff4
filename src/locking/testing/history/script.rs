//! Steps as commands. What a step says of earlier ones, such as "the lock before the last", becomes names here.

use std::{
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
};

use super::{
    super::samples::{key, lease, owner, session},
    DOCUMENTS, Kind, NamedSession, Step, keys, owner_number,
};
use crate::locking::{
    Command, DocumentKey, Expire, Extend, Fingerprint, ForceUnlock, Holder, HolderKind, LeaseId, LockDocuments, Named,
    Release, Request, TakeOver, Unlock, Wanted,
    names::{DocumentVersion, OwnerId, RequestId, SessionId, TenantId},
};

#[derive(Default)]
pub(super) struct Script {
    pub(super) commands: Vec<(u32, Command)>,
    /// Every lock that was asked for, with the document's number, granted or not.
    asked: Vec<(u8, LeaseId, Holder)>,
}

impl Script {
    pub(super) fn command(&mut self, step: &Step) -> Command {
        let Step { documents, owner: number, session: tab, ttl, takeover, capacity, version, target, .. } = step;
        let keys: Vec<_> = documents.iter().copied().map(key).collect();
        let (caller, named) = self.resolve(step);
        let request = |content: &dyn fmt::Debug| step.request.map(|id| identified(id, content));
        match step.kind {
            Kind::Lock => {
                let content = (documents, number, tab, ttl, takeover, capacity, version);
                let holder = Holder {
                    owner: owner_number(*number),
                    session: tab.map(session_number),
                    name: None,
                    kind: HolderKind::Person,
                };
                Command::Lock(LockDocuments {
                    tenant: TenantId::default_tenant(),
                    wanted: documents.iter().map(|document| self.wanted(*document, &holder)).collect(),
                    holder,
                    ttl_seconds: *ttl,
                    takeover: takeover.map(|(expected_token, of_others)| TakeOver { expected_token, of_others }),
                    capacity: *capacity,
                    metadata: None,
                    document_version: version.map(version_number),
                    request: request(&content),
                    waits: false,
                })
            }
            Kind::Extend => Command::Extend(Extend {
                request: request(&("extend", &keys, &named, ttl)),
                tenant: TenantId::default_tenant(),
                keys,
                owner: caller,
                named,
                ttl_seconds: *ttl,
                metadata: None,
                activity: None,
                document_version: None,
            }),
            Kind::Unlock => Command::Unlock(Unlock {
                request: request(&("unlock", &keys, &named, version)),
                tenant: TenantId::default_tenant(),
                keys,
                owner: caller,
                named,
                document_version: version.map(version_number),
            }),
            Kind::Release => {
                let (key, lease_id) = self.recent(documents[0], target.lock);
                let (hold, linger_ms) = step.goodbye;
                Command::Release(Release { key, owner: caller, lease_id, hold, linger_ms })
            }
            Kind::ForceUnlock => Command::ForceUnlock(ForceUnlock {
                targets: documents.iter().map(|document| self.recent(*document, target.lock)).collect(),
                by: owner("root"),
                note: None,
            }),
            Kind::Expire => Command::Expire(Expire { keys }),
            Kind::Again(back) => self.again(back),
        }
    }

    /// A server gives every request new leases, also one that it has had before.
    fn again(&mut self, back: usize) -> Command {
        let asked = self.commands.iter().rev().filter(|(_, command)| !matches!(command, Command::Expire(_))).nth(back);
        let mut command = asked.map_or(Command::Expire(Expire { keys: keys() }), |(_, command)| command.clone());
        if let Command::Lock(lock) = &mut command {
            for wanted in &mut lock.wanted {
                let document = (0..DOCUMENTS).find(|number| key(*number) == wanted.key).unwrap();
                *wanted = self.wanted(document, &lock.holder);
            }
        }
        command
    }

    fn wanted(&mut self, document: u8, holder: &Holder) -> Wanted {
        let lease_id = lease(self.asked.len() as u128 + 1);
        self.asked.push((document, lease_id, holder.clone()));
        Wanted { key: key(document), lease_id }
    }

    fn nth(&self, document: u8, back: usize) -> Option<&(u8, LeaseId, Holder)> {
        self.asked.iter().rev().filter(|(asked_on, ..)| *asked_on == document).nth(back)
    }

    /// If there is none, a lease that nobody ever had.
    fn recent(&self, document: u8, back: usize) -> (DocumentKey, LeaseId) {
        (key(document), self.nth(document, back).map_or(lease(0), |(_, lease_id, _)| *lease_id))
    }

    /// Who calls, and what it names.
    fn resolve(&self, step: &Step) -> (OwnerId, Named) {
        let (document, target) = (step.documents[0], step.target);
        let holder = self.nth(document, target.lock).map(|(.., holder)| holder);
        let asker = holder.filter(|_| target.is_asker).map(|holder| holder.owner.clone());
        let session = match target.session {
            NamedSession::None => None,
            NamedSession::OfLock => holder.and_then(|holder| holder.session.clone()),
            NamedSession::OfStep => step.session.map(session_number),
        };
        let lease_id = target.names_lease.then(|| self.recent(document, target.lock).1);
        (asker.unwrap_or_else(|| owner_number(step.owner)), Named { lease_id, session, hold: None })
    }
}

fn session_number(number: u8) -> SessionId {
    session(&format!("s{number}"))
}

fn version_number(number: u8) -> DocumentVersion {
    DocumentVersion::from_stored(format!("v{number}"))
}

/// The same content under the same id is the same request.
fn identified(id: u8, content: &dyn fmt::Debug) -> Request {
    let mut hasher = DefaultHasher::new();
    format!("{content:?}").hash(&mut hasher);
    let mut digest = [0; 16];
    digest[..8].copy_from_slice(&hasher.finish().to_be_bytes());
    Request { id: RequestId::from_stored(format!("r{id}")), fingerprint: Fingerprint(digest) }
}
