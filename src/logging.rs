//! Log lines on standard error, for people or for machines.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::settings::{Log, LogFormat};

pub fn start(settings: &Log) -> Result<(), String> {
    // A plain level applies to doclock itself; libraries log warnings. actix_http is silent, because it only warns of
    // bad requests, and their clients are told.
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
