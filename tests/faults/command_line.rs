//! How the program starts, and how it says that it cannot.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::{PermissionsExt as _, symlink},
};

use serde_json::json;

use crate::{
    caller::Caller,
    process::{Home, Process},
};

/// Checks that the program fails with this line on standard error and prints nothing else.
#[track_caller]
fn refuses(home: &Home, arguments: &[&str], expected: &str) {
    let (code, output, error) = home.run(arguments);
    assert_eq!(code, Some(1), "{output}{error}");
    assert_eq!(output, "");
    assert!(error.starts_with("doclock: ") && error.contains(expected), "{error}");
    assert_eq!(error.trim_end().lines().count(), 1, "{error}");
}

#[test]
fn a_second_process_on_the_same_database_is_refused() {
    let home = Home::new();
    let mut first = home.start();
    refuses(&home, &["--listen", "127.0.0.1:0"], "is in use by another doclock");
    assert!(first.is_running());
}

#[test]
fn a_second_process_on_a_link_to_the_database_is_refused() {
    let (home, other) = (Home::new(), Home::new());
    let _process = home.start();
    fs::create_dir(other.path().join("data")).unwrap();
    symlink(home.database(), other.database()).unwrap();
    refuses(&other, &["--listen", "127.0.0.1:0"], "is in use by another doclock");
    // A folder that is a link leads there too.
    let third = Home::new();
    symlink(home.path().join("data"), third.path().join("data")).unwrap();
    refuses(&third, &["--listen", "127.0.0.1:0"], "is in use by another doclock");
}

#[test]
fn a_port_in_use_is_told_in_one_line() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    refuses(&Home::new(), &["--listen", &address], &format!("cannot listen on {address}"));
}

#[test]
fn bad_settings_are_told_in_one_line() {
    let serve = ["--listen", "127.0.0.1:0"];
    for (name, value, expected) in [
        ("DOCLOCK_SERVER__LISTN", "x", "DOCLOCK_SERVER__LISTN: there is no setting `server.listn`"),
        ("DOCLOCK_LOCKS__TTL_SECONDS", "soon", "DOCLOCK_LOCKS__TTL_SECONDS: must be a whole number"),
        ("DOCLOCK_DATABASE__URL", "mysql://x", "setting `database.url`"),
        ("DOCLOCK_JOBS__SWEEP", "whenever", "setting `jobs.sweep`"),
        ("DOCLOCK_LOG__LEVEL", "loud", "setting `log.level`"),
        ("DOCLOCK_AUTH__SECRET_FILE", "nowhere", "nowhere"),
    ] {
        refuses(&Home::with_own_secret().set(name, value), &serve, expected);
    }
    let home = Home::new();
    refuses(&home, &["--config", "missing.toml"], "cannot read settings file missing.toml");
    fs::write(home.path().join("bad.toml"), "[server\n").unwrap();
    refuses(&home, &["--config", "bad.toml"], "bad.toml is not TOML");
    refuses(&home, &["--listen", "here"], "setting `server.listen`");
}

#[test]
fn a_database_that_is_not_one_is_told_in_one_line_and_left_as_it_is() {
    let home = Home::new();
    fs::create_dir(home.path().join("data")).unwrap();
    let garbage = vec![7; 10_000];
    fs::write(home.database(), &garbage).unwrap();
    refuses(&home, &["--listen", "127.0.0.1:0"], "cannot open data/doclock.db: ");
    assert_eq!(fs::read(home.database()).unwrap(), garbage);
}

#[tokio::test]
async fn in_an_empty_folder_it_makes_a_database_and_a_secret_and_prints_where_the_demo_is() {
    let home = Home::with_own_secret();
    let process = home.start();
    let secret = home.path().join("data/doclock.secret");
    let log = home.path().join("data/doclock.db-wal");
    for file in [secret, home.database(), log] {
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600, "{}", file.display());
    }

    let output = crate::caller::eventually("the demo's address is printed", async || {
        let output = process.output();
        output.iter().any(|line| line.ends_with(&format!("{}/", process.base))).then_some(output)
    })
    .await;
    // Nobody reads this on a terminal: a token would end up in a journal.
    assert!(!output.iter().any(|line| line.contains("token=")), "{output:?}");
    let visitor = Caller::new(&process.base, String::new());
    let page = visitor.get("/").await;
    assert_eq!((page.status, page.content_type.as_str()), (200, "text/html; charset=utf-8"));
    let session = visitor.send(reqwest::Method::POST, "/api/demo/sessions", json!({"name": "Aiko"})).await.ok();
    let aiko = Caller::new(&process.base, session["token"].as_str().unwrap().to_owned());
    let lock = aiko.send(reqwest::Method::POST, "/api/documents/demo-room/lock", json!({})).await.ok();
    assert_eq!(lock["holder"]["name"], "Aiko");
    assert_eq!(aiko.lock("document", 30).await.body["code"], "ROOM_FORBIDDEN");
}

#[test]
fn links_are_printed_only_with_a_secret_of_its_own_and_on_loopback() {
    let given = Home::new().start();
    given.signal("TERM");
    assert_eq!(printed(given).len(), 1);
    let open = Home::with_own_secret().start_on("0.0.0.0:0");
    open.signal("TERM");
    assert_eq!(printed(open).len(), 1);
}

#[tokio::test]
async fn a_token_of_the_command_line_works_in_its_rooms_only() {
    let home = Home::with_own_secret();
    let process = home.start();
    let arguments = ["token", "--sub", "alice", "--role", "editor", "--room", "team-*", "--ttl", "8h"];
    let (code, token, error) = home.run(&arguments);
    assert_eq!((code, error.as_str(), token.lines().count()), (Some(0), "", 1));
    let alice = Caller::new(&process.base, token.trim().to_owned());
    let path = |room: &str| format!("/api/documents/{room}/lock");
    let lock = async |room| alice.send(reqwest::Method::POST, &path(room), serde_json::json!({})).await;
    assert_eq!(lock("team-a").await.ok()["holder"]["owner_id"], "alice");
    let refused = lock("other").await;
    assert_eq!((refused.status, refused.body["code"].as_str()), (403, Some("ROOM_FORBIDDEN")));
    assert_eq!(alice.get("/api/admin/locks").await.status, 403);
}

#[test]
fn a_bad_ttl_of_a_token_is_refused() {
    let home = Home::new();
    for ttl in ["", "8", "h", "0h", "-1h", "8w", "99999999d", "８h", "8é"] {
        let (code, token, error) = home.run(&["token", "--sub", "alice", &format!("--ttl={ttl}")]);
        assert_eq!((code, token.as_str()), (Some(2), ""), "{ttl}: {error}");
        assert!(error.contains("--ttl") && !error.contains("panicked"), "{ttl}: {error}");
    }
}

/// Returns the lines printed until the program has ended.
fn printed(mut process: Process) -> Vec<String> {
    assert_eq!(process.wait().code(), Some(0));
    process.output()
}
