//! What the command line can do besides serving.

mod backup;
mod new_epoch;

pub use backup::backup;
pub use new_epoch::new_epoch;
