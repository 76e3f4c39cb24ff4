//! The composition root: what exists, in which order it starts, in which order it stops.
//!
//! Start: storage, clock (not before what storage has seen), committer, one sign of life (which is where grace after
//! an outage is given), publisher, workers, HTTP.
//! Stop: not ready any more, sockets are told and closed, HTTP finishes its requests, other servers hear that nobody is
//! here, workers end, the committer finishes its queue.
//! A worker that ends by itself has crashed, and the server ends with it: half a server is worse than none.

use std::{future::Future, io, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use actix_web::{
    dev::{Server, ServerHandle},
    web,
};
use tokio::task::JoinSet;
use tokio_cron_scheduler::JobScheduler;

use crate::{
    auth::{
        Claims, KeyError, Keys, Origins, Role, TokenError,
        secret::{self, Secret, SecretError},
    },
    calls::{Calls, Rates},
    committer::{self, Announcer, Committer},
    contention::Contention,
    demo::{self, Demo},
    http::{self, Api, Proxies, server::Listening},
    keeper::Keeper,
    lines::{self, Lines},
    live::{
        Admission, Hub, Live, Publisher,
        passes::StreamPasses,
        presence::{Exchange, ExchangeHandle},
    },
    locking::{Policy, Timestamp},
    metrics::Metrics,
    settings::{DatabaseUrl, DemoEnabled, Settings},
    storage::{OpenError, SoftState, Storage, StorageError, Tail},
    time::{
        clock::{Clock, ManualClock, Stopwatch},
        expiry::Expiry,
        heartbeat,
        liveness::Life,
        sweep::{self, Sweeper},
    },
    ws::{self, asyncapi},
};

/// Tokens in printed links are good for a working day.
const LINK_HOURS: i64 = 8;
/// The share of the time to stop that sockets get; the rest is for the requests that were begun last.
const SOCKETS_SHARE: f64 = 0.9;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Storage(#[from] OpenError),
    #[error(transparent)]
    Log(#[from] StorageError),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("cannot sign a token: {0}")]
    Token(#[from] TokenError),
    #[error("setting `jobs.sweep`: must be a cron expression of six fields, such as `0 * * * * *` ({0})")]
    Jobs(#[from] tokio_cron_scheduler::JobSchedulerError),
    #[error("metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    #[error("cannot listen on {address}: {reason}")]
    Listen { address: SocketAddr, reason: io::Error },
    #[error("setting `demo.enabled`: the demo signs tokens, which takes `auth.secret` or `auth.secret_file`")]
    DemoWithoutSecret,
    #[error("cannot use the demo's file {}: {reason}", file.display())]
    Demo { file: PathBuf, reason: demo::StoreError },
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}

/// Why the server ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum Crash {
    #[error("{0} has crashed")]
    Worker(&'static str),
    /// A restart would not help, and would lose what the server knows of the log: an operator must look first.
    #[error("{0}")]
    NeedsAHand(String),
}

/// What only tests set.
#[derive(Debug, Default)]
pub struct Options {
    pub clock: Option<ManualClock>,
    /// Threads that serve HTTP; one per core unless given.
    pub http_workers: Option<usize>,
    /// Nothing happens by itself: no signs of life, no expiry, no jobs, no look at the log unless woken.
    pub without_workers: bool,
}

/// A server that listens.
pub struct App {
    pub address: SocketAddr,
    /// Links with tokens, to be printed. Empty unless the secret is self-made and the server listens on loopback.
    pub links: Vec<Link>,
    pub sweeper: Sweeper,
    pub line_worker: lines::Worker,
    api: web::Data<Api>,
    server: Server,
    drain_for: Duration,
    scheduler: JobScheduler,
    committer_ended: committer::Ended,
    workers: JoinSet<()>,
    presence: Option<ExchangeHandle>,
    _storage: Storage,
}

#[derive(Debug)]
pub struct Link {
    pub what: &'static str,
    pub url: String,
    pub has_token: bool,
}

impl App {
    pub async fn start(settings: Settings, options: Options) -> Result<Self, StartError> {
        let secret = secret::find_or_make(&settings.auth, &settings.database.url)?;
        let keys =
            Keys::new(secret.as_ref().map(|secret| secret.bytes.as_slice()), settings.auth.jwks_file.as_deref())?;
        let storage = Storage::open(&settings.database.url).await?;
        let clock = options.clock.map_or_else(|| storage.clock(), Clock::manual);

        let metrics = Arc::new(Metrics::new()?);
        let contention = Arc::new(Contention::default());
        let life = Arc::new(Life::new(storage.latest));
        let writers = storage.writers(policy(&settings), &clock, &life)?;
        let (announcer, announcements) = Announcer::new();
        let (committer, committer_ended) = Committer::start(writers, &metrics, &contention, &announcer)?;
        heartbeat::beat(&committer).await;

        let own = storage.own.clone();
        let mut workers = JoinSet::new();
        let looks = !options.without_workers;
        let tail = storage.shared().map(|options| Tail::start(&options, settings.database.notify, looks, &mut workers));
        let head = own.head().await?;
        let lines = Lines::new(committer.clone());
        let (keeper, keeper_worker) = Keeper::new(committer.clone(), clock.clone());
        workers.spawn(keeper_worker.run());
        let line_worker = lines::Worker {
            lines: lines.clone(),
            committer: committer.clone(),
            queries: own.clone(),
            clock: clock.clone(),
        };
        let (publisher, hub) = Publisher::new(
            announcements,
            head,
            own.clone(),
            tail,
            clock.clone(),
            (lines.clone(), keeper.clone()),
            metrics.subscriptions.clone(),
        );
        workers.spawn(publisher.run());
        let expiry =
            Expiry { committer: committer.clone(), queries: own, life: Arc::clone(&life), clock: clock.clone() };
        let soft_state = storage.soft_state();
        let sweeper = Sweeper { expiry: expiry.clone(), metrics: Arc::clone(&metrics), soft_state: soft_state.clone() };
        let scheduler = sweep::start(sweeper.clone(), &settings.jobs.sweep, !options.without_workers).await?;
        let mut presence = None;
        if !options.without_workers {
            workers.spawn(heartbeat::run(committer.clone(), clock.clone()));
            workers.spawn(expiry.run());
            workers.spawn(line_worker.clone().run());
            presence = soft_state.clone().map(|soft_state| {
                let (exchange, handle) = Exchange::new(soft_state, hub.clone(), clock.clone());
                workers.spawn(exchange.run());
                handle
            });
        }
        let drain_for = Duration::from_secs(settings.server.drain_seconds.into());
        let calls = Arc::new(Calls {
            committer,
            queries: storage.queries.clone(),
            lines: lines.clone(),
            life,
            clock: clock.clone(),
            keys,
            contention,
            rates: Rates::new(settings.limits.requests_per_second),
            refusals: metrics.refusals.clone(),
            started_at: clock.now(),
            max_ttl_seconds: settings.locks.max_ttl_seconds,
        });
        let live = Arc::new(live(&settings, hub, &storage, clock, &metrics, soft_state, (lines, keeper)));
        let demo = demo(&settings, secret.as_ref())?;
        let api = web::Data::new(api(&settings, calls, live, metrics, demo));
        let (server, address) = listen(&settings, &api, options.http_workers, drain_for)?;
        let links = links(&settings, secret.as_ref(), address, api.calls.clock.wall())?;
        Ok(Self {
            address,
            links,
            sweeper,
            line_worker,
            api,
            server,
            drain_for,
            scheduler,
            committer_ended,
            workers,
            presence,
            _storage: storage,
        })
    }

    /// Serves until `stop` resolves, then finishes what was begun.
    pub async fn run(mut self, stop: impl Future<Output = ()>) -> Result<(), Crash> {
        let http = self.server.handle();
        let mut server = tokio::spawn(self.server);
        let mut has_committer = true;
        let crashed = tokio::select! {
            () = stop => None,
            reason = self.committer_ended.first() => {
                has_committer = false;
                Some(reason.map_or(Crash::Worker("the committer"), Crash::NeedsAHand))
            }
            Some(_) = self.workers.join_next() => Some(Crash::Worker("a worker")),
            _ = &mut server => Some(Crash::Worker("the HTTP server")),
        };
        self.api.live.begin_to_drain();
        if crashed.is_none() {
            drain(&self.api, &http, self.drain_for).await;
            // Requests that have not finished by now are not waited for.
            server.abort();
        } else {
            http.stop(false).await;
        }
        if let Some(presence) = self.presence {
            presence.stop().await;
        }
        self.workers.shutdown().await;
        if let Err(error) = self.scheduler.shutdown().await {
            tracing::warn!(%error, "the scheduler did not stop");
        }
        if has_committer {
            self.api.calls.committer.stop();
            self.committer_ended.all().await;
        }
        crashed.map_or(Ok(()), Err)
    }
}

fn live(
    settings: &Settings,
    hub: Hub,
    storage: &Storage,
    clock: Clock,
    metrics: &Metrics,
    soft_state: Option<SoftState>,
    people: (Lines, Keeper),
) -> Live {
    let limits = &settings.limits;
    let admission = Admission::new(limits.sockets_per_owner, limits.sockets_per_address, metrics.sockets.clone());
    let is_alone = soft_state.is_none();
    let passes = StreamPasses::new(soft_state);
    let mut live = Live::new(
        hub,
        storage.queries.clone(),
        clock,
        admission,
        passes,
        people,
        (limits.rooms_per_socket, limits.frames_per_second),
    );
    live.is_alone = is_alone;
    live
}

/// Where visitors need no token: asked for, or nobody but this machine could come.
fn demo(settings: &Settings, secret: Option<&Secret>) -> Result<Option<Demo>, StartError> {
    let is_local = settings.server.listen.ip().is_loopback();
    let secret = match settings.demo.enabled {
        DemoEnabled::False => None,
        DemoEnabled::True => Some(secret.ok_or(StartError::DemoWithoutSecret)?),
        DemoEnabled::Auto => secret.filter(|secret| secret.self_made && is_local),
    };
    let Some(secret) = secret else { return Ok(None) };
    let file = match &settings.database.url {
        DatabaseUrl::Sqlite(path) => path.with_extension("demo.db"),
        DatabaseUrl::Postgres(_) => "doclock.demo.db".into(),
    };
    Demo::open(&file, secret.clone()).map(Some).map_err(|reason| StartError::Demo { file, reason })
}

fn api(settings: &Settings, calls: Arc<Calls>, live: Arc<Live>, metrics: Arc<Metrics>, demo: Option<Demo>) -> Api {
    let openapi = http::openapi_document();
    Api {
        calls,
        live,
        metrics,
        proxies: Proxies::new(&settings.server.trusted_proxies),
        public_metrics: settings.server.public_metrics,
        demo,
        asyncapi: asyncapi::document(&openapi),
        openapi,
    }
}

fn listen(
    settings: &Settings,
    api: &web::Data<Api>,
    workers: Option<usize>,
    drain_for: Duration,
) -> Result<(Server, SocketAddr), StartError> {
    let address = settings.server.listen;
    let origins = Origins::new(&settings.server.allowed_origins, address);
    let (calls, live) = (Arc::clone(&api.calls), Arc::clone(&api.live));
    let sockets = web::Data::new(ws::Endpoint { calls, live, origins: origins.clone() });
    let routes = Arc::new(move |config: &mut web::ServiceConfig| socket_routes(config, &sockets));
    let started = Listening { address, workers, drain_for }.start(api, &origins, routes);
    started.map_err(|reason| StartError::Listen { address, reason })
}

/// Routes of protocols that start as HTTP and go on without it.
fn socket_routes(config: &mut web::ServiceConfig, endpoint: &web::Data<ws::Endpoint>) {
    config
        .app_data(endpoint.clone())
        .service(http::resource("/ws", [http::get(ws::connect)]))
        .service(http::resource("/ws/{room:[^/]*}", [http::get(ws::connect_room)]));
}

/// Tells sockets to go and closes them one after the other while requests are still served; then lets open requests
/// finish. Both together take no longer than `time`. That is real time, and not the server's clock, because whoever
/// sent the signal waits in real time.
async fn drain(api: &Api, http: &ServerHandle, time: Duration) {
    let stopwatch = Stopwatch::start();
    api.calls.lines.drain();
    api.live.end_within(time.mul_f64(SOCKETS_SHARE));
    let sockets_left = async {
        while api.live.admission.count() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    // A socket that has not closed by then is not waited for.
    let _ = tokio::time::timeout(time.mul_f64(SOCKETS_SHARE), sockets_left).await;
    let _ = tokio::time::timeout(time.saturating_sub(stopwatch.elapsed()), http.stop(true)).await;
}

fn policy(settings: &Settings) -> Policy {
    const HOUR_MS: i64 = 3_600_000;
    Policy {
        ttl_seconds: settings.locks.ttl_seconds,
        locks_per_owner: settings.limits.locks_per_owner,
        waits_per_owner: settings.limits.waits_per_owner,
        memo_retention_ms: i64::from(settings.requests.retention_hours) * HOUR_MS,
        event_retention_ms: i64::from(settings.events.retention_days) * 24 * HOUR_MS,
    }
}

fn links(
    settings: &Settings,
    secret: Option<&Secret>,
    address: SocketAddr,
    now: Timestamp,
) -> Result<Vec<Link>, StartError> {
    let Some(secret) = secret.filter(|secret| secret.self_made && address.ip().is_loopback()) else {
        return Ok(Vec::new());
    };
    let base = settings.server.public_url.clone().unwrap_or_else(|| format!("http://{address}"));
    #[expect(clippy::cast_precision_loss, reason = "seconds of this century")]
    let exp = (now.millis() / 1000 + LINK_HOURS * 3600) as f64;
    let link = |what, sub: &str, name: &str, role| {
        let claims = Claims { sub: sub.into(), name: Some(name.into()), role, exp, ..Claims::default() };
        let token = claims.sign(&secret.bytes)?;
        Ok::<_, TokenError>(Link {
            what,
            url: format!("{}/docs/#token={token}", base.trim_end_matches('/')),
            has_token: true,
        })
    };
    let home =
        Link { what: "try it in two windows", url: format!("{}/", base.trim_end_matches('/')), has_token: false };
    Ok(vec![
        home,
        link("try the API as an editor", "demo", "Demo", Role::Editor)?,
        link("try the API as an admin", "admin", "Admin", Role::Admin)?,
    ])
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::settings::{DatabaseUrl, Sources};

    async fn app(folder: &Path) -> App {
        let mut settings = Settings::load(&Sources::default()).unwrap();
        settings.server.listen = "127.0.0.1:0".parse().unwrap();
        settings.database.url = DatabaseUrl::Sqlite(folder.join("doclock.db"));
        App::start(settings, Options { http_workers: Some(1), ..Options::default() }).await.unwrap()
    }

    #[tokio::test]
    async fn a_committer_that_ends_by_itself_stops_the_server() {
        let folder = tempfile::tempdir().unwrap();
        let app = app(folder.path()).await;
        app.api.calls.committer.stop();
        let crash = app.run(std::future::pending()).await.unwrap_err();
        assert_eq!(crash.to_string(), "the committer has crashed");
    }

    #[tokio::test]
    async fn a_worker_that_panics_stops_the_server() {
        let folder = tempfile::tempdir().unwrap();
        let mut app = app(folder.path()).await;
        app.workers.spawn(async { panic!("a test's worker") });
        let crash = app.run(std::future::pending()).await.unwrap_err();
        assert_eq!(crash.to_string(), "a worker has crashed");
    }

    #[tokio::test]
    async fn a_server_that_is_told_to_stop_has_not_crashed() {
        let folder = tempfile::tempdir().unwrap();
        app(folder.path()).await.run(std::future::ready(())).await.unwrap();
    }
}
