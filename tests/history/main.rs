//! The history checker: many clients do things by chance while servers are killed, frozen and restarted and the database
//! is stopped and its clock stepped; everything that was asked, answered, heard and logged is written down; and then
//! the whole history is held against the rules of the contract.
//!
//! `cargo test` runs it for a minute. For longer, and again with the same choices:
//! `cargo test --test history -- --minutes 30 --home postgres --seed 7`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

mod answers;
mod arguments;
mod brink;
#[path = "../faults/caller.rs"]
#[allow(dead_code, reason = "shared with the tests of one server")]
mod caller;
mod chance;
mod checks;
mod clients;
mod followers;
mod history;
mod lines;
mod log;
#[path = "../support/postgres.rs"]
mod postgres;
#[path = "../faults/process.rs"]
#[allow(dead_code, reason = "shared with the tests of one server")]
mod process;
mod races;
mod record;
mod request;
mod round;
mod servers;
mod story;
mod summary;
mod troubles;
mod world;

use std::{process::ExitCode, time::Duration};

use arguments::Arguments;
use checks::Findings;
use record::Watch;
use round::Round;
use servers::{Kind, Servers};
use summary::Summary;

/// A round is judged as a whole, so a long run has many.
const LONGEST_ROUND: Duration = Duration::from_secs(45);
/// Of a round, for the last locks to end and to be heard of.
const QUIET: Duration = Duration::from_secs(11);
/// Stories of one rule that are told; the others are only counted.
const STORIES: usize = 3;

fn main() -> ExitCode {
    let arguments = match Arguments::parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::from(2);
        }
    };
    if arguments.runs_nothing {
        println!("\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 1 filtered out\n");
        return ExitCode::SUCCESS;
    }
    let (planted, unseen) = checks::test_themselves();
    for problem in &unseen {
        println!("the checker itself is wrong: {problem}");
    }
    let seed = arguments.seed.unwrap_or_else(|| u64::from(uuid::Uuid::new_v4().as_fields().0));
    println!("history: seed {seed}, {planted} planted histories judged, {} of them wrongly", unseen.len());
    let mut results = vec![unseen.is_empty()];
    if unseen.is_empty() {
        let share = arguments.time / u32::try_from(arguments.homes.len()).unwrap_or(1);
        results.extend(arguments.homes.iter().map(|home| run(*home, share, seed, arguments.goes_on)));
    }
    let failed = results.iter().filter(|is_well| !**is_well).count();
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "\ntest result: {word}. {} passed; {failed} failed; 0 ignored; 0 measured; 0 filtered out\n",
        results.len() - failed
    );
    ExitCode::from(u8::from(failed > 0))
}

/// Whether all was well on this home.
fn run(home: Kind, time: Duration, seed: u64, goes_on: bool) -> bool {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let watch = Watch::start();
    let rounds = time.as_secs().div_ceil(LONGEST_ROUND.as_secs()).max(1);
    let load = (time / u32::try_from(rounds).unwrap_or(1)).saturating_sub(QUIET).max(Duration::from_secs(4));
    let mut servers = Servers::start(home);
    let (mut summary, mut start, mut complaints) = (Summary::default(), 0, Vec::new());
    for number in 0..usize::try_from(rounds).unwrap_or(1) {
        let round = Round { number, seed, load, watch, start };
        let (kept, history) = runtime.block_on(round.run(servers));
        servers = kept;
        start = history.log.last().map_or(start, |event| event.sequence);
        let findings = checks::all(&history);
        summary.add(&history, &findings);
        tell(&findings, &history);
        complaints.append(&mut servers.complaints);
        if !goes_on && (summary.violations > 0 || !complaints.is_empty()) {
            println!("stopped after round {} of {rounds}, {:.0} s", number + 1, watch.now().as_secs_f64());
            break;
        }
    }
    for complaint in &complaints {
        println!("VIOLATION: {complaint}");
    }
    let is_well = summary.violations == 0 && complaints.is_empty();
    println!(
        "history on {} ... {} ({:.0} s)",
        home.name(),
        if is_well { "ok" } else { "FAILED" },
        watch.now().as_secs_f64()
    );
    summary.print();
    is_well
}

fn tell(findings: &[Findings], history: &history::History) {
    for Findings { violations, .. } in findings {
        violations.iter().take(STORIES).for_each(|violation| println!("{}", story::tell(violation, history)));
        if violations.len() > STORIES {
            println!("  and {} more of the same rule\n", violations.len() - STORIES);
        }
    }
}
