//! The API over real HTTP: each test has a server of its own on a free port, with its own database and a clock that
//! moves when the test says so.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::path::Path;

use doclock::settings::DatabaseUrl;

mod polls;
mod raw;
mod support;

mod activity;
mod admin;
mod auth;
mod bad_bytes;
mod bad_input;
mod expiry;
mod handovers;
mod limits;
mod lines;
mod locking_rules;
mod operations;
mod outages;
mod races;
mod refusals;
mod requests;
mod rooms;
mod routes;
mod sharing;
mod tenants;
mod upgrade;
mod waiting;

/// `tests/api_on_postgres.rs` runs the same tests on the other database.
/// What the first version has left behind.
const FIRST_VERSION: &str = include_str!("first_version/sqlite.sql");
const SECOND_VERSION: &str = include_str!("second_version/sqlite.sql");

fn new_database(folder: &Path) -> DatabaseUrl {
    DatabaseUrl::Sqlite(folder.join("doclock.db"))
}
