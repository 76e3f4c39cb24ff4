//! The tests of `tests/api/`, on PostgreSQL: whatever the database, the answers are the same.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::path::Path;

use doclock::settings::DatabaseUrl;

#[path = "api/polls.rs"]
mod polls;
#[path = "support/postgres.rs"]
mod postgres;
#[path = "api/raw.rs"]
mod raw;
#[path = "api/support.rs"]
mod support;

#[path = "api/activity.rs"]
mod activity;
#[path = "api/admin.rs"]
mod admin;
#[path = "api/auth.rs"]
mod auth;
#[path = "api/bad_bytes.rs"]
mod bad_bytes;
#[path = "api/bad_input.rs"]
mod bad_input;
#[path = "api/expiry.rs"]
mod expiry;
#[path = "api/handovers.rs"]
mod handovers;
#[path = "api/limits.rs"]
mod limits;
#[path = "api/lines.rs"]
mod lines;
#[path = "api/locking_rules.rs"]
mod locking_rules;
#[path = "api/operations.rs"]
mod operations;
#[path = "api/outages.rs"]
mod outages;
#[path = "api/races.rs"]
mod races;
#[path = "api/refusals.rs"]
mod refusals;
#[path = "api/requests.rs"]
mod requests;
#[path = "api/rooms.rs"]
mod rooms;
#[path = "api/routes.rs"]
mod routes;
#[path = "api/sharing.rs"]
mod sharing;
#[path = "api/tenants.rs"]
mod tenants;
#[path = "api/upgrade.rs"]
mod upgrade;
#[path = "api/waiting.rs"]
mod waiting;

/// What the first version has left behind.
const FIRST_VERSION: &str = include_str!("api/first_version/postgres.sql");
const SECOND_VERSION: &str = include_str!("api/second_version/postgres.sql");

fn new_database(_: &Path) -> DatabaseUrl {
    DatabaseUrl::Postgres(postgres::new_database())
}
