//! Two servers on one PostgreSQL, whose time passes when a test says so.

use std::time::Duration;

use doclock::{
    app::Options,
    auth::{Claims, Role},
    settings::DatabaseUrl,
    time::clock::ManualClock,
};
use sea_orm::{ConnectionTrait, Database, DatabaseConnection};

use crate::{
    client::{self, Socket, Told},
    postgres,
    support::{Running, SECRET, claims, start_of_time},
};

impl Running {
    /// From one moment to the next, nothing of it says anything to the database any more.
    pub async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }

    pub async fn in_room(&self, sub: &str, room: &str) -> (Socket, Told) {
        self.in_room_as(claims(sub, Role::Viewer), room).await
    }

    pub async fn in_room_as(&self, claims: Claims, room: &str) -> (Socket, Told) {
        let bearer = format!("Bearer {}", token(claims));
        let mut socket = client::open(&self.base, "/ws", &[("authorization", &bearer)]).await;
        assert_eq!(socket.next().await["type"], "welcome");
        let told = socket.subscribe(room, None).await;
        (socket, told)
    }
}

pub fn token(claims: Claims) -> String {
    Claims { exp: 4e9, ..claims }.sign(SECRET.as_bytes()).unwrap()
}

pub struct Pair {
    pub clock: ManualClock,
    pub first: Running,
    pub second: Running,
    pub database: DatabaseConnection,
}

impl Pair {
    /// Both servers have spoken for the first time, when nobody was there. They speak again when time passes.
    pub async fn start() -> Self {
        let pair = Self::with_options(Options::default).await;
        until(&pair.database, "live_servers", 2).await;
        pair
    }

    pub async fn with_options(options: fn() -> Options) -> Self {
        let url = postgres::new_database();
        let clock = start_of_time();
        let home = DatabaseUrl::Postgres(url.clone());
        let start = async || Running::start(&home, &clock, options(), |_| {}).await;
        let (first, second) = (start().await, start().await);
        Self { clock, first, second, database: Database::connect(&url).await.unwrap() }
    }
}

pub async fn count(database: &DatabaseConnection, table: &str) -> i64 {
    let row = database.query_one_raw(statement(&format!("SELECT count(*) AS n FROM {table}"))).await.unwrap();
    row.unwrap().try_get("", "n").unwrap()
}

pub async fn run(database: &DatabaseConnection, sql: &str) {
    database.execute_raw(statement(sql)).await.unwrap();
}

fn statement(sql: &str) -> sea_orm::Statement {
    sea_orm::Statement::from_string(sea_orm::DbBackend::Postgres, sql)
}

/// Waits until a table has so many rows.
pub async fn until(database: &DatabaseConnection, table: &str, expected: i64) {
    let mut found = -1;
    for _ in 0..500 {
        found = count(database, table).await;
        if found == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{found} instead of {expected} in {table}");
}

/// Servers begin another round: with everything that was done before, even if they have not finished the last one.
pub fn round(clock: &ManualClock) {
    clock.advance(Duration::from_millis(500));
}

/// In one round the servers of these people say that they are here; in the next one, which has begun, others hear it.
pub async fn tell(clock: &ManualClock, database: &DatabaseConnection, people: &[&str]) {
    round(clock);
    for owner in people {
        until(database, &format!("participants WHERE owner_id = '{owner}' AND is_here"), 1).await;
    }
    round(clock);
}

/// Each of so many servers has begun another round, and finished the one before: in this one they speak in any case.
pub async fn beat(clock: &ManualClock, database: &DatabaseConnection, servers: i64) {
    clock.advance(Duration::from_secs(3));
    let now = clock.now().millis();
    until(database, &format!("live_servers WHERE seen_at = {now}"), servers).await;
}

/// Each of so many servers has said what it knows, and then heard what the others said.
pub async fn exchange(clock: &ManualClock, database: &DatabaseConnection, servers: i64) {
    // They speak, then listen: with the third time everyone has heard what was said the first time.
    for _ in 0..3 {
        beat(clock, database, servers).await;
    }
}
