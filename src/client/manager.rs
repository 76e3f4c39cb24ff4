//! `LockManager`: one thing at a time, whichever process or machine asks.

use std::{fmt, sync::OnceLock, time::Duration};

use serde_json::Value;

use super::{
    Backend, DoclockServer, HeldLock, LockError, LockName, MemoryLocks,
    acquiring::{Wish, acquire},
    renewer,
};

const MAX_PARALLELISM: u32 = 1000;
const MAX_TTL_SECONDS: u32 = 86_400;

/// How to wait for a lock. A `Duration` will do where only the timeout matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// 600 s unless given; zero asks once.
    pub timeout: Duration,
    /// The first pause between two attempts where the server has no line: 1 s unless given. Each is half as long again as
    /// the one before, scattered by up to a half.
    pub initial_delay: Duration,
    /// No pause is longer: 30 s unless given.
    pub max_delay: Duration,
}

impl Default for Wait {
    fn default() -> Self {
        Self {
            timeout: Duration::from_mins(10),
            initial_delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(30),
        }
    }
}

impl From<Duration> for Wait {
    fn from(timeout: Duration) -> Self {
        Self { timeout, ..Self::default() }
    }
}

/// A lock by name, held by at most `parallelism` at once among all who use the same server.
///
/// The server is that of [`backend`](Self::backend), else that of the environment's `DOCLOCK_URL` and `DOCLOCK_TOKEN`, which
/// are read at every use. `DOCLOCK_URL=memory://` keeps locks within this process.
///
/// A manager may be shared by tasks, and cloned. It is not reentrant: taking a lock that one holds waits for oneself.
pub struct LockManager {
    wish: Wish,
    backend: Option<Backend>,
    seed: Option<u64>,
    /// By `await_lock`, the last one last.
    taken: Vec<HeldLock>,
}

impl LockManager {
    /// `name` is the document of that name in the room `locks`, or `room/document`. Fails on a name that cannot be one,
    /// and if `parallelism` is not 1 to 1000.
    pub fn new(name: &str, parallelism: u32) -> Result<Self, LockError> {
        Self::of(LockName::parse(name)?, parallelism)
    }

    /// As [`new`](Self::new), for a name that has been parsed.
    pub fn of(name: LockName, parallelism: u32) -> Result<Self, LockError> {
        check("parallelism", parallelism, MAX_PARALLELISM)?;
        let wish = Wish { name, ttl_seconds: 30, capacity: parallelism, metadata: None };
        Ok(Self { wish, backend: None, seed: None, taken: Vec::new() })
    }

    /// How long a lock outlives its holder when that dies or is cut off: 30 s unless set.
    pub fn ttl_seconds(mut self, seconds: u32) -> Result<Self, LockError> {
        check("ttl_seconds", seconds, MAX_TTL_SECONDS)?;
        self.wish.ttl_seconds = seconds;
        Ok(self)
    }

    /// An object of up to 2 KiB, shown to others.
    #[must_use]
    pub fn metadata(mut self, metadata: Value) -> Self {
        self.wish.metadata = Some(metadata);
        self
    }

    #[must_use]
    pub fn backend(mut self, backend: impl Into<Backend>) -> Self {
        self.backend = Some(backend.into());
        self
    }

    /// Makes the pauses between polls the same in every run.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    pub fn name(&self) -> &LockName {
        &self.wish.name
    }

    /// Waits for the lock and takes it: first come, first served. Fails with [`LockError::Timeout`] if it is not granted
    /// in time; then nothing is held. Dropping the future gives up the place in line.
    pub async fn lock(&self, wait: impl Into<Wait>) -> Result<HeldLock, LockError> {
        let wait = wait.into();
        if wait.initial_delay.is_zero() || wait.max_delay.is_zero() {
            return Err(LockError::NotConfigured("initial_delay and max_delay must be above 0".to_owned()));
        }
        let random = self.seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        renewer::run(acquire(self.chosen_backend()?, self.wish.clone(), wait, random)).await?
    }

    /// As [`lock`](Self::lock), with the manager keeping the lock until [`release_lock`](Self::release_lock) or its own end.
    pub async fn await_lock(&mut self, wait: impl Into<Wait>) -> Result<&HeldLock, LockError> {
        let held = self.lock(wait).await?;
        self.taken.push(held);
        self.taken.last().ok_or_else(|| LockError::NotHeld(self.wish.name.clone()))
    }

    /// Releases what the last `await_lock` of this manager took, and nothing of anyone else's. Fails with
    /// [`LockError::NotHeld`] if that is nothing, otherwise as [`HeldLock::release`] does.
    pub async fn release_lock(&mut self) -> Result<(), LockError> {
        match self.taken.pop() {
            Some(held) => held.release().await,
            None => Err(LockError::NotHeld(self.wish.name.clone())),
        }
    }

    /// Decided at every use and not when a manager is made: managers are often made before the environment is.
    fn chosen_backend(&self) -> Result<Backend, LockError> {
        match &self.backend {
            Some(backend) => Ok(backend.clone()),
            None => backend_of_environment(|name| std::env::var(name).ok().filter(|value| !value.is_empty())),
        }
    }
}

fn backend_of_environment(variable: impl Fn(&str) -> Option<String>) -> Result<Backend, LockError> {
    static MEMORY: OnceLock<MemoryLocks> = OnceLock::new();
    let missing = |what: &str| LockError::NotConfigured(format!("set {what}"));
    let url = variable("DOCLOCK_URL").ok_or_else(|| {
        missing("DOCLOCK_URL to the address of the doclock server, or to memory:// for this process alone")
    })?;
    if ["memory:", "memory"].contains(&url.trim_end_matches('/')) {
        return Ok(MEMORY.get_or_init(MemoryLocks::new).clone().into());
    }
    let token = variable("DOCLOCK_TOKEN")
        .ok_or_else(|| missing("DOCLOCK_TOKEN to a token with the role editor; `doclock token` prints one"))?;
    Ok(DoclockServer::new(&url, token)?.into())
}

fn check(what: &str, value: u32, most: u32) -> Result<(), LockError> {
    if (1..=most).contains(&value) {
        return Ok(());
    }
    Err(LockError::NotConfigured(format!("{what} must be 1 to {most}, not {value}")))
}

/// The clone has taken nothing.
impl Clone for LockManager {
    fn clone(&self) -> Self {
        let Self { wish, backend, seed, .. } = self;
        Self { wish: wish.clone(), backend: backend.clone(), seed: *seed, taken: Vec::new() }
    }
}

impl fmt::Debug for LockManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LockManager({}, parallelism {})", self.wish.name, self.wish.capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backend(variables: &[(&str, &str)]) -> Result<Backend, LockError> {
        backend_of_environment(|name| Some(variables.iter().find(|(of, _)| *of == name)?.1.to_owned()))
    }

    #[test]
    fn the_environment_names_the_server_or_the_memory_of_this_process() {
        assert!(matches!(backend(&[("DOCLOCK_URL", "memory://")]), Ok(Backend::Memory(_))));
        let server = backend(&[("DOCLOCK_URL", "http://127.0.0.1:1/"), ("DOCLOCK_TOKEN", "t")]).unwrap();
        assert!(matches!(server, Backend::Server(server) if server.url() == "http://127.0.0.1:1"));
        for (variables, missing) in [
            (&[][..], "DOCLOCK_URL"),
            (&[("DOCLOCK_URL", "http://127.0.0.1:1")], "DOCLOCK_TOKEN"),
            (&[("DOCLOCK_URL", "127.0.0.1:1"), ("DOCLOCK_TOKEN", "t")], "https://"),
        ] {
            let error = backend(variables).unwrap_err();
            assert_eq!(error.code(), "NOT_CONFIGURED");
            assert!(error.to_string().contains(missing), "{error}");
        }
    }

    #[test]
    fn what_cannot_be_is_refused_when_the_manager_is_made() {
        assert!(LockManager::new("job", 0).is_err());
        assert!(LockManager::new("job", 1001).is_err());
        assert!(LockManager::new("job", 1).unwrap().ttl_seconds(0).is_err());
        assert!(LockManager::new("", 1).is_err());
    }
}
