//! `locks`, `unlock`, `events`, `check`, `health` and completions.

use std::{fs, net::TcpListener};

use doclock::auth::Role;
use serde_json::Value;

use crate::{
    caller::eventually,
    process::{Home, token},
    shell::{Ran, Shell},
};

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
}

#[tokio::test]
async fn locks_shows_who_holds_what_to_people_and_to_programs() {
    let shell = Shell::new();
    let alice = shell.process.editor("alice");
    alice.lock("one", 60).await.ok();
    alice.lock("two", 60).await.ok();
    let table = shell.run_as_admin(&["locks"]).ok();
    assert_eq!(table.lines().count(), 3);
    assert!(table.starts_with("DOCUMENT") && table.contains("room/one") && table.contains("alice"), "{table}");
    let locks = json_lines(&shell.run_as_admin(&["--json", "locks", "--owner", "alice"]).ok());
    assert_eq!(locks.len(), 2);
    assert_eq!((&locks[1]["document"], &locks[1]["fencing_token"]), (&"two".into(), &1.into()));
    assert_eq!(shell.run_as_admin(&["locks", "--owner", "bob"]).ok().lines().count(), 1);
    let first = shell.run_as_admin(&["locks", "--limit", "1"]).ok();
    assert!(first.lines().count() == 3 && first.contains("… and more"), "{first}");
}

#[tokio::test]
async fn the_locks_of_one_room_need_no_admin() {
    let shell = Shell::new();
    shell.process.editor("alice").lock("one", 60).await.ok();
    assert!(shell.run(&["locks", "room"]).ok().contains("room/one"));
    let refused = shell.run(&["locks"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.error.contains("ROLE_FORBIDS"), "{}", refused.error);
}

#[tokio::test]
async fn unlock_ends_what_it_names_and_nothing_else() {
    let shell = Shell::new();
    let alice = shell.process.editor("alice");
    for document in ["one", "two", "three"] {
        alice.lock(document, 60).await.ok();
    }
    let ended = shell.run_as_admin(&["--json", "unlock", "room/one", "--reason", "left open"]).ok();
    assert_eq!(json_lines(&ended), [serde_json::json!({ "unlocked": 1 })]);
    let left = shell.admin.locks().await;
    assert_eq!(left.len(), 2);
    let lease = left[0]["lease_id"].as_str().unwrap();
    assert_eq!(shell.run_as_admin(&["unlock", "--lease", lease]).ok(), "locks ended: 1\n");
    assert_eq!(shell.run_as_admin(&["unlock", "--lease", lease]).ok(), "locks ended: 0\n");
    assert_eq!(shell.run_as_admin(&["unlock", "--owner", "alice"]).ok(), "locks ended: 1\n");
    assert_eq!(shell.run_as_admin(&["unlock"]).code, Some(2), "nothing named is nothing meant");
    let events = shell.run_as_admin(&["events"]).ok();
    assert!(events.contains("revoked  by job  note: left open"), "{events}");
}

#[tokio::test]
async fn events_shows_the_last_ones_oldest_first_and_follows() {
    let shell = Shell::new();
    let alice = shell.process.editor("alice");
    for number in 1..=3 {
        alice.lock(&format!("d{number}"), 60).await.ok();
    }
    let sequences = |ran: Ran| {
        let events = json_lines(&ran.ok());
        events.iter().map(|event| event["sequence"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(sequences(shell.run_as_admin(&["--json", "events"])), [1, 2, 3]);
    assert_eq!(sequences(shell.run_as_admin(&["--json", "events", "--limit", "2"])), [2, 3]);
    assert_eq!(sequences(shell.run_as_admin(&["--json", "events", "--after", "1"])), [2, 3]);
    assert_eq!(sequences(shell.run_as_admin(&["--json", "events", "--document", "d2"])), [2]);

    let file = fs::File::create(shell.home.path().join("followed")).unwrap();
    let arguments = ["--json", "events", "--follow", "--limit", "1"];
    let mut follows = shell.command_as(Role::Admin, &arguments).stdout(file).spawn().unwrap();
    let followed = async |count| {
        eventually("the events", async || {
            let lines = shell.written("followed");
            (lines.lines().count() == count).then(|| json_lines(&lines))
        })
        .await
    };
    followed(1).await;
    alice.lock("d4", 60).await.ok();
    alice.lock("d5", 60).await.ok();
    let events = followed(3).await;
    follows.kill().unwrap();
    follows.wait().unwrap();
    assert_eq!(events.iter().map(|event| event["sequence"].as_u64().unwrap()).collect::<Vec<_>>(), [3, 4, 5]);
}

#[test]
fn health_says_whether_the_server_is_ready_without_a_token() {
    let shell = Shell::new();
    let health = |url: &str| Ran::from(shell.home.command(&["health", "--url", url]).output().unwrap());
    assert_eq!(health(&shell.process.base).ok(), format!("{} is ready\n", shell.process.base));
    let nobody = health("http://127.0.0.1:1");
    assert_eq!(nobody.code, Some(1));
    assert!(nobody.error.contains("is not ready") && nobody.error.contains("refused"), "{}", nobody.error);
    assert_eq!(health("nonsense").code, Some(1));
}

#[test]
fn a_machine_without_certificates_can_ask_over_http() {
    let shell = Shell::new();
    let mut command = shell.command(&["health"]);
    command.env("SSL_CERT_FILE", "/dev/null").env("SSL_CERT_DIR", shell.home.path());
    Ran::from(command.output().unwrap()).ok();
}

/// As a server's own machine has it: no address, no token, only the settings.
#[test]
fn beside_a_server_its_own_secret_is_enough() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let home = Home::with_own_secret().set("DOCLOCK_SERVER__LISTEN", format!("127.0.0.1:{port}"));
    let (code, _, error) = home.run(&["locks"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("DOCLOCK_TOKEN"), "{error}");
    assert!(!home.path().join("data").exists(), "asking makes nothing");

    let _process = home.start_on(&format!("127.0.0.1:{port}"));
    for arguments in [&["locks"][..], &["events"], &["health"], &["lock", "room", "--", "true"], &["check"]] {
        let (code, output, error) = home.run(arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {output}{error}");
    }
    let (_, events, _) = home.set("USER", "eve").run(&["--json", "events"]);
    assert_eq!(json_lines(&events)[0]["owner_id"], "cli:unknown");
}

#[test]
fn a_secret_of_this_machine_signs_no_token_for_another() {
    let home = Home::new();
    let (code, _, error) = home.run(&["locks", "--url", "http://192.0.2.1"]);
    assert_eq!(code, Some(1));
    assert!(error.contains("DOCLOCK_TOKEN"), "{error}");
}

#[test]
fn who_asks_a_server_elsewhere_needs_no_settings_of_its_own() {
    let shell = Shell::new();
    let mut command = shell.command(&["lock", "room", "--", "true"]);
    Ran::from(command.env("DOCLOCK_SERVER__LISTEN", "nonsense").output().unwrap()).ok();
}

#[test]
fn check_says_why_a_token_is_refused_with_and_without_a_server() {
    let shell = Shell::new();
    let check = |url: Option<&str>, token: &str| {
        let mut command = shell.home.command(&["--json", "check"]);
        url.map(|url| command.env("DOCLOCK_URL", url));
        let ran = Ran::from(command.env("DOCLOCK_TOKEN", token).output().unwrap());
        let token = json_lines(&ran.output).into_iter().find(|finding| finding["check"] == "token");
        (ran.code.unwrap(), token.unwrap_or_else(|| panic!("{ran:?}"))["detail"].as_str().unwrap().to_owned())
    };
    let stranger = doclock::auth::Claims { sub: "eve".to_owned(), exp: 4e9, ..Default::default() };
    let stranger = stranger.sign(b"another secret, of somebody else altogether").unwrap();
    let old = doclock::auth::Claims { sub: "eve".to_owned(), exp: 1e9, ..Default::default() };
    let old = old.sign(b"a secret that only the tests of this process know").unwrap();
    for url in [None, Some(shell.process.base.as_str())] {
        let (code, told) = check(url, &token("alice", Role::Editor));
        assert_eq!(code, 0, "{told}");
        assert!(told.contains("alice") && told.contains("editor"), "{told}");
        let (code, told) = check(url, &stranger);
        assert_eq!(code, 1);
        assert!(told.contains("signature does not fit") && told.contains("eve"), "{told}");
        let (code, told) = check(url, &old);
        assert_eq!(code, 1);
        assert!(told.contains("has expired") && told.contains("valid until 2001-09-09"), "{told}");
        let (code, told) = check(url, "gibberish");
        assert_eq!(code, 1);
        assert!(told.contains("does not look like a JWT"), "{told}");
    }
}

#[test]
fn check_finds_what_would_stop_the_start_and_changes_nothing() {
    let check = |home: &Home| {
        let (code, output, _) = home.run(&["check"]);
        (code.unwrap(), output)
    };
    let home = Home::with_own_secret();
    let (code, output) = check(&home);
    assert_eq!(code, 0, "{output}");
    assert!(output.contains("the first start makes it"), "{output}");
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);

    fs::create_dir(home.path().join("data")).unwrap();
    fs::write(home.database(), vec![7; 10_000]).unwrap();
    let (code, output) = check(&home);
    assert_eq!(code, 1);
    assert!(output.contains("WRONG   database"), "{output}");
    let (code, output) = check(&Home::new().set("DOCLOCK_SERVER__LISTN", "x"));
    assert_eq!(code, 1);
    assert!(output.contains("WRONG   settings") && output.contains("server.listn"), "{output}");
    let (code, output) = check(&Home::new().set("DOCLOCK_DATABASE__URL", "postgres://127.0.0.1:1/x"));
    assert_eq!(code, 1);
    assert!(output.contains("WRONG   database"), "{output}");
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let (code, script, _) = Home::new().run(&["completions", shell]);
        assert_eq!(code, Some(0));
        assert!(script.contains("new-epoch") && script.contains("parallel"), "{shell}");
    }
}
