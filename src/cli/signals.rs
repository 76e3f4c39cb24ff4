//! Signals that are passed on.

use rustix::process::Signal;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

const PASSED_ON: [Signal; 6] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::USR1, Signal::USR2, Signal::TERM];

/// The signals that this process gets from now on.
#[derive(Debug)]
pub struct Signals(mpsc::UnboundedReceiver<Signal>);

impl Signals {
    pub fn listen() -> std::io::Result<Self> {
        let (sender, receiver) = mpsc::unbounded_channel();
        for passed_on in PASSED_ON {
            let mut arrivals = signal(SignalKind::from_raw(passed_on.as_raw()))?;
            let sender = sender.clone();
            tokio::spawn(async move { while arrivals.recv().await.is_some() && sender.send(passed_on).is_ok() {} });
        }
        Ok(Self(receiver))
    }

    pub async fn next(&mut self) -> Signal {
        match self.0.recv().await {
            Some(signal) => signal,
            None => std::future::pending().await,
        }
    }
}

/// The exit code of a program that a signal has ended, as shells have it.
pub fn exit_code(signal: Signal) -> u8 {
    u8::try_from(128 + signal.as_raw()).unwrap_or(1)
}
