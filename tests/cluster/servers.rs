//! Servers that share a database, and a way to it past them.

use std::thread;

use sea_orm::sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};
use serde_json::Value;

use crate::{
    caller::Caller,
    process::{Home, Process},
};

pub struct Servers {
    pub url: String,
    home: Home,
    pub processes: Vec<Process>,
}

impl Servers {
    /// Starts all of them at the same moment.
    pub fn start(url: String, count: usize) -> Self {
        let home = home(&url);
        let processes = thread::scope(|scope| {
            let starting: Vec<_> = (0..count).map(|_| scope.spawn(|| home.start())).collect();
            starting.into_iter().map(|process| process.join().unwrap()).collect()
        });
        Self { url, home, processes }
    }

    /// Starts one more server.
    pub fn start_one(&self) -> Process {
        self.home.start()
    }

    /// Runs `doclock` with these arguments and returns its exit code, standard output and standard error.
    pub fn run(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        self.home.run(arguments)
    }

    pub fn all(&self) -> Vec<&Process> {
        self.processes.iter().collect()
    }

    /// Returns one caller per server, all of the same owner.
    pub fn editors(&self, sub: &str) -> Vec<Caller> {
        self.processes.iter().map(|process| process.editor(sub)).collect()
    }

    /// Runs statements separated by semicolons, each in a transaction of its own.
    pub async fn sql(&self, statements: &str) {
        let mut connection = connect(&self.url).await;
        for statement in statements.split(';') {
            connection.execute(AssertSqlSafe(statement)).await.unwrap();
        }
    }

    /// Ends every connection that a server has to the database.
    pub async fn terminate_connections(&self) {
        self.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE application_name = 'doclock' AND datname = current_database()",
        )
        .await;
    }
}

/// How a server is started on the database.
pub fn home(url: &str) -> Home {
    Home::new().set("DOCLOCK_DATABASE__URL", url)
}

pub async fn connect(url: &str) -> PgConnection {
    Box::pin(PgConnection::connect(url)).await.unwrap()
}

/// Checks that the log has no gap, and that on each document locks and unlocks alternate with tokens that count up from 1.
pub fn check_log(log: &[Value]) {
    let mut last = std::collections::HashMap::<&str, (i64, bool)>::new();
    for (sequence, event) in (1_i64..).zip(log) {
        assert_eq!(event["sequence"], sequence, "{event:#}");
        let (token, is_locked) = last.entry(event["document"].as_str().unwrap()).or_default();
        let locks = event["type"] == "DocumentLocked";
        assert_eq!(*is_locked, !locks, "{event:#}");
        *token += i64::from(locks);
        assert_eq!(event["fencing_token"], *token, "{event:#}");
        *is_locked = locks;
    }
}
