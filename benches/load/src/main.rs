//! The load of `benches/run ws`.
//!
//! - `load sockets …` opens many sockets from one thread and counts what comes, as cheaply as it can; what it does next
//!   it reads from its standard input, line by line, and answers each line with one of JSON.
//! - `load raw` is the least a server can do: it writes a ready frame to every socket of a room, one `write()` each.
//!
//! It is not part of the server: on an error it may simply end with a message.

mod client;
mod frames;
mod http;
mod raw;
mod runs;

use std::process::ExitCode;

type Result<T = (), E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.first().map(String::as_str) {
        Some("sockets") => runs::serve(&arguments[1..]),
        Some("raw") => raw::serve(),
        _ => Err("load sockets ADDRESS PATH SOCKETS ROOMS FRAMES TOKEN CALLS_ADDRESS CALLS_TOKEN | load raw".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("load: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the time of the machine, so that two processes can compare theirs.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn now_ns() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
