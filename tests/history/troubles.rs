//! What happens to servers, to the database and to its clock while clients go on.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use sea_orm::sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};
use tokio::runtime::Handle;

use crate::{
    chance::Chance,
    record::{Moment, Trouble, Watch},
    servers::Servers,
};

#[derive(Debug, Clone, Copy)]
enum Kind {
    Kill,
    Freeze,
    /// Longer than it takes to be an outage.
    FreezeAll,
    Restart,
    StopDatabase,
    Disconnect,
    StepAhead,
    StepBack,
}

/// To servers, and to the database they share: these take seconds.
const LONG: [Kind; 5] = [Kind::Kill, Kind::Freeze, Kind::FreezeAll, Kind::Restart, Kind::StopDatabase];
/// To the database alone, over in a moment.
const SHORT: [Kind; 3] = [Kind::Disconnect, Kind::StepAhead, Kind::StepBack];

pub struct Troubles {
    pub servers: Servers,
    pub watch: Watch,
    pub chance: Chance,
    pub stop: Arc<AtomicBool>,
    pub runtime: Handle,
    /// No more begin after this, so that none outlasts the load by much.
    pub last: Moment,
}

impl Troubles {
    /// Blocks until told to stop. All servers run again when it answers.
    pub fn run(mut self) -> (Servers, Vec<Trouble>) {
        let mut troubles = Vec::new();
        let mut decks = [Vec::new(), Vec::new()];
        while !self.stop.load(Ordering::Acquire) {
            if self.watch.now() > self.last {
                self.wait(Duration::from_mins(1));
                break;
            }
            let mut chance = self.chance.one();
            self.wait(chance.millis(400, 2600));
            if self.stop.load(Ordering::Acquire) {
                break;
            }
            self.servers.look_after();
            // By turns, so that a short run has some of both.
            decks.rotate_left(1);
            if let Some(kind) = self.draw(&mut decks) {
                let from = self.watch.now();
                let told = self.make(kind, &mut chance);
                troubles.push(Trouble { kind: name(kind), told, from, until: self.watch.now() });
            }
        }
        self.servers.look_after();
        (self.servers, troubles)
    }

    /// The next of a shuffled deck, which is filled again when it is empty.
    fn draw(&mut self, decks: &mut [Vec<Kind>; 2]) -> Option<Kind> {
        if decks.iter().all(Vec::is_empty) {
            let is_shared = self.servers.database.is_some();
            *decks = [SHORT.to_vec(), LONG.to_vec()];
            for deck in decks.iter_mut() {
                deck.retain(|kind| is_shared || !is_of_the_database(*kind));
                self.chance.shuffle(deck);
            }
        }
        decks.iter_mut().find_map(Vec::pop)
    }

    fn make(&mut self, kind: Kind, chance: &mut Chance) -> String {
        let victim = chance.below(self.servers.processes.len());
        match kind {
            Kind::Kill => {
                self.servers.processes[victim].signal("KILL");
                self.servers.processes[victim].wait();
                let away = self.wait(chance.millis(0, 1500));
                self.servers.start_again(victim);
                format!("kill -9 of server {victim}, started again after {away:?}")
            }
            Kind::Freeze => {
                let away = self.freeze(&[victim], chance.millis(1000, 6000));
                format!("server {victim} frozen for {away:?}")
            }
            Kind::FreezeAll => {
                let all: Vec<_> = (0..self.servers.processes.len()).collect();
                let away = self.freeze(&all, chance.millis(3200, 5000));
                format!("all servers frozen for {away:?}")
            }
            Kind::Restart => {
                self.servers.processes[victim].signal("TERM");
                self.servers.has_stopped(victim);
                self.servers.start_again(victim);
                format!("server {victim} stopped by SIGTERM and started again")
            }
            Kind::StopDatabase => {
                self.order("stop");
                let away = self.wait(chance.millis(200, 5000));
                self.order("start");
                format!("database stopped for {away:?}")
            }
            Kind::Disconnect => {
                self.sql(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                     WHERE application_name = 'doclock' AND datname = current_database()",
                );
                "all connections to the database ended".to_owned()
            }
            // A shorter one is no outage, and shortens locks by as much.
            Kind::StepAhead => self.step(i64::try_from(chance.between(3500, 90_000)).unwrap_or_default()),
            Kind::StepBack => self.step(-i64::try_from(chance.between(50, 60_000)).unwrap_or_default()),
        }
    }

    fn freeze(&self, victims: &[usize], time: Duration) -> Duration {
        let signal = |name: &str| {
            for index in victims {
                self.servers.processes[*index].signal(name);
            }
        };
        signal("STOP");
        thread::sleep(time);
        signal("CONT");
        time
    }

    fn step(&mut self, millis: i64) -> String {
        self.sql(&format!("UPDATE server_life SET clock_offset = clock_offset + {millis}"));
        format!("the database's clock stepped by {millis} ms")
    }

    fn order(&mut self, order: &str) {
        if let Some(database) = &mut self.servers.database {
            database.cluster.order(order);
        }
    }

    fn sql(&self, statement: &str) {
        let Some(database) = &self.servers.database else { return };
        let url = database.url.clone();
        let done: Result<_, sea_orm::sqlx::Error> = self.runtime.block_on(async {
            let mut connection = Box::pin(PgConnection::connect(&url)).await?;
            connection.execute(AssertSqlSafe(statement)).await?;
            connection.close().await
        });
        if let Err(error) = done {
            println!("trouble could not be made: {error}");
        }
    }

    /// Sleeps, but not past the end.
    fn wait(&self, time: Duration) -> Duration {
        let end: Moment = self.watch.now() + time;
        while self.watch.now() < end && !self.stop.load(Ordering::Acquire) {
            thread::sleep(Duration::from_millis(20).min(time));
        }
        time
    }
}

fn is_of_the_database(kind: Kind) -> bool {
    matches!(kind, Kind::StopDatabase | Kind::Disconnect | Kind::StepAhead | Kind::StepBack)
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Kill => "kill -9",
        Kind::Freeze => "freeze",
        Kind::FreezeAll => "freeze all",
        Kind::Restart => "restart",
        Kind::StopDatabase => "stop database",
        Kind::Disconnect => "disconnect",
        Kind::StepAhead => "clock ahead",
        Kind::StepBack => "clock back",
    }
}
