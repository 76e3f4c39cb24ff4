//! An event on its way to many: encoded once per form, then only counted.

use std::sync::OnceLock;

use bytes::Bytes;
use uuid::Uuid;

use super::Subscriber;
use crate::locking::Event;

/// How it travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    WebSocket,
    EventStream,
}

/// What its bytes depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    pub wire: Wire,
    /// With what only the lock's owner and admins may see.
    pub is_full: bool,
}

impl Form {
    fn index(self) -> usize {
        let wire = match self.wire {
            Wire::WebSocket => 0,
            Wire::EventStream => 2,
        };
        wire + usize::from(self.is_full)
    }
}

/// How events are written is not the hub's business.
pub type Encode = fn(&Event, i64, Uuid, Form) -> Bytes;

#[derive(Debug)]
pub struct Notice {
    pub sequence: i64,
    pub event: Event,
    epoch: Uuid,
    encode: Encode,
    encoded: [OnceLock<Bytes>; 4],
}

impl Notice {
    pub fn new(sequence: i64, event: Event, epoch: Uuid, encode: Encode) -> Self {
        Self { sequence, event, epoch, encode, encoded: Default::default() }
    }

    pub fn bytes_for(&self, subscriber: &Subscriber) -> Bytes {
        let is_full = subscriber.is_admin || subscriber.owner == self.event.lock.holder.owner;
        let form = Form { wire: subscriber.wire, is_full };
        let encoded = &self.encoded[form.index()];
        encoded.get_or_init(|| (self.encode)(&self.event, self.sequence, self.epoch, form)).clone()
    }
}
