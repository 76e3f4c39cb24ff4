//! What may be asked, at random, and the command each of it is.

use doclock::locking::{
    Command, DocumentKey, Expire, Extend, Fingerprint, ForceUnlock, Holder, LockDocuments, Named, Release, Request,
    TakeOver, Unlock, Wanted,
    names::{DocumentId, OwnerId, RequestId, RoomId, SessionId, TenantId},
};
use proptest::{collection::vec, option, prelude::*};
use uuid::Uuid;

#[derive(Debug, Clone)]
pub struct Step {
    pub after_ms: u32,
    pub act: Act,
}

#[derive(Debug, Clone)]
pub enum Act {
    Lock {
        documents: Vec<u8>,
        owner: u8,
        session: Option<u8>,
        ttl: u32,
        takeover: bool,
        capacity: Option<u32>,
        request: Option<u8>,
    },
    Extend {
        document: u8,
        owner: u8,
        named: Name,
        request: Option<u8>,
    },
    Unlock {
        document: u8,
        owner: u8,
        named: Name,
        request: Option<u8>,
    },
    Release {
        document: u8,
        owner: u8,
        lease: usize,
        linger_ms: u32,
    },
    Force {
        document: u8,
        lease: usize,
    },
    Expire,
}

#[derive(Debug, Clone)]
pub enum Name {
    Nothing,
    Session(u8),
    /// Counted back from the newest lease.
    Lease(usize),
}

fn name() -> impl Strategy<Value = Name> {
    prop_oneof![Just(Name::Nothing), (0..2_u8).prop_map(Name::Session), (0..4_usize).prop_map(Name::Lease)]
}

fn act() -> impl Strategy<Value = Act> {
    let request = || option::weighted(0.3, 0..3_u8);
    prop_oneof![
        6 => (
            prop_oneof![4 => vec(0..2_u8, 1), 1 => Just(vec![0, 1])],
            0..3_u8,
            option::of(0..2_u8),
            prop_oneof![Just(1_u32), Just(5), Just(30)],
            prop::bool::weighted(0.2),
            option::weighted(0.3, 1..3_u32),
            request(),
        )
            .prop_map(|(documents, owner, session, ttl, takeover, capacity, request)| Act::Lock {
                documents, owner, session, ttl, takeover, capacity, request
            }),
        3 => (0..2_u8, 0..3_u8, name(), request())
            .prop_map(|(document, owner, named, request)| Act::Extend { document, owner, named, request }),
        3 => (0..2_u8, 0..3_u8, name(), request())
            .prop_map(|(document, owner, named, request)| Act::Unlock { document, owner, named, request }),
        1 => (0..2_u8, 0..3_u8, 0..4_usize, prop_oneof![Just(0_u32), Just(3000)])
            .prop_map(|(document, owner, lease, linger_ms)| Act::Release { document, owner, lease, linger_ms }),
        1 => (0..2_u8, 0..4_usize).prop_map(|(document, lease)| Act::Force { document, lease }),
        1 => Just(Act::Expire),
    ]
}

pub fn history() -> impl Strategy<Value = Vec<Step>> {
    let after_ms = prop_oneof![5 => Just(0_u32), 2 => 1..1500_u32, 1 => 4000..40_000_u32];
    vec((after_ms, act()).prop_map(|(after_ms, act)| Step { after_ms, act }), 1..40)
}

pub fn key(document: u8) -> DocumentKey {
    DocumentKey {
        tenant: TenantId::default_tenant(),
        room: RoomId::parse("room").unwrap(),
        document: DocumentId::parse(&format!("d{document}")).unwrap(),
    }
}

fn owner(owner: u8) -> OwnerId {
    OwnerId::parse(&format!("o{owner}")).unwrap()
}

fn session(session: u8) -> SessionId {
    SessionId::parse(&format!("s{session}")).unwrap()
}

fn lease(number: u128) -> Uuid {
    Uuid::from_u128(number + 1)
}

/// The act as a command; `leases` is how many have been given out.
pub fn command(act: &Act, leases: &mut u128) -> Command {
    let recent = |back: usize, leases: u128| lease(leases.saturating_sub(1 + back as u128));
    let named = |named: &Name, leases: u128| match named {
        Name::Nothing => Named::default(),
        Name::Session(s) => Named { lease_id: None, session: Some(session(*s)) },
        Name::Lease(back) => Named { lease_id: Some(recent(*back, leases)), session: None },
    };
    // The same id with the same content is a repeat; leases named by their age are part of the content.
    let request = |id: &Option<u8>, content: String| {
        id.map(|id| {
            let mut digest = [0_u8; 16];
            content
                .bytes()
                .enumerate()
                .for_each(|(i, byte)| digest[i % 16] = byte.wrapping_add(digest[i % 16].rotate_left(3)));
            Request { id: RequestId::parse(&format!("r{id}")).unwrap(), fingerprint: Fingerprint(digest) }
        })
    };
    match act {
        Act::Lock { documents, owner: o, session: s, ttl, takeover, capacity, request: id } => {
            let wanted = documents.iter().map(|document| {
                *leases += 1;
                Wanted { key: key(*document), lease_id: lease(*leases - 1) }
            });
            Command::Lock(LockDocuments {
                tenant: TenantId::default_tenant(),
                wanted: wanted.collect(),
                holder: Holder { owner: owner(*o), session: s.map(session), name: None },
                ttl_seconds: Some(*ttl),
                takeover: takeover.then_some(TakeOver { expected_token: None, of_others: true }),
                capacity: *capacity,
                metadata: None,
                document_version: None,
                request: request(id, format!("{act:?}")),
            })
        }
        Act::Extend { document, owner: o, named: n, request: id } => Command::Extend(Extend {
            tenant: TenantId::default_tenant(),
            keys: vec![key(*document)],
            owner: owner(*o),
            named: named(n, *leases),
            ttl_seconds: None,
            metadata: None,
            request: request(id, format!("{act:?}{leases}")),
        }),
        Act::Unlock { document, owner: o, named: n, request: id } => Command::Unlock(Unlock {
            tenant: TenantId::default_tenant(),
            keys: vec![key(*document)],
            owner: owner(*o),
            named: named(n, *leases),
            document_version: None,
            request: request(id, format!("{act:?}{leases}")),
        }),
        Act::Release { document, owner: o, lease: back, linger_ms } => Command::Release(Release {
            key: key(*document),
            owner: owner(*o),
            lease_id: recent(*back, *leases),
            hold: 1,
            linger_ms: *linger_ms,
        }),
        Act::Force { document, lease: back } => Command::ForceUnlock(ForceUnlock {
            targets: vec![(key(*document), recent(*back, *leases))],
            by: owner(9),
            note: None,
        }),
        Act::Expire => Command::Expire(Expire { keys: vec![key(0), key(1)] }),
    }
}
