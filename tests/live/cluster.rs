//! Several servers on one PostgreSQL.

use doclock::{app::Options, auth::Role};
use serde_json::json;

use crate::{
    client::sequence,
    pair::Pair,
    postgres,
    process::{Home, Process},
    readers::every_reader_gets_its_room,
    support::claims,
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_that_change_servers_miss_nothing() {
    Servers::start(true).every_reader_gets_its_room().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_miss_nothing_without_notify_either() {
    Servers::start(false).every_reader_gets_its_room().await;
}

/// They look by themselves too; here they do not.
#[tokio::test]
async fn a_commit_wakes_the_other_server() {
    let pair = Pair::with_options(|| Options { without_workers: true, ..Options::default() }).await;
    let (mut reader, _) = pair.second.in_room("eve", "room").await;
    let (mut editor, _) = pair.first.in_room_as(claims("alice", Role::Editor), "lobby").await;
    for turn in 1..=20 {
        let kind = if turn % 2 == 1 { "lock" } else { "unlock" };
        assert_eq!(editor.ask(json!({"type": kind, "room": "room"})).await["type"], "ok");
        assert_eq!(sequence(&reader.next().await), turn);
    }
}
