//! What tests of the rules are built from: states and commands that say only what matters to the test, histories made by
//! chance, and a model to hold them against.

pub mod commands;
pub mod core;
pub mod history;
pub mod model;
pub mod samples;
mod state;

pub use state::{StateBuilder, state};

pub const DAY_MS: i64 = 86_400_000;
