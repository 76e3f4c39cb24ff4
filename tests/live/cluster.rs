//! Several servers on one PostgreSQL.

use std::time::Duration;

use doclock::auth::Role;
use serde_json::json;

use crate::{
    client::{self, Socket, sequence},
    postgres,
    process::{Home, Process, token},
    readers::every_reader_gets_its_room,
};

struct Servers {
    processes: [Process; 2],
    _home: Home,
}

impl Servers {
    fn start(notify: bool) -> Self {
        let home = Home::new()
            .set("DOCLOCK_DATABASE__URL", postgres::new_database())
            .set("DOCLOCK_DATABASE__NOTIFY", notify.to_string());
        Self { processes: [home.start(), home.start()], _home: home }
    }

    async fn every_reader_gets_its_room(self) {
        let bases = self.processes.iter().map(|process| process.base.clone()).collect();
        every_reader_gets_its_room(bases, || self.processes[0].admin(), async |_| {}).await;
        self.processes.into_iter().for_each(Process::stop);
    }
}

async fn socket(server: &Process, sub: &str, role: Role) -> Socket {
    let bearer = format!("Bearer {}", token(sub, role));
    let mut socket = client::open(&server.base, "/ws", &[("authorization", &bearer)]).await;
    assert_eq!(socket.next().await["type"], "welcome");
    socket
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_that_change_servers_miss_nothing() {
    Servers::start(true).every_reader_gets_its_room().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_miss_nothing_without_notify_either() {
    Servers::start(false).every_reader_gets_its_room().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::disallowed_methods, reason = "how late a notice is, is real time")]
async fn a_commit_is_heard_on_the_other_server_at_once() {
    let servers = Servers::start(true);
    let [first, second] = &servers.processes;
    let mut reader = socket(second, "eve", Role::Viewer).await;
    reader.subscribe("room", None).await;
    let mut editor = socket(first, "alice", Role::Editor).await;
    let mut delays = Vec::new();
    for turn in 0..20 {
        let kind = if turn % 2 == 0 { "lock" } else { "unlock" };
        assert_eq!(editor.ask(json!({"type": kind, "room": "room"})).await["type"], "ok");
        let committed = std::time::Instant::now();
        assert_eq!(sequence(&reader.next().await), turn + 1);
        delays.push(committed.elapsed());
    }
    delays.sort_unstable();
    assert!(delays[10] < Duration::from_millis(60), "polling alone would take 100 ms: {delays:?}");
}
