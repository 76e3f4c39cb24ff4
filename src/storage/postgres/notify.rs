//! Other servers on the same database: hearing of their commits, and telling them of ours.
//!
//! 1. After a commit with events, and outside its transaction, a server sends an empty `NOTIFY doclock`; commits that
//!    follow each other quickly share one. (Inside the transaction it would make commits wait for each other.)
//! 2. A connection of its own listens, and wakes the publisher, which reads the log.
//! 3. Every now and then the publisher looks by itself ([`Tail::looks`]). So if nobody was notified, as with a pooler
//!    that does not pass notifications on (`database.notify = false`), nothing is lost; notices come a little later.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use sea_orm::sqlx::{
    self, Connection as _, Executor as _, PgConnection,
    postgres::{PgConnectOptions, PgListener, PgPoolOptions},
};
use tokio::{sync::Notify, task::JoinSet};

const CHANNEL: &str = "doclock";
const RETRY: Duration = Duration::from_secs(1);

/// The publisher's end.
#[derive(Debug, Clone)]
pub struct Tail {
    woken: Arc<Notify>,
    committed: Arc<Notify>,
    /// Whether the log is read every now and then, woken or not. Only tests do without.
    pub looks: bool,
}

impl Tail {
    /// Starts the tasks that notify and listen, among the `workers`; without `notify` there are none.
    pub fn start(options: &PgConnectOptions, notify: bool, looks: bool, workers: &mut JoinSet<()>) -> Self {
        let tail = Self { woken: Arc::default(), committed: Arc::default(), looks };
        if notify {
            let own = Arc::new(AtomicU32::new(0));
            workers.spawn(tell(options.clone(), Arc::clone(&tail.committed), Arc::clone(&own)));
            workers.spawn(listen(options.clone(), Arc::clone(&tail.woken), own));
        }
        tail
    }

    pub fn tell_others(&self) {
        self.committed.notify_one();
    }

    /// Resolves when another server has said that it committed something.
    pub async fn woken(&self) {
        self.woken.notified().await;
    }
}

/// Notifies other servers of commits. `own` is set to the id of its connection, so that the server does not wake
/// itself.
async fn tell(options: PgConnectOptions, committed: Arc<Notify>, own: Arc<AtomicU32>) {
    loop {
        if let Err(error) = tell_while_connected(&options, &committed, &own).await {
            tracing::debug!(%error, "cannot notify other servers, they will look by themselves");
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn tell_while_connected(
    options: &PgConnectOptions,
    committed: &Notify,
    own: &AtomicU32,
) -> Result<(), sqlx::Error> {
    let mut connection = PgConnection::connect_with(options).await?;
    let id: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut connection).await?;
    own.store(id.unsigned_abs(), Ordering::Release);
    loop {
        committed.notified().await;
        connection.execute("NOTIFY doclock").await?;
    }
}

async fn listen(options: PgConnectOptions, woken: Arc<Notify>, own: Arc<AtomicU32>) {
    loop {
        if let Err(error) = listen_while_connected(&options, &woken, &own).await {
            tracing::debug!(%error, "cannot listen to other servers, looking every now and then");
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn listen_while_connected(
    options: &PgConnectOptions,
    woken: &Notify,
    own: &AtomicU32,
) -> Result<(), sqlx::Error> {
    let pool = PgPoolOptions::new().max_connections(1).connect_lazy_with(options.clone());
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.listen(CHANNEL).await?;
    woken.notify_one();
    loop {
        let notification = listener.recv().await?;
        if notification.process_id() != own.load(Ordering::Acquire) {
            woken.notify_one();
        }
    }
}
