//! `doclock lock ROOM[/DOCUMENT] -- command…`.

use std::{ffi::OsString, process::ExitCode, time::Duration};

use clap::Args;
use doclock::{
    auth::Role,
    client::{HeldLock, LockError, LockManager, LockName, settle},
};

use super::{
    Connection, Failure,
    child::{self, Child},
    duration, duration_or_zero,
    signals::{self, Signals},
};

/// The command was not run: the lock was not granted in time (`EX_TEMPFAIL`).
const NOT_ACQUIRED: u8 = 75;
/// The command was ended, or had run too long: the lock was lost.
const LOST: u8 = 76;

/// The command gets SIGTERM when less than this is left, but never while heartbeats are answered as they should be.
const STOP_MARGIN: Duration = Duration::from_secs(5);
/// It gets SIGKILL when less than this is left.
const KILL_MARGIN: Duration = Duration::from_secs(1);
/// How long an interrupted wait may take to tell the server.
const LEAVING: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
#[command(after_help = "\
The command runs without a shell, with DOCLOCK_FENCING_TOKEN in its environment. Heartbeats go out while it runs, and \
the lock is released when it ends. Signals are passed on to it and its children. If heartbeats are not answered, it gets \
SIGTERM, then SIGKILL, before anyone else can have the lock.

Exit codes: the command's own (128 + N if signal N ended it; 127 not found, 126 not started); 75 the lock was not granted \
in time, nothing was run; 76 the lock was lost; 1 the server said no, or cannot be asked.

Examples:
  doclock lock reports/daily -- ./make-report --all
  doclock lock --wait 0s locks/cleanup -- ./cleanup          # not now? Then not at all
  doclock lock --parallel 3 --wait 1h builds/slots -- make   # three at a time")]
pub struct LockArgs {
    /// What to lock: a document of a room, or a room, which means its document `main`.
    #[arg(value_name = "ROOM[/DOCUMENT]", value_parser = lock_name)]
    what: LockName,
    /// How long to wait in line; 0s asks once.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration_or_zero)]
    wait: Duration,
    /// How many may hold it at once. All who use this lock must say the same.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    parallel: u32,
    /// How long the lock outlives this process, should it die.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    ttl: Duration,
    /// Leave the command in the terminal's foreground, so that it can read from it. Signals then reach the command alone,
    /// not its children.
    #[arg(long)]
    foreground: bool,
    /// The command and its arguments, after `--`.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// `ROOM` is the room's own document. (A `LockManager` takes a bare name for a document of the room `locks`.)
pub fn lock_name(text: &str) -> Result<LockName, String> {
    let (room, document) = text.split_once('/').unwrap_or((text, "main"));
    LockName::new(room, document).map_err(|error| error.to_string())
}

pub async fn lock(connection: &Connection<'_>, args: LockArgs) -> Result<ExitCode, Failure> {
    let mut signals = Signals::listen().map_err(|error| format!("cannot listen for signals: {error}"))?;
    let server = connection.server(Role::Editor)?;
    let ttl_seconds = u32::try_from(args.ttl.as_secs()).unwrap_or(u32::MAX);
    let manager = LockManager::of(args.what, args.parallel)?.ttl_seconds(ttl_seconds)?.backend(server);
    let held = tokio::select! {
        held = manager.lock(args.wait) => held.map_err(|error| not_acquired(&error))?,
        signal = signals.next() => {
            // Dropped by then, the wait gives up its place and what may have been granted.
            settle(LEAVING).await;
            return Ok(signals::exit_code(signal).into());
        }
    };
    match Child::start(&args.command, held.fencing_token(), args.foreground) {
        Ok(command) => run(command, held, args.ttl, &mut signals).await,
        Err(error) => {
            let _ = held.release().await;
            let program = args.command[0].display();
            Err(Failure(format!("cannot start {program}: {error}"), child::exit_code_of_failure(&error).into()))
        }
    }
}

fn not_acquired(error: &LockError) -> Failure {
    let code = if let LockError::Timeout(_) = error { NOT_ACQUIRED.into() } else { ExitCode::FAILURE };
    Failure(error.to_string(), code)
}

async fn run(mut command: Child, held: HeldLock, ttl: Duration, signals: &mut Signals) -> Result<ExitCode, Failure> {
    let stop_margin = STOP_MARGIN.min(ttl / 3);
    tokio::select! {
        status = command.run(signals) => {
            let status = status.map_err(|error| format!("cannot wait for the command: {error}"))?;
            finish(held, child::exit_code(status)).await
        }
        () = held.nearly_lost(stop_margin) => {
            let why = held.ensure_held().map_or_else(
                |lost| lost.to_string(),
                |()| format!("no heartbeat for the lock on {} was answered in time", held.name()),
            );
            let kill_margin = KILL_MARGIN.min(ttl / 10);
            command.end(held.expires_in().saturating_sub(kill_margin).min(STOP_MARGIN)).await;
            let _ = held.release().await;
            Err(Failure(format!("ended the command: {why}"), LOST.into()))
        }
    }
}

async fn finish(held: HeldLock, code: u8) -> Result<ExitCode, Failure> {
    match held.release().await {
        Ok(()) => {}
        Err(LockError::Lost(lost)) => {
            return Err(Failure(format!("while the command ran, {lost}; it ended with {code}"), LOST.into()));
        }
        Err(error) => eprintln!("doclock: the lock lives out its ttl: {error}"),
    }
    Ok(code.into())
}
