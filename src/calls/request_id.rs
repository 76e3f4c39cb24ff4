//! Requests that may be sent again: their id, and what it stands for.

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{Call, Problem};
use crate::locking::{DocumentKey, Fingerprint, Request, names::RequestId};

impl Call {
    /// The request's id, from its fields or from beside them, with the fingerprint of what it stands for. Fails if both
    /// are given and differ.
    pub(super) fn request(
        &self,
        in_fields: Option<&RequestId>,
        verb: &str,
        keys: &[DocumentKey],
        fields: &impl Serialize,
    ) -> Result<Option<Request>, Problem> {
        let id = match (in_fields, &self.idempotency_key) {
            (Some(id), Some(key)) if id != key => {
                return Err(Problem::invalid("request_id", "differs from the header Idempotency-Key"));
            }
            (Some(id), _) | (None, Some(id)) => id.clone(),
            (None, None) => return Ok(None),
        };
        Ok(Some(Request { id, fingerprint: fingerprint(verb, keys, fields) }))
    }
}

/// Digest of the verb, the documents and the fields. It is stored with the request's memo for a day, so servers of two
/// versions must agree on it.
fn fingerprint(verb: &str, keys: &[DocumentKey], fields: &impl Serialize) -> Fingerprint {
    // No part contains it, so parts cannot run together.
    const END: [u8; 1] = [0];
    let mut digest = Sha256::new();
    let names = keys.iter().flat_map(|key| [key.room.as_str(), key.document.as_str()]);
    for part in std::iter::once(verb).chain(names) {
        digest.update(part);
        digest.update(END);
    }
    // Our own types can always be written, and a digest takes everything.
    let _ = serde_json::to_writer(&mut digest, fields);
    digest.update(END);
    let mut fingerprint = [0; 16];
    fingerprint.copy_from_slice(&digest.finalize()[..16]);
    Fingerprint(fingerprint)
}

/// Marks the field that carries the request's id: what it stands for is compared without it, since the same id may come
/// in the body once and as a header the next time. (`skip_serializing` would hide the field from the API's description.)
pub(super) fn not_compared<T>(_: &T) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        calls::{fields, lock::LockRequest},
        locking::names::{DocumentId, RoomId, TenantId},
    };

    #[test]
    fn a_fingerprint_is_of_verb_names_and_fields_without_the_id() {
        let key = DocumentKey {
            tenant: TenantId::default_tenant(),
            room: RoomId::from_stored("room"),
            document: DocumentId::from_stored("main"),
        };
        let request: LockRequest =
            fields::from_json(br#"{"metadata": {"b": 1, "a": [2]}, "request_id": "once", "session_id": "tab"}"#)
                .unwrap();
        let expected = Sha256::digest(concat!(
            "lock\0room\0main\0",
            r#"{"ttl_seconds":null,"session_id":"tab","takeover":null,"expected_token":null,"capacity":null,"#,
            r#""metadata":{"a":[2],"b":1},"document_version":null}"#,
            "\0"
        ));
        assert_eq!(fingerprint("lock", &[key], &request).0, expected[..16]);
    }
}
