//! A server to test against, and callers with tokens.

use std::time::Duration;

use doclock::{
    app::{App, Options},
    auth::{Claims, Role},
    committer::Committer,
    lines,
    locking::Timestamp,
    settings::{DatabaseUrl, Settings, Sources},
    time::{clock::ManualClock, heartbeat, sweep::Sweeper},
};
use reqwest::Method;
use sea_orm::{ConnectionTrait as _, Database, DatabaseConnection};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{sync::oneshot, task::JoinHandle};

/// No answer takes nearly as long: a request that does waits for time to pass, and nobody lets it.
const PATIENCE: Duration = Duration::from_mins(1);
pub const SECRET: &str = "a secret that only the tests of this server know";

/// Nothing in it happens by itself: time passes by [`TestServer::pass`], overdue locks are swept by
/// [`TestServer::sweep`].
pub struct TestServer {
    pub clock: ManualClock,
    pub base: String,
    pub url: DatabaseUrl,
    folder: TempDir,
    configure: fn(&mut Settings),
    options: fn() -> Options,
    sweeper: Sweeper,
    line_worker: lines::Worker,
    running: Running,
}

impl TestServer {
    pub async fn start() -> Self {
        Self::configured(|_| {}).await
    }

    pub async fn configured(configure: fn(&mut Settings)) -> Self {
        Self::with_options(configure, || Options { without_workers: true, ..Options::default() }).await
    }

    /// Its workers run, on the manual clock.
    pub async fn with_workers() -> Self {
        Self::with_options(|_| {}, Options::default).await
    }

    pub async fn with_options(configure: fn(&mut Settings), options: fn() -> Options) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = crate::new_database(folder.path());
        let clock = start_of_time();
        Self::run(url, folder, clock, configure, options).await
    }

    /// On a database that another version has left, a minute later.
    pub async fn on_dump(dump: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = crate::new_database(folder.path());
        let database = Database::connect(match &url {
            DatabaseUrl::Sqlite(path) => format!("sqlite://{}?mode=rwc", path.display()),
            DatabaseUrl::Postgres(url) => url.clone(),
        });
        let database = database.await.unwrap();
        database.execute_unprepared(dump).await.unwrap();
        database.close().await.unwrap();
        let clock = start_of_time();
        clock.advance(Duration::from_mins(1));
        Self::run(url, folder, clock, |_| {}, || Options { without_workers: true, ..Options::default() }).await
    }

    async fn run(
        url: DatabaseUrl,
        folder: TempDir,
        clock: ManualClock,
        configure: fn(&mut Settings),
        options: fn() -> Options,
    ) -> Self {
        let running = Running::start(&url, &clock, options(), configure).await;
        let (base, sweeper, line_worker) = (running.base.clone(), running.sweeper.clone(), running.line_worker.clone());
        Self { clock, base, url, folder, configure, options, sweeper, line_worker, running }
    }

    /// Stopped and started again on the same database, at the same moment.
    pub async fn restart(self) -> Self {
        self.restart_after(Duration::ZERO).await
    }

    /// The same, after having been away.
    pub async fn restart_after(self, away: Duration) -> Self {
        let Self { clock, url, folder, configure, options, running, .. } = self;
        running.stop().await;
        clock.advance(away);
        Self::run(url, folder, clock, configure, options).await
    }

    /// Time passes as for a server that is well: with a sign of life every second, and the tickets of those who wait
    /// renewed.
    pub async fn pass(&self, duration: Duration) {
        let mut left = duration;
        while !left.is_zero() {
            let step = left.min(Duration::from_secs(1));
            self.clock.advance(step);
            heartbeat::beat(&self.sweeper.expiry.committer).await;
            self.tend_lines().await;
            left -= step;
        }
    }

    pub async fn pass_seconds(&self, seconds: u64) {
        self.pass(Duration::from_secs(seconds)).await;
    }

    /// What the worker of waiting lines does every three seconds: it renews tickets and tells positions.
    pub async fn tend_lines(&self) {
        self.line_worker.round().await.unwrap();
    }

    /// What expiry and the minutely job do.
    pub async fn sweep(&self) {
        self.sweeper.sweep().await.unwrap();
    }

    /// A server that was away for hours: locks that had ended stay ended, and nothing had to beat all that time.
    pub async fn skip_hours(&self, hours: u64) {
        self.clock.advance(Duration::from_secs(hours * 3600));
        heartbeat::beat(&self.sweeper.expiry.committer).await;
    }

    /// The database itself, past the server.
    pub async fn database(&self) -> DatabaseConnection {
        let url = match &self.url {
            DatabaseUrl::Sqlite(path) => format!("sqlite://{}", path.display()),
            DatabaseUrl::Postgres(url) => url.clone(),
        };
        Database::connect(url).await.unwrap()
    }

    pub fn caller(&self, claims: Claims) -> Caller {
        self.bearing(Some(self.token(claims)))
    }

    /// Good for a day, unless the claims say otherwise.
    pub fn token(&self, mut claims: Claims) -> String {
        if claims.exp == 0.0 {
            claims.exp = self.seconds_from_now(86_400);
        }
        claims.sign(SECRET.as_bytes()).unwrap()
    }

    pub fn seconds_from_now(&self, seconds: i64) -> f64 {
        f64::from(i32::try_from(self.clock.now().millis() / 1000 + seconds).unwrap())
    }

    pub fn bearing(&self, token: Option<String>) -> Caller {
        // A connection per server and caller: one that was left open must not be used after a restart.
        let http = reqwest::Client::builder().pool_idle_timeout(Duration::ZERO).build().unwrap();
        Caller { base: self.base.clone(), token, http }
    }

    pub fn editor(&self, sub: &str) -> Caller {
        self.caller(claims(sub, Role::Editor))
    }

    pub fn admin(&self) -> Caller {
        self.caller(claims("root", Role::Admin))
    }

    pub fn viewer(&self, sub: &str) -> Caller {
        self.caller(claims(sub, Role::Viewer))
    }

    pub fn editor_of(&self, tenant: &str, sub: &str) -> Caller {
        self.caller(Claims { tenant: Some(tenant.to_owned()), ..claims(sub, Role::Editor) })
    }

    pub fn admin_of(&self, tenant: &str) -> Caller {
        self.caller(Claims { tenant: Some(tenant.to_owned()), ..claims("root", Role::Admin) })
    }

    /// The lock table of the default tenant.
    pub async fn locks(&self) -> Vec<Value> {
        let answer = self.admin().get("/api/admin/locks?limit=1000").await.ok();
        answer["items"].as_array().unwrap().clone()
    }

    /// All events, by the log.
    pub async fn events(&self) -> Vec<Value> {
        let answer = self.admin().get("/api/admin/events?limit=1000").await.ok();
        answer["items"].as_array().unwrap().clone()
    }
}

/// 2027-01-15T08:00:00Z.
pub fn start_of_time() -> ManualClock {
    ManualClock::starting_at(Timestamp::from_millis(1_800_000_000_000))
}

/// One in this process.
pub struct Running {
    pub base: String,
    pub sweeper: Sweeper,
    pub line_worker: lines::Worker,
    pub task: JoinHandle<()>,
    stop: oneshot::Sender<()>,
    /// Last, so that a server that is dropped is told to stop first.
    _threads: Threads,
}

/// The threads of a server's committer, which no runtime ends: with each of them goes a connection to the database.
struct Threads(Committer);

impl Drop for Threads {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Running {
    pub async fn start(
        url: &DatabaseUrl,
        clock: &ManualClock,
        options: Options,
        configure: impl FnOnce(&mut Settings),
    ) -> Self {
        let mut settings = Settings::load(&Sources::default()).unwrap();
        settings.server.listen = "127.0.0.1:0".parse().unwrap();
        settings.server.drain_seconds = 1;
        settings.database.url = url.clone();
        settings.auth.secret = Some(SECRET.to_owned());
        configure(&mut settings);
        let given = Options { clock: Some(clock.clone()), http_workers: Some(1), ..options };
        let app = App::start(settings, given).await.unwrap();
        let (stop, stopped) = oneshot::channel();
        let (base, sweeper) = (format!("http://{}", app.address), app.sweeper.clone());
        let line_worker = app.line_worker.clone();
        let task = tokio::spawn(async move {
            app.run(async {
                let _ = stopped.await;
            })
            .await
            .unwrap();
        });
        let threads = Threads(sweeper.expiry.committer.clone());
        Self { base, sweeper, line_worker, task, stop, _threads: threads }
    }

    pub async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap();
    }
}

pub fn claims(sub: &str, role: Role) -> Claims {
    Claims { sub: sub.to_owned(), role, ..Claims::default() }
}

/// A time of an answer, in milliseconds.
#[track_caller]
pub fn millis(time: &Value) -> i64 {
    chrono::DateTime::parse_from_rfc3339(time.as_str().unwrap()).unwrap().timestamp_millis()
}

/// How the locks of these events ended, in order.
pub fn reasons(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["reason"].as_str()).collect()
}

#[derive(Clone)]
pub struct Caller {
    pub base: String,
    pub token: Option<String>,
    http: reqwest::Client,
}

impl Caller {
    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    /// The same caller on a connection that stays open, for those who send a lot.
    pub fn connected(self) -> Self {
        Self { http: reqwest::Client::new(), ..self }
    }

    pub async fn json(&self, method: Method, path: &str, body: Value) -> Answer {
        Answer::of(self.request(method, path).json(&body)).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        Answer::of(self.request(Method::GET, path)).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.json(Method::POST, path, body).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Answer {
        self.json(Method::PUT, path, body).await
    }

    pub async fn delete(&self, path: &str, body: Value) -> Answer {
        self.json(Method::DELETE, path, body).await
    }
}

/// A status, headers and a JSON body.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub body: Value,
}

impl Answer {
    pub async fn of(request: reqwest::RequestBuilder) -> Self {
        let response = request.timeout(PATIENCE).send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Self { status, headers, body }
    }

    /// The body of a success.
    #[track_caller]
    pub fn ok(self) -> Value {
        assert_eq!(self.status, 200, "{:#}", self.body);
        self.body
    }

    /// The body of a problem, which must be the one expected and well-formed.
    #[track_caller]
    pub fn problem(self, status: u16, code: &str) -> Value {
        let (found, body) = (self.body["code"].as_str().unwrap_or_default(), &self.body);
        assert_eq!((self.status, found), (status, code), "{body:#}");
        assert_eq!(self.headers["content-type"], "application/problem+json");
        assert_eq!(body["status"], status);
        assert_eq!(body["type"], format!("urn:doclock:problem:{code}"));
        for field in ["title", "detail", "server_time"] {
            assert!(body[field].is_string(), "{field} in {body:#}");
        }
        assert!(body["retryable"].is_boolean(), "{body:#}");
        self.body
    }
}
