//! The backend that asks a doclock server, over HTTP.

use std::{
    error::Error,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{Method, Request, Uri, body::Bytes, header};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier, client::WantsClientCert};
use rustls_platform_verifier::BuilderVerifierExt as _;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    BearerToken, BootClock, LockError, LockName, ServerProblem,
    backend::{Grant, LockAsk, LockOf},
};

/// doclock closes idle connections after 5 s. A request into a closing one has no answer.
const IDLE: Duration = Duration::from_secs(4);
/// No answer of a doclock server is longer.
const LONGEST_ANSWER: usize = 16 << 20;

/// A doclock server: where it is, and who asks.
#[derive(Debug)]
pub struct DoclockServer {
    url: String,
    token: Option<BearerToken>,
    clock: BootClock,
    request_timeout: Duration,
    release_timeout: Duration,
    has_line: AtomicBool,
}

impl DoclockServer {
    /// Fails if `url` is not an address such as `https://locks.example.com`.
    pub fn new(url: &str, token: impl Into<BearerToken>) -> Result<Self, LockError> {
        Ok(Self { token: Some(token.into()), ..Self::without_token(url)? })
    }

    /// For what is open to all, such as its health.
    pub fn without_token(url: &str) -> Result<Self, LockError> {
        let wrong =
            || LockError::NotConfigured(format!("the server's address must be like https://host:port, not {url}"));
        let parsed: Uri = url.parse().map_err(|_| wrong())?;
        let has_scheme = parsed.scheme_str().is_some_and(|scheme| ["http", "https"].contains(&scheme));
        if !has_scheme || parsed.authority().is_none_or(|authority| authority.as_str().contains('@')) {
            return Err(wrong());
        }
        Ok(Self {
            url: url.trim_end_matches('/').to_owned(),
            token: None,
            clock: BootClock::machine(),
            request_timeout: Duration::from_secs(10),
            release_timeout: Duration::from_secs(5),
            has_line: AtomicBool::new(true),
        })
    }

    /// How long one request may take, beyond what it waits in line: 10 s unless set.
    #[must_use]
    pub fn request_timeout_of(self, limit: Duration) -> Self {
        Self { request_timeout: limit, ..self }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Calls the HTTP API for what a lock manager does not do, such as `GET /api/admin/locks`. Returns the answer's JSON.
    /// Needs a tokio runtime.
    pub async fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, LockError> {
        self.send(method, path, body, Duration::ZERO).await
    }

    pub(super) fn clock(&self) -> &BootClock {
        &self.clock
    }

    pub(super) fn request_timeout(&self) -> Duration {
        self.request_timeout
    }

    pub(super) fn release_timeout(&self) -> Duration {
        self.release_timeout
    }

    pub(super) fn has_line(&self) -> bool {
        self.has_line.load(Ordering::Relaxed)
    }

    pub(super) async fn lock(&self, ask: &LockAsk) -> Result<Grant, LockError> {
        let mut body = json!({
            "request_id": ask.request_id,
            "session_id": ask.session_id,
            "ttl_seconds": ask.ttl_seconds,
            "capacity": ask.capacity,
        });
        if ask.wait_ms > 0 {
            body["wait_ms"] = ask.wait_ms.into();
        }
        if let Some(metadata) = &ask.metadata {
            body["metadata"] = metadata.clone();
        }
        let wait = Duration::from_millis(ask.wait_ms);
        let answer = self.send("POST", &ask.name.path(), Some(&body), wait).await;
        if let Err(LockError::Refused(problem)) = &answer
            && problem.code == "UNKNOWN_FIELD"
            && problem.body["field"] == "wait_ms"
        {
            self.has_line.store(false, Ordering::Relaxed);
        }
        answer.map_err(|error| error.about(&ask.name)).and_then(grant)
    }

    pub(super) async fn extend(&self, name: &LockName, lease_id: &str) -> Result<Grant, LockError> {
        let body = json!({ "lease_id": lease_id });
        let answer = self.send("PUT", &name.path(), Some(&body), Duration::ZERO).await;
        answer.map_err(|error| error.about(name)).and_then(grant)
    }

    pub(super) async fn unlock(&self, name: &LockName, request_id: &str, which: &LockOf) -> Result<(), LockError> {
        let mut body = Map::new();
        body.insert("request_id".to_owned(), request_id.into());
        match which {
            LockOf::Lease(id) => body.insert("lease_id".to_owned(), id.as_str().into()),
            LockOf::Session(id) => body.insert("session_id".to_owned(), id.as_str().into()),
        };
        let answer = self.send("DELETE", &name.path(), Some(&body.into()), Duration::ZERO).await;
        answer.map_err(|error| error.about(name)).map(drop)
    }

    async fn send(&self, method: &str, path: &str, body: Option<&Value>, wait: Duration) -> Result<Value, LockError> {
        let request = self.request(method, path, body).await?;
        let limit = self.request_timeout + wait;
        let (status, body) = tokio::time::timeout(limit, self.exchange(request)).await.map_err(|_| {
            LockError::Unreachable { detail: format!("{} did not answer within {limit:?}", self.url), was_sent: true }
        })??;
        if status == 200 { Ok(body) } else { Err(LockError::Refused(Box::new(ServerProblem::new(status, body)))) }
    }

    async fn request(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Request<Full<Bytes>>, LockError> {
        let wrong = |error: hyper::http::Error| LockError::NotConfigured(format!("{method} {path}: {error}"));
        let method: Method = method.parse().map_err(|_| LockError::NotConfigured(format!("{method} is no method")))?;
        let mut request = Request::builder().method(method.clone()).uri(format!("{}{path}", self.url));
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", token.current().await?));
        }
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        request.body(Full::from(body.map(Value::to_string).unwrap_or_default())).map_err(wrong)
    }

    /// The status and the body, which is null where it is not JSON: a proxy may have written it.
    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<(u16, Value), LockError> {
        let unreachable = |error: &dyn Error, was_sent| LockError::Unreachable {
            detail: format!("{} did not answer: {}", self.url, innermost(error)),
            was_sent,
        };
        let client = http(self.url.starts_with("https:"))?;
        let response = client.request(request).await.map_err(|error| unreachable(&error, !error.is_connect()))?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), LONGEST_ANSWER).collect().await;
        let body = body.map_err(|error| unreachable(error.as_ref(), true))?.to_bytes();
        Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
    }
}

/// Says why: the errors around it only say where.
fn innermost(mut error: &dyn Error) -> String {
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

type Client = legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// One for the process, and another for HTTPS: only that one needs the certificates of the machine, which take a while to
/// read and may not be there.
fn http(is_secure: bool) -> Result<&'static Client, LockError> {
    static PLAIN: OnceLock<Result<Client, String>> = OnceLock::new();
    static SECURE: OnceLock<Result<Client, String>> = OnceLock::new();
    let client = if is_secure {
        SECURE.get_or_init(|| client(|tls| tls.with_platform_verifier()))
    } else {
        PLAIN.get_or_init(|| client(|tls| Ok(tls.with_root_certificates(RootCertStore::empty()))))
    };
    client.as_ref().map_err(|reason| LockError::NotConfigured(format!("HTTP cannot be set up: {reason}")))
}

fn client(
    trust: impl FnOnce(
        ConfigBuilder<ClientConfig, WantsVerifier>,
    ) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, rustls::Error>,
) -> Result<Client, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().and_then(trust);
    let tls = tls.map_err(|error| error.to_string())?.with_no_client_auth();
    let mut tcp = HttpConnector::new();
    tcp.set_nodelay(true);
    tcp.enforce_http(false);
    let connector =
        HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().wrap_connector(tcp);
    let mut builder = legacy::Client::builder(TokioExecutor::new());
    Ok(builder.pool_idle_timeout(IDLE).pool_timer(TokioTimer::new()).build(connector))
}

#[derive(Deserialize)]
struct LockAnswer {
    lease_id: String,
    fencing_token: u64,
    ttl_seconds: u32,
    expires_in_ms: i64,
}

fn grant(answer: Value) -> Result<Grant, LockError> {
    let lock: LockAnswer = serde_json::from_value(answer).map_err(|_| not_doclock())?;
    Ok(Grant {
        lease_id: lock.lease_id,
        fencing_token: lock.fencing_token,
        ttl: Duration::from_secs(lock.ttl_seconds.into()),
        expires_in: Duration::from_millis(u64::try_from(lock.expires_in_ms).unwrap_or_default()),
    })
}

fn not_doclock() -> LockError {
    LockError::NotConfigured("the answer is not one of a doclock server; is the address right?".to_owned())
}
