//! The real process, and what may happen to it: killed, stopped, frozen, its disk full, its database locked, away or
//! broken, its clock stepped, its settings wrong.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod caller;
#[allow(dead_code, reason = "shared with the tests of several servers")]
mod ledger;
mod process;

mod clock;
mod command_line;
mod crash;
mod database;
mod disk_full;
mod disk_sync;
mod epoch;
mod freeze;
mod logs;
mod stop;
