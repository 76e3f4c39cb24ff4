//! Several servers on one PostgreSQL.

use std::time::Duration;

use doclock::{
    app::{App, Options},
    auth::Role,
    settings::{DatabaseUrl, Settings, Sources},
};
use serde_json::{Value, json};
use tokio::{sync::oneshot, task::JoinHandle};

use crate::{
    client::{self, Socket, sequence},
    postgres,
    support::{SECRET, claims},
};

struct Server {
    base: String,
    stop: oneshot::Sender<()>,
    running: JoinHandle<()>,
}

impl Server {
    async fn start(url: &str, notify: bool) -> Self {
        let mut settings = Settings::load(&Sources::default()).unwrap();
        settings.server.listen = "127.0.0.1:0".parse().unwrap();
        settings.server.drain_seconds = 1;
        settings.database.url = DatabaseUrl::Postgres(url.to_owned());
        settings.database.notify = notify;
        settings.auth.secret = Some(SECRET.to_owned());
        let options = Options { http_workers: Some(1), ..Options::default() };
        let app = App::start(settings, options).await.unwrap();
        let (stop, stopped) = oneshot::channel();
        let base = format!("http://{}", app.address);
        let running = tokio::spawn(async move {
            app.run(async {
                let _ = stopped.await;
            })
            .await
            .unwrap();
        });
        Self { base, stop, running }
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.running.await.unwrap();
    }
}

fn bearer(sub: &str, role: Role) -> String {
    let mut claims = claims(sub, role);
    claims.exp = 4e9;
    format!("Bearer {}", claims.sign(SECRET.as_bytes()).unwrap())
}

async fn socket(base: &str, sub: &str, role: Role) -> Socket {
    let mut socket = client::open(base, "/ws", &[("authorization", &bearer(sub, role))]).await;
    assert_eq!(socket.next().await["type"], "welcome");
    socket
}

/// A reader that is cut off every now and then, and comes back to the other server with what it knows.
async fn follow(bases: Vec<String>, reader: usize) -> Vec<i64> {
    let room = format!("room {}", reader % 4);
    let (mut seen, mut after, mut epoch) = (Vec::new(), None::<i64>, Value::Null);
    for visit in 0.. {
        let mut socket =
            socket(&bases[(reader + visit) % bases.len()], &format!("reader {reader}"), Role::Viewer).await;
        let known = after.map(|sequence| json!({"epoch": epoch, "sequence": sequence}));
        let is_back = known.is_some();
        let told = socket.subscribe(&room, known).await;
        assert_eq!(told.opening["recovered"], is_back);
        epoch = told.opening["epoch"].clone();
        seen.extend(told.events.iter().map(sequence));
        after = Some(sequence(&told.opening));
        let until = 5 + (reader * 7 + visit * 13) % 20;
        for _ in 0..until {
            // Silence is the end: nothing is ever so late.
            let Ok(notice) = tokio::time::timeout(Duration::from_secs(3), socket.next()).await else { return seen };
            seen.push(sequence(&notice));
            after = seen.last().copied();
        }
        // Cut, not closed.
        drop(socket);
    }
    seen
}

async fn every_reader_gets_its_room(notify: bool) {
    const EDITORS: usize = 8;
    const TURNS: usize = 60;
    let url = postgres::new_database();
    let servers = [Server::start(&url, notify).await, Server::start(&url, notify).await];
    let bases: Vec<_> = servers.iter().map(|server| server.base.clone()).collect();
    let readers: Vec<_> = (0..24).map(|reader| tokio::spawn(follow(bases.clone(), reader))).collect();
    // Everyone is there before anything happens.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let editors: Vec<_> = (0..EDITORS)
        .map(|editor| {
            let base = bases[editor % 2].clone();
            tokio::spawn(async move {
                let mut socket = socket(&base, &format!("editor {editor}"), Role::Editor).await;
                for turn in 0..TURNS {
                    let room = format!("room {}", (editor + turn) % 4);
                    let document = format!("document {editor}");
                    let ask = |kind: &str| json!({"type": kind, "room": room, "document": document});
                    assert_eq!(socket.ask(ask("lock")).await["type"], "ok");
                    assert_eq!(socket.ask(ask("unlock")).await["type"], "ok");
                }
            })
        })
        .collect();
    for editor in editors {
        editor.await.unwrap();
    }
    let log = log(&bases[0]).await;
    assert_eq!(log.len(), EDITORS * TURNS * 2);
    for (reader, seen) in readers.into_iter().enumerate() {
        let room = format!("room {}", reader % 4);
        let expected: Vec<_> = log.iter().filter(|event| event["room"] == room).map(sequence).collect();
        assert_eq!(seen.await.unwrap(), expected, "reader {reader}");
    }
    for server in servers {
        server.stop().await;
    }
}

async fn log(base: &str) -> Vec<Value> {
    let url = format!("{base}/api/admin/events?limit=1000");
    let request = reqwest::Client::new().get(url).header("authorization", bearer("root", Role::Admin));
    let answer: Value = request.send().await.unwrap().json().await.unwrap();
    answer["items"].as_array().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_that_change_servers_miss_nothing() {
    every_reader_gets_its_room(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_miss_nothing_without_notify_either() {
    every_reader_gets_its_room(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[allow(clippy::disallowed_methods, reason = "how late a notice is, is real time")]
async fn a_commit_is_heard_on_the_other_server_at_once() {
    let url = postgres::new_database();
    let servers = [Server::start(&url, true).await, Server::start(&url, true).await];
    let mut reader = socket(&servers[1].base, "eve", Role::Viewer).await;
    reader.subscribe("room", None).await;
    let mut editor = socket(&servers[0].base, "alice", Role::Editor).await;
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
    for server in servers {
        server.stop().await;
    }
}
