//! Back ends and shells as clients: `LockManager` in Rust on both of its backends, and the command line, against a real
//! server. (`clients/python/tests` has Python's, and both together.)

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

#[path = "../faults/caller.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod caller;
#[path = "../faults/process.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod process;
mod proxy;
mod shell;
mod world;

mod asking;
mod holding;
mod locking;
mod losing;
mod running;
mod waiting;
