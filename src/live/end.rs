//! Why a socket or a stream ends.

use super::outbox::Refused;
use crate::calls::Problem;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The client is told why.
    Close(Close, &'static str),
    /// The client is gone, or has been told already.
    Gone,
}

/// The reasons for which a socket is closed. Each protocol has codes of its own for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Close {
    Normal,
    TooBig,
    Draining,
    BadFrame,
    Unauthorized,
    Forbidden,
    TooSlow,
    NoPong,
    TooMany,
}

impl End {
    /// The end of a client that has missed something which cannot be read: it has to come again.
    pub fn cut_off(problem: &Problem) -> Self {
        Self::Close(Close::TooSlow, problem.code.name())
    }
}

impl From<Refused> for End {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::TooSlow | Refused::Closed => Self::Gone,
        }
    }
}
