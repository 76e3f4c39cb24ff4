//! What tests of the rules are built from: states and commands that say only what matters to the test.

pub mod commands;
pub mod samples;
mod state;

pub use state::{StateBuilder, state};

pub const DAY_MS: i64 = 86_400_000;
