//! README.md tells the truth: its walk-through works when it is pasted, its tables are complete.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
};

use doclock::calls::problem::Code;
use serde_json::Value;

const DOCLOCK: &str = env!("CARGO_BIN_EXE_doclock");
/// As the README has them.
const BINARY: &str = "./target/release/doclock";
const BASE: &str = "http://127.0.0.1:8080";

struct Server {
    process: Child,
    /// Kept open: the server prints more than is read here.
    _output: BufReader<ChildStdout>,
    base: String,
}

impl Server {
    /// As the README starts it, in a folder of its own and on a free port.
    fn start(folder: &Path) -> Self {
        let mut process = Command::new(DOCLOCK)
            .args(["--listen", "127.0.0.1:0"])
            .current_dir(folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let Some((_, base)) = line.trim().split_once(" listens on ") else { panic!("{line}") };
        Self { process, _output: output, base: base.to_owned() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn readme() -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap()
}

/// The one block of shell commands that makes tokens.
fn walk_through() -> String {
    let readme = readme();
    let blocks = readme.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let found: Vec<_> = blocks.filter(|block| block.contains(BINARY)).collect();
    assert_eq!(found.len(), 1, "README.md should have one walk-through");
    found[0].to_owned()
}

/// Each answer's body and status, as `ask` prints them.
fn answers(output: &str) -> Vec<(u16, Value)> {
    let answers = output.split("\n\n").filter(|answer| !answer.trim().is_empty());
    let parse = |answer: &str| {
        let (body, status) = answer.trim().rsplit_once('\n').unwrap_or_else(|| panic!("no status in {answer:?}"));
        (status.parse().unwrap(), serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}")))
    };
    answers.map(parse).collect()
}

#[test]
fn the_walk_through_works_when_pasted() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path());
    let script = walk_through();
    assert!(script.contains(BASE), "the walk-through should speak to {BASE}");
    let script = script.replace(BINARY, DOCLOCK).replace(BASE, &server.base);
    let run =
        Command::new("bash").args(["-euo", "pipefail", "-c", &script]).current_dir(folder.path()).output().unwrap();
    let (output, complaints) = (String::from_utf8(run.stdout).unwrap(), String::from_utf8(run.stderr).unwrap());
    assert!(run.status.success() && complaints.is_empty(), "{}\n{output}\n{complaints}", run.status);

    let answers = answers(&output);
    let statuses: Vec<_> = answers.iter().map(|(status, _)| *status).collect();
    assert_eq!(statuses, [200, 409, 200, 200, 200, 200, 200], "{output}");
    let [locked, refused, extended, verified, unlocked, next, stale] = &answers[..] else { panic!("{output}") };
    assert_eq!((&locked.1["fencing_token"], &locked.1["holder"]["name"]), (&1.into(), &"Alice".into()));
    assert_eq!((&refused.1["code"], &refused.1["lock"]["holder"]["name"]), (&"LOCK_HELD".into(), &"Alice".into()));
    assert_eq!((&extended.1["fencing_token"], &extended.1["ttl_seconds"]), (&1.into(), &60.into()));
    assert_eq!(verified.1["valid"], true);
    assert_eq!(unlocked.1["released"], true);
    assert_eq!((&next.1["fencing_token"], &next.1["document_version"]), (&2.into(), &"v2".into()));
    assert_eq!((&stale.1["valid"], &stale.1["current_token"]), (&false.into(), &2.into()));
}

#[test]
fn the_tables_name_every_setting_and_every_problem() {
    let readme = readme();
    let settings: toml::Table = toml::from_str(include_str!("../config/default.toml")).unwrap();
    for (section, keys) in &settings {
        for key in keys.as_table().unwrap().keys() {
            assert!(readme.contains(&format!("`{section}.{key}`")), "{section}.{key}");
        }
    }
    for code in Code::ALL {
        assert!(readme.contains(&format!("`{}`", code.name())), "{}", code.name());
    }
}
