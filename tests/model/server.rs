//! The writers of one server on a PostgreSQL that other servers write to as well. It runs on the database's clock.

use std::sync::Arc;

use doclock::{
    locking::{Command, Outcome, Policy, Timestamp},
    settings::DatabaseUrl,
    storage::{Storage, Writer},
    time::liveness::Life,
};

use crate::block_on;

pub struct Server {
    pub writer: Writer,
    _storage: Storage,
}

impl Server {
    pub fn on(url: &str) -> Self {
        let storage = block_on(Storage::open(&DatabaseUrl::Postgres(url.to_owned()))).unwrap();
        let life = Arc::new(Life::new(Timestamp::default()));
        let mut writers = storage.writers(Policy::default(), &storage.clock(), &life).unwrap();
        writers.chores.take().unwrap().beat().unwrap();
        Self { writer: writers.requests.remove(0), _storage: storage }
    }

    pub fn commit(&mut self, commands: &[Command]) -> Vec<Outcome> {
        let outcomes = self.writer.commit(commands).unwrap().outcomes;
        outcomes.into_iter().map(Result::unwrap).collect()
    }
}
