//! Problems as HTTP answers: `application/problem+json` (RFC 9457).
//!
//! A handler returns a [`Problem`]; `observe` renders it, so that it can add the time.

use actix_web::{
    HttpResponse, ResponseError,
    http::{StatusCode, header},
};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::{
    calls::{
        Code, Problem,
        view::{DoneView, FailedView, LockView},
    },
    locking::Timestamp,
};

impl ResponseError for Problem {
    fn status_code(&self) -> StatusCode {
        StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Returns a bare answer: `observe` renders the problem with the time.
    fn error_response(&self) -> HttpResponse {
        HttpResponse::new(self.status_code())
    }
}

/// The answer to a method that the path does not have.
pub fn not_allowed(allow: &header::HeaderValue) -> HttpResponse {
    let methods = allow.to_str().unwrap_or_default();
    let problem = Problem::new(Code::MethodNotAllowed, format!("Allowed here: {methods}"));
    let mut answer = HttpResponse::from_error(problem);
    answer.headers_mut().insert(header::ALLOW, allow.clone());
    answer
}

pub fn render(problem: &Problem, now: Timestamp) -> HttpResponse {
    let status = problem.status_code();
    let mut answer = HttpResponse::build(status);
    if status == StatusCode::UNAUTHORIZED {
        answer.insert_header((header::WWW_AUTHENTICATE, "Bearer"));
    }
    if let Some(millis) = problem.extra().get("retry_after_ms").and_then(Value::as_i64) {
        answer.insert_header((header::RETRY_AFTER, (millis.max(0) + 999) / 1000));
    }
    let body = ProblemBody {
        r#type: format!("urn:doclock:problem:{}", problem.code.name()),
        title: problem.code.title(),
        status: problem.code.status(),
        detail: &problem.detail,
        code: problem.code,
        retryable: problem.code.is_retryable(),
        server_time: now,
        extra: problem.extra(),
    };
    let body = serde_json::to_string(&body).unwrap_or_default();
    answer.content_type("application/problem+json").body(body)
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemBody<'p> {
    r#type: String,
    title: &'static str,
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    detail: &'p str,
    code: Code,
    retryable: bool,
    server_time: Timestamp,
    #[serde(flatten)]
    #[schema(value_type = Help)]
    extra: &'p Map<String, Value>,
}

/// Further fields of a problem. Each is there only where it helps.
#[derive(Debug, ToSchema)]
#[schema(as = ProblemHelp)]
#[expect(dead_code, reason = "only describes what a problem's `extra` holds")]
struct Help {
    /// The field at fault.
    #[schema(nullable = false)]
    field: Option<String>,
    /// The lock in the way.
    #[schema(nullable = false)]
    lock: Option<LockView>,
    /// The lock in the way is the caller's own, of another session.
    #[schema(nullable = false)]
    is_you: Option<bool>,
    #[schema(nullable = false, minimum = 0)]
    retry_after_ms: Option<i64>,
    /// The capacity in force.
    #[schema(nullable = false, minimum = 1)]
    capacity: Option<u32>,
    /// How many locks one owner may hold.
    #[schema(nullable = false)]
    limit: Option<u32>,
    /// Of several documents, those that failed.
    #[schema(nullable = false)]
    failed: Option<Vec<FailedView>>,
    /// Of several documents, what was done all the same.
    #[schema(nullable = false)]
    items: Option<Vec<DoneView>>,
}
