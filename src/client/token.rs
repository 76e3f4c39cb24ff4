//! The bearer token that requests carry.

use std::{fmt, sync::Arc};

use super::LockError;

type Fetched = Result<String, Box<dyn std::error::Error + Send + Sync>>;

/// A token, or the way to one.
#[derive(Clone)]
pub struct BearerToken(Source);

#[derive(Clone)]
enum Source {
    Fixed(Arc<str>),
    Asked(Arc<dyn Fn() -> Fetched + Send + Sync>),
}

impl BearerToken {
    /// `fetch` is called for every request, so that it can renew what expires. It may block.
    pub fn from_fn(fetch: impl Fn() -> Fetched + Send + Sync + 'static) -> Self {
        Self(Source::Asked(Arc::new(fetch)))
    }

    /// Fails if it cannot be fetched, or is no token. Needs a tokio runtime.
    pub(super) async fn current(&self) -> Result<String, LockError> {
        let no = |reason: &dyn fmt::Display| LockError::NotConfigured(format!("the token cannot be fetched: {reason}"));
        let token = match &self.0 {
            Source::Fixed(token) => token.to_string(),
            Source::Asked(fetch) => {
                // It may go to the network, and must not hold up the heartbeats of other locks; and if it panics, that
                // is one failed request and not the end of all heartbeats.
                let fetch = Arc::clone(fetch);
                let fetched = tokio::task::spawn_blocking(move || fetch()).await;
                fetched.map_err(|error| no(&error))?.map_err(|error| no(&error))?
            }
        };
        let token = token.trim(); // files and environments like to end in a newline
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            let problem = "the token is empty, or has characters that no token has";
            return Err(LockError::NotConfigured(problem.to_owned()));
        }
        Ok(token.to_owned())
    }
}

impl From<String> for BearerToken {
    fn from(token: String) -> Self {
        Self(Source::Fixed(token.into()))
    }
}

impl From<&str> for BearerToken {
    fn from(token: &str) -> Self {
        Self(Source::Fixed(token.into()))
    }
}

/// A token is never printed.
impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken(…)")
    }
}
