//! What can go wrong, with the server's own codes.

use std::{fmt, time::Duration};

use serde_json::Value;

use super::LockName;

/// What a heartbeat or an unlock is answered when the lock it names is over.
const CODES_OF_LOSS: [&str; 6] =
    ["LEASE_EXPIRED", "LEASE_RELEASED", "LEASE_REVOKED", "LEASE_MISMATCH", "NOT_OWNER", "LOCK_NOT_FOUND"];

/// Act on the variant or on [`code`](Self::code); show the text to people.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    #[error(transparent)]
    Timeout(#[from] LockTimeout),
    #[error(transparent)]
    Lost(#[from] LockLost),
    /// `release_lock` found nothing that `await_lock` of the same manager has taken.
    #[error("nothing is held here by await_lock() of {0} (NOT_HELD)")]
    NotHeld(LockName),
    /// The server understood the request and said no.
    #[error("{0}")]
    Refused(Box<ServerProblem>),
    /// No answer came. Whether the request was done is not known, unless there was not even a connection.
    #[error("{detail} (UNREACHABLE)")]
    Unreachable { detail: String, was_sent: bool },
    /// The address, the token or an argument is missing or makes no sense.
    #[error("{0} (NOT_CONFIGURED)")]
    NotConfigured(String),
}

/// The lock was not granted in time. Nothing is held.
#[derive(Debug, Clone)]
pub struct LockTimeout {
    pub name: LockName,
    pub timeout: Duration,
    /// The last refusal or failure.
    pub last: Option<Box<LockError>>,
}

impl fmt::Display for LockTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the lock on {} was not granted within {:?}", self.name, self.timeout)?;
        match &self.last {
            Some(last) => write!(f, ": {last}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for LockTimeout {}

/// The lock is over, so whatever it protected must not be written any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the lock on {name} is over: {detail} ({code})")]
pub struct LockLost {
    pub name: LockName,
    /// The server's code, or `DEADLINE_PASSED`.
    pub code: String,
    pub detail: String,
}

impl LockLost {
    pub(super) const DEADLINE_PASSED: &str = "DEADLINE_PASSED";

    pub(super) fn new(name: &LockName, code: &str, detail: impl Into<String>) -> Self {
        Self { name: name.clone(), code: code.to_owned(), detail: detail.into() }
    }
}

/// A refusal as the server wrote it.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerProblem {
    pub status: u16,
    /// The server's, or `HTTP_<status>` when something between here and the server answered.
    pub code: String,
    pub detail: String,
    /// Whether the same request may succeed later, unchanged.
    pub retryable: bool,
    /// The whole answer; null where it was not JSON.
    pub body: Value,
}

impl ServerProblem {
    pub(super) fn new(status: u16, body: Value) -> Self {
        let text = |field: &str| body.get(field).and_then(Value::as_str).map(str::to_owned);
        match text("code") {
            Some(code) => {
                let detail = text("detail").or_else(|| text("title"));
                let detail = detail.unwrap_or_else(|| "the server gave no reason".to_owned());
                let retryable = body.get("retryable").and_then(Value::as_bool).unwrap_or_default();
                Self { status, code, detail, retryable, body }
            }
            None => Self {
                status,
                code: format!("HTTP_{status}"),
                detail: format!("something between here and the doclock server answered with status {status}"),
                retryable: status >= 500,
                body,
            },
        }
    }
}

impl fmt::Display for ServerProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.detail, self.code)
    }
}

impl LockError {
    /// The server's code, or one of the client's own: `LOCK_TIMEOUT`, `DEADLINE_PASSED`, `NOT_HELD`, `UNREACHABLE`,
    /// `NOT_CONFIGURED`, `HTTP_<status>`.
    pub fn code(&self) -> &str {
        match self {
            Self::Timeout(_) => "LOCK_TIMEOUT",
            Self::Lost(lost) => &lost.code,
            Self::NotHeld(_) => "NOT_HELD",
            Self::Refused(problem) => &problem.code,
            Self::Unreachable { .. } => "UNREACHABLE",
            Self::NotConfigured(_) => "NOT_CONFIGURED",
        }
    }

    /// Whether the same request may succeed later, unchanged.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Timeout(_) | Self::Unreachable { .. } => true,
            Self::Refused(problem) => problem.retryable,
            Self::Lost(_) | Self::NotHeld(_) | Self::NotConfigured(_) => false,
        }
    }

    /// When it is worth trying again, if the server said so.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(problem) => problem.body.get("retry_after_ms")?.as_u64().map(Duration::from_millis),
            _ => None,
        }
    }

    /// Whether it is sure that this request, unlike perhaps one before it, was not granted.
    pub(super) fn did_nothing(&self) -> bool {
        match self {
            Self::Unreachable { was_sent, .. } => !was_sent,
            Self::Refused(problem) => {
                (201..500).contains(&problem.status) || ["OVERLOADED", "DRAINING"].contains(&problem.code.as_str())
            }
            Self::Lost(_) | Self::NotConfigured(_) | Self::NotHeld(_) => true,
            Self::Timeout(_) => false,
        }
    }

    /// The same, as the answer to a call about this lock: then some refusals mean that the lock is over.
    pub(super) fn about(self, name: &LockName) -> Self {
        match self {
            Self::Refused(problem) if CODES_OF_LOSS.contains(&problem.code.as_str()) => {
                Self::Lost(LockLost::new(name, &problem.code, problem.detail))
            }
            other => other,
        }
    }
}
