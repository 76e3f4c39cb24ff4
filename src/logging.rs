//! Log lines on standard error, for people or for machines.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::settings::{Log, LogFormat};

pub fn start(settings: &Log) -> Result<(), String> {
    // A plain level is doclock's own; the libraries below it speak up when something is wrong with the server. What
    // clients send wrongly is actix_http's only complaint, and theirs to hear.
    let directives = match settings.level.as_str() {
        level if level.contains([',', '=']) => level.to_owned(),
        level => format!("warn,actix_http=off,doclock={level}"),
    };
    let filter = EnvFilter::try_new(directives).map_err(|error| format!("setting `log.level`: {error}"))?;
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    let is_json = match settings.format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => !io::stderr().is_terminal(),
    };
    let started = if is_json { subscriber.json().flatten_event(true).try_init() } else { subscriber.try_init() };
    started.map_err(|error| format!("logging: {error}"))
}
