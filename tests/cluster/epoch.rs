//! A new epoch, and servers whose database was put back in time.

use crate::{postgres::new_database, servers::Servers};

/// Waits for the end that each server came to by itself.
fn all_stop_and_say_why(servers: &mut Servers) {
    for process in &mut servers.processes {
        assert_eq!(process.wait().code(), Some(1), "{:?}", process.log());
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
