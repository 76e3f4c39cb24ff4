//! Locks between processes and machines, for back ends: one thing at a time, whoever asks.
//!
//! ```
//! use std::time::Duration;
//!
//! use doclock::client::{LockError, LockManager, MemoryLocks};
//!
//! # async fn refresh() -> Result<(), LockError> {
//! let manager = LockManager::new("token-refresh", 1)?; // the server is named by DOCLOCK_URL and DOCLOCK_TOKEN
//! # let manager = manager.backend(MemoryLocks::new());
//! let lock = manager.lock(Duration::from_secs(30)).await?;
//! println!("alone, with token {}", lock.fencing_token());
//! lock.ensure_held()?; // LockLost if that is not so any more
//! lock.release().await
//! # }
//! # tokio::runtime::Runtime::new().unwrap().block_on(refresh()).unwrap();
//! ```
//!
//! The life of a lock:
//! 1. [`LockManager::lock`] hands its wish to `acquiring`, which sends one request, with one `request_id`, until it is
//!    answered or the time is up: in the server's line where it has one, by polling where it has not.
//! 2. The grant becomes a `lease`, whose heartbeats go out at a third of the ttl. Its deadline is counted from *before*
//!    the request that set it was sent, on a clock that counts sleep, so it never comes later than the server's own.
//! 3. The caller has a [`HeldLock`]. It is lost when the server says so or at the deadline, and then for good. Dropping it
//!    releases it.
//!
//! All of it runs on one thread of its own (`renewer`): code that blocks its own executor loses no lock, and a lock is
//! released although the runtime that took it is gone. So any executor will do.
//!
//! This module imports nothing of the server's: with `default-features = false` it is the whole library.

mod acquiring;
mod backend;
mod clock;
mod delays;
mod error;
mod held;
mod lease;
mod lock_name;
mod manager;
mod memory;
mod renewer;
mod server;
mod token;
mod unlocking;

pub use backend::Backend;
pub use clock::{BootClock, TestClock};
pub use error::{LockError, LockLost, LockTimeout, ServerProblem};
pub use held::HeldLock;
pub use lock_name::LockName;
pub use manager::{LockManager, Wait};
pub use memory::MemoryLocks;
pub use renewer::settle;
pub use server::DoclockServer;
pub use token::BearerToken;
