//! Who is calling, and what they may do.
//!
//! 1. [`Keys`] are the HS256 secret and the public keys of a JWKS file; a token must be signed by one of them.
//! 2. [`Keys::verify`] turns a token into a [`Caller`]. Everything else speaks of callers, never of tokens.
//! 3. The owner of a lock is the caller's, whatever a body says.

mod origins;
mod rooms;
pub mod secret;
mod tokens;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::locking::{
    HolderKind, Timestamp,
    names::{OwnerId, RoomId, TenantId},
};
pub use origins::Origins;
pub use rooms::RoomGlobs;
pub use tokens::{Claims, KeyError, Keys, TokenError};

/// Each role may do what those before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    #[default]
    Viewer,
    Editor,
    Admin,
}

/// Whom a token stands for.
#[derive(Debug, Clone)]
pub struct Caller {
    pub tenant: TenantId,
    pub owner: OwnerId,
    pub name: Option<Arc<str>>,
    pub kind: HolderKind,
    pub role: Role,
    pub rooms: RoomGlobs,
    pub may_take_over: bool,
    /// When the token expires, in wall-clock time: whoever issued it knows no other.
    pub expires_at: Timestamp,
}

/// Why a caller may not do something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forbidden {
    Role { needed: Role },
    Room,
}

impl Caller {
    /// Fails if the caller has a lesser role.
    pub fn require(&self, role: Role) -> Result<(), Forbidden> {
        if self.role < role { Err(Forbidden::Role { needed: role }) } else { Ok(()) }
    }

    /// Fails if the caller may not see the room, or has a lesser role.
    pub fn require_in(&self, role: Role, room: &RoomId) -> Result<(), Forbidden> {
        // The room is checked first: a caller who may not see it learns nothing about it, not even which role it takes.
        if !self.rooms.allow(room) {
            return Err(Forbidden::Room);
        }
        self.require(role)
    }
}
