//! Live notices over real sockets: each test has servers of its own, and a clock that moves when the test says so.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

#[path = "../faults/caller.rs"]
#[allow(dead_code, reason = "shared with the tests of faults")]
mod caller;
mod client;
mod costs;
#[path = "../api/polls.rs"]
#[allow(dead_code, reason = "shared with the tests of the API")]
mod polls;
#[path = "../support/postgres.rs"]
mod postgres;
#[path = "../faults/process.rs"]
#[allow(dead_code, reason = "shared with the tests of faults")]
mod process;
mod raw;
mod readers;
#[path = "../api/support.rs"]
#[allow(dead_code, reason = "shared with the tests of the API")]
mod support;

mod auth;
mod busy;
mod cluster;
mod commands;
mod description;
mod drain;
mod event_stream;
mod fuzz;
mod handovers;
mod hostile;
mod joining;
mod kept;
mod memory;
mod notices;
mod pair;
mod passes;
mod presence;
mod presence_cluster;
mod restarts;
mod saves;
mod time;
mod upgrade;
mod waiting;

fn new_database(folder: &std::path::Path) -> doclock::settings::DatabaseUrl {
    doclock::settings::DatabaseUrl::Sqlite(folder.join("doclock.db"))
}
