//! Several servers on one PostgreSQL behave as one, whatever happens to them, to the database or to its clock.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

#[path = "../faults/caller.rs"]
#[allow(dead_code, reason = "shared with the tests of one server")]
mod caller;
#[path = "../faults/ledger.rs"]
#[allow(dead_code, reason = "shared with the tests of one server")]
mod ledger;
#[path = "../support/postgres.rs"]
mod postgres;
#[path = "../faults/process.rs"]
#[allow(dead_code, reason = "shared with the tests of one server")]
mod process;
mod servers;

mod clock;
mod epoch;
mod expiry;
mod freeze;
mod grace;
mod heartbeats;
mod kill;
mod outages;
mod races;
mod reads;
mod start;
mod waiting;
