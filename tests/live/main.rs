//! Live notices over real sockets: each test has servers of its own, and a clock that moves when the test says so.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod client;
#[path = "../support/postgres.rs"]
mod postgres;
#[path = "../api/support.rs"]
#[allow(dead_code, reason = "shared with the tests of the API")]
mod support;

mod auth;
mod cluster;
mod commands;
mod description;
mod drain;
mod event_stream;
mod hostile;
mod joining;
mod notices;
mod time;

fn new_database(folder: &std::path::Path) -> doclock::settings::DatabaseUrl {
    doclock::settings::DatabaseUrl::Sqlite(folder.join("doclock.db"))
}
