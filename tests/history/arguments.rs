//! What was asked for on the command line, beside what the test runner passes to every test.

use std::time::Duration;

use crate::servers::Kind;

pub const NAME: &str = "history";
/// Flags of the test runner that are followed by a value.
const WITH_VALUE: [&str; 6] = ["--test-threads", "--skip", "--color", "--format", "--logfile", "--shuffle-seed"];

#[derive(Debug)]
pub struct Arguments {
    /// For all homes together.
    pub time: Duration,
    pub homes: Vec<Kind>,
    pub seed: Option<u64>,
    /// Whether the rounds after one with a violation are run too.
    pub goes_on: bool,
    /// A filter, or a list, that means other tests.
    pub runs_nothing: bool,
}

impl Arguments {
    pub fn parse(mut given: impl Iterator<Item = String>) -> Result<Self, String> {
        let homes = vec![Kind::Sqlite, Kind::Postgres];
        let mut arguments =
            Self { time: Duration::from_mins(1), homes, seed: None, goes_on: false, runs_nothing: false };
        while let Some(argument) = given.next() {
            let (name, joined) = match argument.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (argument, None),
            };
            let mut value = || joined.clone().or_else(|| given.next()).ok_or(format!("{name} needs a value"));
            match name.as_str() {
                "--minutes" => {
                    let minutes: f64 = value()?.parse().map_err(|_| "--minutes needs a number")?;
                    arguments.time = Duration::try_from_secs_f64(minutes * 60.0).map_err(|error| error.to_string())?;
                }
                "--home" => arguments.homes = homes_named(&value()?)?,
                "--seed" => arguments.seed = Some(value()?.parse().map_err(|_| "--seed needs a whole number")?),
                "--keep-going" => arguments.goes_on = true,
                "--list" | "--ignored" => arguments.runs_nothing = true,
                name if WITH_VALUE.contains(&name) => drop(value()?),
                name if name.starts_with('-') => {}
                filter => arguments.runs_nothing |= !filter.contains(NAME),
            }
        }
        Ok(arguments)
    }
}

fn homes_named(name: &str) -> Result<Vec<Kind>, String> {
    Ok(match name {
        "sqlite" => vec![Kind::Sqlite],
        "postgres" => vec![Kind::Postgres],
        "both" => vec![Kind::Sqlite, Kind::Postgres],
        other => return Err(format!("--home is sqlite, postgres or both, not {other}")),
    })
}
