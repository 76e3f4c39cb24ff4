//! `doclock lock … -- command`.

use serde_json::Value;

use crate::{
    caller::eventually,
    proxy::Proxy,
    shell::Shell,
    world::{history, in_line},
};

/// A command that ends only when it is told to.
const STAYS: &str = "touch ready; while :; do sleep 0.05; done";

#[test]
fn the_command_has_its_own_exit_code_and_the_fencing_token() {
    let shell = Shell::new();
    for token in ["1", "2"] {
        let ran = shell.run(&["lock", "room/it", "--", "sh", "-c", "printf $DOCLOCK_FENCING_TOKEN; exit 7"]);
        assert_eq!((ran.code, ran.output.as_str(), ran.error.as_str()), (Some(7), token, ""));
    }
    let ran = shell.run(&["lock", "room/it", "--", "sh", "-c", "kill -KILL $$"]);
    assert_eq!(ran.code, Some(128 + 9));
}

#[test]
fn arguments_are_passed_as_they_are_without_a_shell() {
    let ran = Shell::new().run(&["lock", "room", "--", "printf", "%s|", "$HOME", "a b", "--wait", "*"]);
    assert_eq!(ran.ok(), "$HOME|a b|--wait|*|");
}

#[tokio::test]
async fn a_command_that_cannot_be_started_is_told_and_leaves_no_lock() {
    let shell = Shell::new();
    let ran = shell.run(&["lock", "room/it", "--", "there-is-no-such-command"]);
    assert_eq!(ran.code, Some(127));
    assert!(ran.error.contains("there-is-no-such-command"), "{}", ran.error);
    assert_eq!(shell.run(&["lock", "room/it", "--", "/"]).code, Some(126));
    assert_eq!(history(&shell.admin).await.1, ["released", "released"]);
}

#[tokio::test]
async fn a_room_alone_means_its_own_document() {
    let shell = Shell::new();
    shell.run(&["lock", "room", "--", "true"]).ok();
    assert_eq!(shell.admin.events().await[0]["document"], "main");
}

#[tokio::test]
async fn exit_code_75_if_it_is_not_granted_in_time_and_nothing_is_run() {
    let shell = Shell::new();
    let holder = shell.hold(&["room/it"], STAYS).await;
    for wait in ["0s", "1s"] {
        let ran = shell.run(&["lock", "room/it", "--wait", wait, "--", "touch", "was-run"]);
        assert_eq!(ran.code, Some(75), "{}", ran.error);
        assert!(ran.error.starts_with("doclock: the lock on room/it was not granted"), "{}", ran.error);
    }
    assert!(!shell.home.path().join("was-run").exists());
    holder.signal("TERM");
    assert_eq!(holder.end().await.code, Some(128 + 15));
    assert_eq!(history(&shell.admin).await, (vec![1], vec!["released".to_owned()]), "the holder kept it to its end");
}

#[tokio::test]
async fn parallel_3_lets_three_in() {
    let shell = Shell::new();
    let at_once = ["room/it", "--parallel", "3", "--wait", "0s"];
    let mut holders = Vec::new();
    for _ in 0..3 {
        holders.push(shell.hold(&at_once, STAYS).await);
    }
    let fourth = [&["lock"], &at_once[..], &["--", "true"]].concat();
    assert_eq!(shell.run(&fourth).code, Some(75));
    for holder in holders {
        holder.signal("TERM");
        holder.end().await;
    }
}

#[test]
fn exit_code_1_if_the_server_says_no() {
    let shell = Shell::new();
    let mut command = shell.command(&["lock", "room/it", "--", "true"]);
    let output = command.env("DOCLOCK_TOKEN", "not.a.token").output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("TOKEN_INVALID"), "{error}");
}

#[tokio::test]
async fn signals_are_passed_on_to_the_command_and_its_children() {
    let shell = Shell::new();
    for (signal, code) in [("USR1", 11), ("HUP", 12), ("TERM", 13)] {
        let child =
            format!("sh -c 'trap \"touch child-{signal}; exit\" {signal}; touch ready; while :; do sleep 0.05; done'");
        let script = format!("trap 'wait; exit {code}' {signal}; {child} & while :; do wait; done");
        let holder = shell.hold(&["room/it"], &script).await;
        holder.signal(signal);
        assert_eq!(holder.end().await.code, Some(code), "{signal}");
        assert!(shell.home.path().join(format!("child-{signal}")).exists(), "its child has heard it");
    }
    // Shells let what they start in the background ignore this one.
    let holder = shell.hold(&["room/it"], &format!("trap 'exit 14' INT; {STAYS}")).await;
    holder.signal("INT");
    assert_eq!(holder.end().await.code, Some(14));
}

#[tokio::test]
async fn an_interrupted_wait_leaves_the_line_and_takes_nothing() {
    let shell = Shell::new();
    let holder = shell.hold(&["room/it"], STAYS).await;
    let mut waiter = shell.command(&["lock", "room/it", "--", "touch", "was-run"]).spawn().unwrap();
    eventually("the waiter in line", async || (in_line(&shell.admin).await == 1).then_some(())).await;
    crate::process::run("kill", &["-TERM", &waiter.id().to_string()]);
    assert_eq!(waiter.wait().unwrap().code(), Some(128 + 15));
    eventually("the line is empty", async || (in_line(&shell.admin).await == 0).then_some(())).await;
    holder.signal("TERM");
    holder.end().await;
    assert_eq!(history(&shell.admin).await.0, [1]);
    assert!(!shell.home.path().join("was-run").exists());
}

#[tokio::test]
async fn exit_code_76_and_sigterm_for_the_command_if_the_lock_is_ended_by_an_admin() {
    let shell = Shell::new();
    let script = "trap 'touch heard; exit 0' TERM; touch ready; while :; do sleep 0.05; done";
    let holder = shell.hold(&["room/it", "--ttl", "1s"], script).await;
    shell.run_as_admin(&["unlock", "room/it", "--reason", "test"]).ok();
    let ran = holder.end().await;
    assert_eq!(ran.code, Some(76), "{}", ran.error);
    assert!(ran.error.contains("LEASE_REVOKED"), "{}", ran.error);
    assert!(shell.home.path().join("heard").exists());
}

/// How many processes of the group run. Those that have ended and were not waited for do not count.
fn running_in_group(group: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let stat = std::fs::read_to_string(entry.unwrap().path().join("stat")).ok()?;
        // After the name, which may have spaces: state, parent, group.
        let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect();
        Some((fields[0].clone(), fields[2].clone()))
    });
    processes.filter(|(state, of)| state != "Z" && of == group).count()
}

/// The command ignores SIGTERM. If it had lived past the deadline, its lock would have ended as `expired`.
#[tokio::test(flavor = "multi_thread")]
async fn without_heartbeats_the_command_is_killed_before_the_deadline() {
    let shell = Shell::new();
    let proxy = Proxy::losing_heartbeats(&shell.process.base).await;
    let script = "trap '' TERM; echo $$ > pid; touch ready; while :; do sleep 0.05; done";
    let ready = shell.home.path().join("ready");
    let arguments = ["lock", "room/it", "--ttl", "3s", "--", "sh", "-c", script];
    let output = shell.command(&arguments).env("DOCLOCK_URL", &proxy.base).output().unwrap();
    assert_eq!(output.status.code(), Some(76), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(ready.exists());
    assert_eq!(running_in_group(shell.written("pid").trim()), 0, "nothing of its group is left");
    assert_eq!(history(&shell.admin).await, (vec![1], vec!["released".to_owned()]));
}

#[tokio::test]
async fn after_kill_9_of_a_holder_the_next_goes_on_after_the_ttl_and_not_before() {
    let shell = Shell::new();
    let script = "echo $$ > pid; touch ready; exec sleep 60";
    let holder = shell.hold(&["room/it", "--ttl", "1s"], script).await;
    holder.signal("KILL");
    let dead = shell.admin.read("it").await;
    // The command goes on without its lock: that is what fencing tokens are for. Here it has done its part.
    crate::process::run("kill", &["-KILL", shell.written("pid").trim()]);
    holder.end().await;
    shell.run(&["lock", "room/it", "--", "true"]).ok();
    let events = shell.admin.events().await;
    let next = events.iter().find(|event| event["fencing_token"] == 2).unwrap();
    let at = |value: &Value| value.as_str().unwrap().to_owned();
    // Both by the server's clock.
    assert!(at(&next["at"]) >= at(&dead["expires_at"]), "{next} {dead}");
    assert_eq!(history(&shell.admin).await.1, ["expired", "released"]);
}

#[tokio::test]
async fn a_lock_that_ended_while_the_command_ran_is_told_at_its_end() {
    let shell = Shell::new();
    // The next heartbeat is ten seconds away, so that only the release finds out.
    let script = "touch ready; while [ ! -e go ]; do sleep 0.05; done";
    let holder = shell.hold(&["room/it"], script).await;
    shell.run_as_admin(&["unlock", "room/it"]).ok();
    std::fs::write(shell.home.path().join("go"), "").unwrap();
    let ran = holder.end().await;
    assert_eq!(ran.code, Some(76), "{}", ran.error);
}
