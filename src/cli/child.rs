//! The command that runs while the lock is held.

use std::{ffi::OsString, io, os::unix::process::ExitStatusExt as _, process::ExitStatus, time::Duration};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::process::{Child as Process, Command};

use super::signals::Signals;

/// The command, in a process group of its own unless it stays in the foreground.
#[derive(Debug)]
pub struct Child {
    process: Process,
    pid: Option<Pid>,
    in_foreground: bool,
}

impl Child {
    /// Starts it without a shell: arguments are passed as they are.
    pub fn start(command: &[OsString], fencing_token: u64, in_foreground: bool) -> io::Result<Self> {
        let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(arguments).env("DOCLOCK_FENCING_TOKEN", fencing_token.to_string());
        if !in_foreground {
            command.process_group(0);
        }
        let process = command.spawn()?;
        let pid = process.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(Self { process, pid, in_foreground })
    }

    /// Runs it to its end. Passes signals on meanwhile.
    pub async fn run(&mut self, signals: &mut Signals) -> io::Result<ExitStatus> {
        loop {
            tokio::select! {
                status = self.process.wait() => return status,
                signal = signals.next() => {
                    // A terminal has sent these to the whole foreground already.
                    if !(self.in_foreground && [Signal::INT, Signal::QUIT].contains(&signal)) {
                        self.send(signal);
                    }
                }
            }
        }
    }

    /// Ends it, politely for as long as `grace`. Of a group nothing is left then, not even who ignores SIGTERM.
    pub async fn end(&mut self, grace: Duration) {
        self.send(Signal::TERM);
        // A command that is stopped would not hear it.
        self.send(Signal::CONT);
        let _ = tokio::time::timeout(grace, self.process.wait()).await;
        self.send(Signal::KILL);
        let _ = self.process.wait().await;
    }

    fn send(&self, signal: Signal) {
        let Some(pid) = self.pid else { return };
        // Whoever is gone needs no signal.
        let _ = if self.in_foreground { self.send_to_one(pid, signal) } else { kill_process_group(pid, signal) };
    }

    fn send_to_one(&self, pid: Pid, signal: Signal) -> rustix::io::Result<()> {
        // Once it has been waited for, its number may be somebody else's.
        if self.process.id().is_some() { kill_process(pid, signal) } else { Ok(()) }
    }
}

/// The exit code of the command, as shells have it.
pub fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// The exit code where the command could not be started, as shells have it.
pub fn exit_code_of_failure(error: &io::Error) -> u8 {
    if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 }
}
