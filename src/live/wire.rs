//! Wire formats, and what is sent to many: encoded once per format, then only counted.

use std::sync::OnceLock;

use bytes::Bytes;

use super::{
    Subscriber,
    messages::Page,
    presence::{Participant, PresenceChange},
};
use crate::{
    locking::{Ask, Event, Lock, Timestamp, names::RoomId},
    storage::{soft_state::ActivitySaid, tail::Head},
};

/// How a transport writes what a room hears. There is one `static` per format, in the transport's folder; everyone who
/// hears by it refers to that one.
#[derive(Debug)]
pub struct Wire {
    /// For people who debug.
    pub name: &'static str,
    /// An event, with its place in the log. `sees_all`: with what only the lock's owner and admins may see.
    pub event: fn(event: &Event, at: Head, sees_all: bool) -> Bytes,
    /// A lock that was extended.
    pub extension: fn(lock: &Lock) -> Bytes,
    /// An open ask, told again to a holder that has come back.
    pub ask: fn(ask: &Ask, now: Timestamp) -> Bytes,
    /// What a holder says of itself.
    pub activity: fn(said: &ActivitySaid) -> Bytes,
    /// Somebody came or went.
    pub presence: fn(room: &RoomId, change: PresenceChange, participant: &Participant) -> Bytes,
    /// A page of what a newcomer is told. `complete_to`: on the last page, up to where its reader then knows the room.
    pub page: fn(page: &Page<'_>, complete_to: Option<Head>) -> Bytes,
}

/// How many formats of a message are kept. Should there be more, those are encoded for each subscriber.
const FORMATS: usize = 3;

/// A message in each format that was asked for, encoded when it first was.
#[derive(Debug, Default)]
pub(super) struct Encoded([OnceLock<(&'static Wire, Bytes)>; FORMATS]);

impl Encoded {
    pub fn bytes(&self, wire: &'static Wire, encode: impl FnOnce() -> Bytes) -> Bytes {
        for place in &self.0 {
            match place.get() {
                Some((known, bytes)) if std::ptr::eq(*known, wire) => return bytes.clone(),
                Some(_) => {}
                None => {
                    let bytes = encode();
                    let _ = place.set((wire, bytes.clone()));
                    return bytes;
                }
            }
        }
        encode()
    }
}

/// An event on its way to many.
#[derive(Debug)]
pub(super) struct Notice {
    pub at: Head,
    pub event: Event,
    /// For the lock's owner and admins.
    full: Encoded,
    /// For everyone else.
    partial: Encoded,
}

impl Notice {
    pub fn new(at: Head, event: Event) -> Self {
        Self { at, event, full: Encoded::default(), partial: Encoded::default() }
    }

    pub fn bytes_for(&self, subscriber: &Subscriber) -> Bytes {
        let sees_all = subscriber.is_admin || subscriber.owner == self.event.lock.holder.owner;
        let encoded = if sees_all { &self.full } else { &self.partial };
        encoded.bytes(subscriber.wire, || (subscriber.wire.event)(&self.event, self.at, sees_all))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const fn named(name: &'static str) -> Wire {
        Wire {
            name,
            event: |_, _, _| Bytes::from_static(b"notice"),
            extension: |_| Bytes::new(),
            ask: |_, _| Bytes::new(),
            activity: |_| Bytes::new(),
            presence: |_, _, _| Bytes::new(),
            page: |_, _| Bytes::new(),
        }
    }

    pub static ANY: Wire = named("any");
    static OTHER: Wire = named("other");

    #[test]
    fn a_message_is_encoded_once_for_each_wire_format() {
        let (encoded, count) = (Encoded::default(), std::cell::Cell::new(0));
        for (wire, expected) in [(&ANY, 1), (&OTHER, 2), (&ANY, 2), (&OTHER, 2)] {
            let bytes = encoded.bytes(wire, || {
                count.set(count.get() + 1);
                wire.name.into()
            });
            assert_eq!((bytes, count.get()), (Bytes::from(wire.name), expected));
        }
    }
}
