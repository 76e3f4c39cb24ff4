//! The error catalogue: every failure a client can see. Codes are final.
//!
//! A verb returns a [`Problem`]; the transport renders it, with the time.

use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{
    auth::{Forbidden, TokenError},
    committer::SubmitError,
    storage::StorageError,
};

macro_rules! catalogue {
    ($($Code:ident $name:literal $status:literal $retryable:literal $title:literal),+ $(,)?) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
        pub enum Code {
            $(#[serde(rename = $name)] $Code,)+
        }

        impl Code {
            pub const ALL: &[Self] = &[$(Self::$Code),+];

            pub fn name(self) -> &'static str {
                match self { $(Self::$Code => $name,)+ }
            }

            /// The HTTP status it has.
            pub fn status(self) -> u16 {
                match self { $(Self::$Code => $status,)+ }
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
    BadJson "BAD_JSON" 400 false "The body is not JSON",
    BadRequest "BAD_REQUEST" 400 false "The request cannot be understood",
    TokenMissing "TOKEN_MISSING" 401 false "A bearer token is needed",
    TokenInvalid "TOKEN_INVALID" 401 false "The token is not valid",
    TokenExpired "TOKEN_EXPIRED" 401 false "The token has expired",
    NotOwner "NOT_OWNER" 403 false "Someone else holds the lock",
    RoleForbids "ROLE_FORBIDS" 403 false "Your role does not allow this",
    OriginForbidden "ORIGIN_FORBIDDEN" 403 false "Pages of this origin may not connect",
    RoomForbidden "ROOM_FORBIDDEN" 403 false "Your token is not good for this room",
    LockNotFound "LOCK_NOT_FOUND" 404 false "There is no such lock",
    NotFound "NOT_FOUND" 404 false "There is nothing here",
    MethodNotAllowed "METHOD_NOT_ALLOWED" 405 false "This method is not allowed here",
    LockHeld "LOCK_HELD" 409 true "The document is locked",
    LeaseExpired "LEASE_EXPIRED" 409 false "Your lock has expired",
    LeaseReleased "LEASE_RELEASED" 409 false "Your lock has been released",
    LeaseRevoked "LEASE_REVOKED" 409 false "Your lock has been ended by someone else",
    LeaseMismatch "LEASE_MISMATCH" 409 false "That is not the lock you hold",
    StaleToken "STALE_TOKEN" 409 false "A newer fencing token has been used",
    CapacityMismatch "CAPACITY_MISMATCH" 409 false "The document has another capacity",
    BodyTooLarge "BODY_TOO_LARGE" 413 false "The body is too large",
    UnsupportedMediaType "UNSUPPORTED_MEDIA_TYPE" 415 false "The body must be JSON",
    InvalidField "INVALID_FIELD" 422 false "A field has a value that does not fit",
    UnknownField "UNKNOWN_FIELD" 422 false "There is no such field",
    RequestIdReused "REQUEST_ID_REUSED" 422 false "Another request has used this request id",
    RateLimited "RATE_LIMITED" 429 true "Too many requests",
    LimitReached "LIMIT_REACHED" 429 true "There are as many as you may have",
    OutcomeUnknown "OUTCOME_UNKNOWN" 503 true "The database did not answer",
    Overloaded "OVERLOADED" 503 true "The server has too much to do",
    Draining "DRAINING" 503 true "The server is stopping",
}

/// A failure on its way to the client.
#[derive(Debug, Clone)]
pub struct Problem {
    pub code: Code,
    pub detail: String,
    /// What helps the client: `field`, `lock`, `retry_after_ms`.
    extra: Map<String, Value>,
}

impl Problem {
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: detail.into(), extra: Map::new() }
    }

    /// A problem of one field, which is told by name.
    pub fn field(code: Code, field: &str, detail: impl fmt::Display) -> Self {
        Self::new(code, format!("`{field}` {detail}")).with("field", field)
    }

    pub fn invalid(field: &str, detail: impl fmt::Display) -> Self {
        Self::field(Code::InvalidField, field, detail)
    }

    #[must_use]
    pub fn with(mut self, name: &str, value: impl Serialize) -> Self {
        self.extra.insert(name.to_owned(), serde_json::to_value(value).unwrap_or_default());
        self
    }

    /// What helps the client, by name.
    pub fn extra(&self) -> &Map<String, Value> {
        &self.extra
    }

    /// When it is worth trying again; also told by `Retry-After`, in whole seconds.
    #[must_use]
    pub fn retry_after_ms(self, millis: i64) -> Self {
        self.with("retry_after_ms", millis)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.name(), self.detail)
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
