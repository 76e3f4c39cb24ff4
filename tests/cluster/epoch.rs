//! A new epoch, and servers whose database was put back in time.

use sea_orm::sqlx::{AssertSqlSafe, Connection as _, Executor as _};
use serde_json::json;

use crate::{
    caller::eventually,
    postgres::new_database,
    servers::{Servers, connect},
};

/// Waits until each server has ended by itself, with the exit code that says not to start it again.
fn all_stop_and_say_why(servers: &mut Servers) {
    for process in &mut servers.processes {
        assert_eq!(process.wait().code(), Some(65), "{:?}", process.log());
        let log = process.log();
        let line = log.iter().find(|line| line.starts_with("doclock: ")).unwrap();
        assert!(line.contains("but this server has seen") && line.contains("doclock new-epoch"), "{line}");
    }
}

#[tokio::test]
async fn a_new_epoch_is_refused_while_a_server_runs_and_then_ends_all_locks() {
    let mut servers = Servers::start(new_database(), 2);
    let alice = servers.processes[0].editor("alice");
    let token = alice.lock("document", 300).await.ok()["fencing_token"].as_i64().unwrap();
    let (code, _, error) = servers.run(&["new-epoch"]);
    assert_eq!((code, error.contains("a server is running")), (Some(1), true), "{error}");
    servers.processes.drain(..).for_each(|process| process.stop());

    let (code, output, error) = servers.run(&["new-epoch"]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    assert!(output.contains("1 locks ended"), "{output}");
    let process = servers.start_one();
    assert_eq!(process.admin().locks().await.len(), 0);
    let events = process.admin().events().await;
    assert_eq!(events.last().unwrap()["reason"], "revoked");
    let next = process.editor("bob").lock("document", 300).await.ok()["fencing_token"].as_i64().unwrap();
    assert!(next > token + 1000, "{next}");
}

#[tokio::test]
async fn servers_that_find_the_log_behind_what_they_have_seen_stop() {
    let mut servers = Servers::start(new_database(), 2);
    for caller in servers.editors("alice") {
        caller.lock("document", 300).await;
    }
    servers.sql("UPDATE log_head SET sequence = 0; DELETE FROM events").await;
    all_stop_and_say_why(&mut servers);
}

/// The log is as long as before, but has another event in the place of one that this server has seen.
#[tokio::test]
async fn a_server_whose_log_was_put_back_and_has_grown_again_stops() {
    let mut servers = Servers::start(new_database(), 1);
    let first = servers.processes[0].editor("alice").lock("document", 300).await.ok();
    servers.processes[0].signal("STOP");
    servers
        .sql("DELETE FROM events; DELETE FROM document_locks; DELETE FROM documents; UPDATE log_head SET sequence = 0")
        .await;
    let other = servers.start_one();
    let second = other.editor("bob").lock("document", 300).await.ok();
    assert_eq!(first["fencing_token"], second["fencing_token"], "nobody else can tell that it was given before");
    servers.processes[0].signal("CONT");
    all_stop_and_say_why(&mut servers);
    assert!(other.editor("bob").extend("document").await.is_ok());
}

#[tokio::test]
async fn a_server_that_starts_while_a_new_epoch_begins_grants_no_old_token() {
    const FLOOR: i64 = 5000;
    let servers = Servers::start(new_database(), 1);
    let alice = servers.processes[0].editor("alice");
    let mut connection = connect(&servers.url).await;
    let mut beginning = connection.begin().await.unwrap();
    beginning.execute("SELECT 1 FROM log_head FOR UPDATE").await.unwrap();
    let asked = tokio::spawn(async move { alice.lock("document", 300).await });
    let mut observer = connect(&servers.url).await;
    eventually("the grant waits for the log", async || {
        let waiting = "SELECT count(*) FROM pg_stat_activity
            WHERE application_name = 'doclock' AND datname = current_database() AND wait_event_type = 'Lock'";
        let waiting: i64 = sea_orm::sqlx::query_scalar(waiting).fetch_one(&mut observer).await.unwrap();
        (waiting > 0).then_some(())
    })
    .await;
    let begin = format!("UPDATE log_head SET epoch = gen_random_uuid(), token_floor = {FLOOR}");
    beginning.execute(AssertSqlSafe(begin)).await.unwrap();
    beginning.commit().await.unwrap();
    let answer = asked.await.unwrap();
    assert!(!answer.is_ok() || answer.body["fencing_token"].as_i64() > Some(FLOOR), "{:#}", answer.body);
    let tokens: Option<i64> =
        sea_orm::sqlx::query_scalar("SELECT max(fencing_token) FROM documents").fetch_one(&mut observer).await.unwrap();
    assert!(tokens.is_none_or(|token| token == 0 || token > FLOOR), "{}", json!(tokens));
}

#[tokio::test]
async fn a_server_that_stood_still_while_a_new_epoch_began_stops() {
    let mut servers = Servers::start(new_database(), 1);
    servers.processes[0].editor("alice").lock("document", 300).await.ok();
    servers.processes[0].signal("STOP");
    let (code, _, error) = servers.run(&["new-epoch"]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    servers.processes[0].signal("CONT");
    all_stop_and_say_why(&mut servers);
}

#[test]
fn a_backup_of_postgresql_is_left_to_pg_dump() {
    let servers = Servers::start(new_database(), 0);
    let (code, output, error) = servers.run(&["backup", "copy"]);
    assert_eq!((code, output.as_str()), (Some(1), ""));
    assert_eq!(error, "doclock: this is for SQLite; on PostgreSQL use pg_dump\n");
}
