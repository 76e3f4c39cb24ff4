//! What answers the three calls of a lock. All policy (waiting, renewing, repeating) is on this side of it.

use std::{sync::Arc, time::Duration};

use serde_json::Value;

use super::{BootClock, DoclockServer, LockError, LockName, MemoryLocks};

/// Where locks are kept.
#[derive(Debug, Clone)]
pub enum Backend {
    Server(Arc<DoclockServer>),
    /// In this process.
    Memory(MemoryLocks),
}

impl From<DoclockServer> for Backend {
    fn from(server: DoclockServer) -> Self {
        Self::Server(Arc::new(server))
    }
}

impl From<MemoryLocks> for Backend {
    fn from(locks: MemoryLocks) -> Self {
        Self::Memory(locks)
    }
}

/// Stays the same, byte for byte, however often it is repeated: the server remembers it by its `request_id`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LockAsk {
    pub name: LockName,
    pub request_id: String,
    pub session_id: String,
    pub ttl_seconds: u32,
    pub capacity: u32,
    /// How long the server may let it wait in line; 0 asks for an answer at once.
    pub wait_ms: u64,
    pub metadata: Option<Value>,
}

/// A lock as the server describes it. `expires_in` counts from when the answer was made.
#[derive(Debug, Clone)]
pub(super) struct Grant {
    pub lease_id: String,
    pub fencing_token: u64,
    pub ttl: Duration,
    pub expires_in: Duration,
}

/// Which lock to end. Where no lease is known, the session of the one attempt is.
#[derive(Debug, Clone)]
pub(super) enum LockOf {
    Lease(String),
    Session(String),
}

impl Backend {
    pub(super) fn clock(&self) -> &BootClock {
        match self {
            Self::Server(server) => server.clock(),
            Self::Memory(locks) => locks.clock(),
        }
    }

    /// How long one request may take, beyond what it waits in line.
    pub(super) fn request_timeout(&self) -> Duration {
        match self {
            Self::Server(server) => server.request_timeout(),
            Self::Memory(_) => Duration::from_secs(10),
        }
    }

    /// How long a release is repeated while there is no answer. After that the lock lives out its ttl.
    pub(super) fn release_timeout(&self) -> Duration {
        match self {
            Self::Server(server) => server.release_timeout(),
            Self::Memory(_) => Duration::from_millis(500),
        }
    }

    /// Whether `wait_ms` is understood, as far as is known.
    pub(super) fn has_line(&self) -> bool {
        match self {
            Self::Server(server) => server.has_line(),
            Self::Memory(locks) => locks.has_line(),
        }
    }

    /// Fails with the code `LOCK_HELD` if someone else has it and the wait is over.
    pub(super) async fn lock(&self, ask: &LockAsk) -> Result<Grant, LockError> {
        match self {
            Self::Server(server) => server.lock(ask).await,
            Self::Memory(locks) => locks.lock(ask).await,
        }
    }

    pub(super) async fn extend(&self, name: &LockName, lease_id: &str) -> Result<Grant, LockError> {
        match self {
            Self::Server(server) => server.extend(name, lease_id).await,
            Self::Memory(locks) => locks.extend(name, lease_id),
        }
    }

    pub(super) async fn unlock(&self, name: &LockName, request_id: &str, which: &LockOf) -> Result<(), LockError> {
        match self {
            Self::Server(server) => server.unlock(name, request_id, which).await,
            Self::Memory(locks) => locks.unlock(name, request_id, which),
        }
    }
}
