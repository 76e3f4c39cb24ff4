//! The servers of a run, on either home: one on SQLite, two on PostgreSQL.

use std::time::Duration;

use doclock::auth::{Claims, Role};

use crate::{
    postgres::Cluster,
    process::{Home, Process},
    record::Name,
};

const SECRET: &str = "a secret that only this history knows of";
/// The year 2096, whatever a clock is set to.
const NEVER: f64 = 4_000_000_000.0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Sqlite,
    Postgres,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

pub struct Database {
    pub cluster: Cluster,
    pub url: String,
}

pub struct Servers {
    home: Home,
    pub database: Option<Database>,
    pub bases: Vec<Name>,
    pub processes: Vec<Process>,
    /// What servers did that none may do.
    pub complaints: Vec<String>,
}

impl Servers {
    pub fn start(kind: Kind) -> Self {
        let home = Home::with_own_secret().set("DOCLOCK_AUTH__SECRET", SECRET);
        let (home, database, count) = match kind {
            Kind::Sqlite => (home, None, 1),
            Kind::Postgres => {
                let cluster = Cluster::start(60);
                let url = cluster.new_database();
                (home.set("DOCLOCK_DATABASE__URL", url.clone()), Some(Database { cluster, url }), 2)
            }
        };
        let processes: Vec<_> = (0..count).map(|_| home.start()).collect();
        let bases = processes.iter().map(|process| process.base.as_str().into()).collect();
        Self { home, database, bases, processes, complaints: Vec::new() }
    }

    /// Starts it again where it was, after what it said has been read to its end.
    pub fn start_again(&mut self, index: usize) {
        self.read_log(index);
        let address = self.bases[index].trim_start_matches("http://").to_owned();
        self.processes[index] = self.home.start_on(&address);
    }

    /// Waits for a server that was told to stop.
    pub fn has_stopped(&mut self, index: usize) {
        let process = &mut self.processes[index];
        // It drains for five seconds.
        for _ in 0..300 {
            if !process.is_running() {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        if process.is_running() {
            self.complaints.push(format!("server {index} has not stopped half a minute after SIGTERM"));
            process.signal("KILL");
        }
        let status = process.wait();
        if !status.success() {
            self.complaints.push(format!("server {index} was asked to stop and ended with {status}"));
        }
    }

    /// No server ends by itself.
    pub fn look_after(&mut self) {
        for (index, process) in self.processes.iter_mut().enumerate() {
            if !process.is_running() {
                let log = process.log();
                let last: Vec<_> = log.iter().rev().take(5).rev().cloned().collect();
                self.complaints.push(format!("server {index} has ended by itself: {}", last.join("\n")));
            }
        }
    }

    pub fn read_log(&mut self, index: usize) {
        let log = self.processes[index].log();
        let panics = log.iter().filter(|line| line.contains("panicked"));
        self.complaints.extend(panics.map(|line| format!("server {index} has panicked: {line}")));
    }
}

/// Good with every server of the run.
pub fn token(sub: &str, role: Role, may_take_over: bool) -> String {
    let permissions = if may_take_over { vec!["takeover".to_owned()] } else { Vec::new() };
    let claims = Claims { sub: sub.to_owned(), role, permissions, exp: NEVER, ..Claims::default() };
    claims.sign(SECRET.as_bytes()).unwrap_or_default()
}
