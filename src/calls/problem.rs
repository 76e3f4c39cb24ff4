//! The error catalogue: every failure a client can see, as `application/problem+json` (RFC 9457).
//!
//! Codes are final. A handler returns a [`Problem`]; `observe` renders it, so that it can add the time.

use std::fmt;

use actix_web::{
    HttpResponse, ResponseError,
    http::{StatusCode, header},
};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::view::{DoneView, FailedView, LockView};
use crate::{
    auth::{Forbidden, TokenError},
    committer::SubmitError,
    locking::Timestamp,
    storage::StorageError,
};

macro_rules! catalogue {
    ($($Code:ident $name:literal $status:ident $retryable:literal $title:literal),+ $(,)?) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
        pub enum Code {
            $(#[serde(rename = $name)] $Code,)+
        }

        impl Code {
            pub const ALL: &[Self] = &[$(Self::$Code),+];

            pub fn name(self) -> &'static str {
                match self { $(Self::$Code => $name,)+ }
            }

            pub fn status(self) -> StatusCode {
                match self { $(Self::$Code => StatusCode::$status,)+ }
            }

            pub fn title(self) -> &'static str {
                match self { $(Self::$Code => $title,)+ }
            }

            /// Whether the same request may succeed later, unchanged.
            pub fn is_retryable(self) -> bool {
                match self { $(Self::$Code => $retryable,)+ }
            }
        }
    };
}

catalogue! {
    BadJson "BAD_JSON" BAD_REQUEST false "The body is not JSON",
    BadRequest "BAD_REQUEST" BAD_REQUEST false "The request cannot be understood",
    TokenMissing "TOKEN_MISSING" UNAUTHORIZED false "A bearer token is needed",
    TokenInvalid "TOKEN_INVALID" UNAUTHORIZED false "The token is not valid",
    TokenExpired "TOKEN_EXPIRED" UNAUTHORIZED false "The token has expired",
    NotOwner "NOT_OWNER" FORBIDDEN false "Someone else holds the lock",
    RoleForbids "ROLE_FORBIDS" FORBIDDEN false "Your role does not allow this",
    RoomForbidden "ROOM_FORBIDDEN" FORBIDDEN false "Your token is not good for this room",
    LockNotFound "LOCK_NOT_FOUND" NOT_FOUND false "There is no such lock",
    NotFound "NOT_FOUND" NOT_FOUND false "There is nothing here",
    MethodNotAllowed "METHOD_NOT_ALLOWED" METHOD_NOT_ALLOWED false "This method is not allowed here",
    LockHeld "LOCK_HELD" CONFLICT true "The document is locked",
    LeaseExpired "LEASE_EXPIRED" CONFLICT false "Your lock has expired",
    LeaseReleased "LEASE_RELEASED" CONFLICT false "Your lock has been released",
    LeaseRevoked "LEASE_REVOKED" CONFLICT false "Your lock has been ended by someone else",
    LeaseMismatch "LEASE_MISMATCH" CONFLICT false "That is not the lock you hold",
    CapacityMismatch "CAPACITY_MISMATCH" CONFLICT false "The document has another capacity",
    BodyTooLarge "BODY_TOO_LARGE" PAYLOAD_TOO_LARGE false "The body is too large",
    UnsupportedMediaType "UNSUPPORTED_MEDIA_TYPE" UNSUPPORTED_MEDIA_TYPE false "The body must be JSON",
    InvalidField "INVALID_FIELD" UNPROCESSABLE_ENTITY false "A field has a value that does not fit",
    UnknownField "UNKNOWN_FIELD" UNPROCESSABLE_ENTITY false "There is no such field",
    RequestIdReused "REQUEST_ID_REUSED" UNPROCESSABLE_ENTITY false "Another request has used this request id",
    RateLimited "RATE_LIMITED" TOO_MANY_REQUESTS true "Too many requests",
    LimitReached "LIMIT_REACHED" TOO_MANY_REQUESTS true "There are as many as you may have",
    OutcomeUnknown "OUTCOME_UNKNOWN" SERVICE_UNAVAILABLE true "The database did not answer",
    Overloaded "OVERLOADED" SERVICE_UNAVAILABLE true "The server has too much to do",
    Draining "DRAINING" SERVICE_UNAVAILABLE true "The server is stopping",
}

/// A failure on its way to the client.
#[derive(Debug, Clone)]
pub struct Problem {
    pub code: Code,
    pub detail: String,
    /// What helps the client: `field`, `lock`, `retry_after_ms`.
    extra: Map<String, Value>,
    allow: Option<String>,
}

impl Problem {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), extra: Map::new(), allow: None }
    }

    pub fn field(code: Code, field: &str, detail: impl fmt::Display) -> Self {
        Self::new(code, format!("`{field}` {detail}")).with("field", field)
    }

    pub fn invalid(field: &str, detail: impl fmt::Display) -> Self {
        Self::field(Code::InvalidField, field, detail)
    }

    pub fn not_allowed(allow: &str) -> Self {
        let problem = Self::new(Code::MethodNotAllowed, format!("Allowed here: {allow}"));
        Self { allow: Some(allow.to_owned()), ..problem }
    }

    #[must_use]
    pub fn with(mut self, name: &str, value: impl Serialize) -> Self {
        self.extra.insert(name.to_owned(), serde_json::to_value(value).unwrap_or_default());
        self
    }

    /// What helps the client.
    pub fn extra(&self) -> &Map<String, Value> {
        &self.extra
    }

    /// When it is worth trying again; also told by `Retry-After`, in whole seconds.
    #[must_use]
    pub fn retry_after_ms(self, millis: i64) -> Self {
        self.with("retry_after_ms", millis)
    }

    /// For answers that no handler's `Result` carries.
    pub fn into_response(self) -> HttpResponse {
        HttpResponse::from_error(self)
    }

    pub fn render(&self, now: Timestamp) -> HttpResponse {
        let mut answer = HttpResponse::build(self.code.status());
        if let Some(allow) = &self.allow {
            answer.insert_header((header::ALLOW, allow.as_str()));
        }
        if self.code.status() == StatusCode::UNAUTHORIZED {
            answer.insert_header((header::WWW_AUTHENTICATE, "Bearer"));
        }
        if let Some(millis) = self.extra.get("retry_after_ms").and_then(Value::as_i64) {
            answer.insert_header((header::RETRY_AFTER, (millis.max(0) + 999) / 1000));
        }
        let body = ProblemBody {
            r#type: format!("urn:doclock:problem:{}", self.code.name()),
            title: self.code.title(),
            status: self.code.status().as_u16(),
            detail: &self.detail,
            code: self.code,
            retryable: self.code.is_retryable(),
            server_time: now,
            extra: &self.extra,
        };
        let body = serde_json::to_string(&body).unwrap_or_default();
        answer.content_type("application/problem+json").body(body)
    }
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

/// What helps, where it does.
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

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.name(), self.detail)
    }
}

impl ResponseError for Problem {
    fn status_code(&self) -> StatusCode {
        self.code.status()
    }

    /// Bare: `observe` renders it with the time.
    fn error_response(&self) -> HttpResponse {
        HttpResponse::new(self.code.status())
    }
}

impl From<TokenError> for Problem {
    fn from(error: TokenError) -> Self {
        let code = match error {
            TokenError::Invalid(_) => Code::TokenInvalid,
            TokenError::Expired => Code::TokenExpired,
        };
        Self::new(code, error.to_string())
    }
}

impl From<Forbidden> for Problem {
    fn from(forbidden: Forbidden) -> Self {
        match forbidden {
            Forbidden::Role { needed } => {
                Self::new(Code::RoleForbids, format!("This takes the role {needed:?}.").to_lowercase())
            }
            Forbidden::Room => Self::new(Code::RoomForbidden, "The token's `rooms` do not include this room."),
        }
    }
}

impl From<SubmitError> for Problem {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Overloaded => {
                Self::new(Code::Overloaded, "Nothing was done. Try again in a moment.").retry_after_ms(1000)
            }
            SubmitError::Stopped => {
                Self::new(Code::Draining, "Nothing was done. Try again, on another server if there is one.")
                    .retry_after_ms(1000)
            }
            SubmitError::Storage(error) => error.into(),
        }
    }
}

/// What went wrong inside is logged where it happened, and of no use to the client.
impl From<StorageError> for Problem {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::Conflict(_)
            | StorageError::OutcomeUnknown(_)
            | StorageError::Unavailable(_)
            | StorageError::Rewound { .. } => {
                let detail = "Whether it was done is not known. Sending it again with the same request_id is safe.";
                Self::new(Code::OutcomeUnknown, detail).retry_after_ms(1000)
            }
        }
    }
}
