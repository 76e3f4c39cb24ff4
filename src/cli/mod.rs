//! What the command line can do besides serving.
//!
//! Those who run the server: [`backup`], [`new_epoch`], [`check`], [`health`]. Those who use it, over its HTTP API as
//! anyone else does: [`lock`], [`locks`], [`unlock`], [`events`]. A [`Connection`] says which server, and as whom.

mod backup;
mod check;
mod child;
mod connection;
mod duration;
mod events;
mod health;
mod lock;
mod locks;
mod new_epoch;
mod print;
mod signals;
mod unlock;

pub use backup::backup;
pub use check::check;
pub use connection::Connection;
pub use duration::{duration, duration_or_zero};
pub use events::{EventsArgs, events};
pub use health::health;
pub use lock::{LockArgs, lock};
pub use locks::{LocksArgs, locks};
pub use new_epoch::new_epoch;
pub use unlock::{UnlockArgs, unlock};

use std::process::ExitCode;

/// One line for the person who started it, and the exit code.
#[derive(Debug)]
pub struct Failure(pub String, pub ExitCode);

impl From<String> for Failure {
    fn from(line: String) -> Self {
        Self(line, ExitCode::FAILURE)
    }
}

impl From<doclock::client::LockError> for Failure {
    fn from(error: doclock::client::LockError) -> Self {
        error.to_string().into()
    }
}
