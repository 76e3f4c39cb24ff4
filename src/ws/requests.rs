//! What a client asks, as JSON with a `type`.
//!
//! A message is parsed once, straight into the request of its type, if its `type` comes first, as clients send
//! it, and everything fits. Only a message that does not is read again, as an object, to tell what is wrong with it.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{
        DeserializeOwned, DeserializeSeed, Error as _, IntoDeserializer, MapAccess, Visitor,
        value::MapAccessDeserializer,
    },
};
use serde_json::{Map, Number, Value};
use uuid::Uuid;

use crate::{
    calls::{
        Code, DocumentName, Keep, Problem,
        cancel_wait::CancelWaitRequest,
        extend::ExtendRequest,
        fields::{self, from_object},
        handover::{AnswerRequest, AskRequest},
        lock::LockRequest,
        unlock::UnlockRequest,
    },
    live::{
        messages::MessageId,
        subscribe::{Head, Subscription},
    },
    locking::names::{DocumentId, RoomId, SessionId},
};

/// What a client asks. What is wrong with its fields is told when it is its turn.
#[derive(Debug)]
pub struct Asked {
    pub id: Option<MessageId>,
    pub request: SocketRequest,
}

#[derive(Debug)]
pub enum SocketRequest {
    Auth(Result<AuthRequest, Problem>),
    Subscribe(Result<RoomRequest<SubscribeFields>, Problem>),
    Unsubscribe(Result<RoomRequest<NoFields>, Problem>),
    /// For pages, which cannot see the pings of the protocol.
    Ping,
    /// About a lock; an unknown type is a command that fails.
    Command(Result<LockCommand, Problem>),
}

#[derive(Debug)]
pub enum LockCommand {
    Lock(DocumentName, LockRequest),
    Extend(DocumentName, ExtendRequest),
    Unlock(DocumentName, UnlockRequest),
    Wait(DocumentName, LockRequest),
    CancelWait(DocumentName, CancelWaitRequest),
    Ask(DocumentName, SocketAsk),
    CancelAsk(DocumentName, NamedAsk),
    AnswerAsk(DocumentName, AnswerRequest),
}

/// An ask, whose lock may be kept if it is granted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SocketAsk {
    message: Option<String>,
    session_id: Option<SessionId>,
    pub keep: Option<Keep>,
}

impl SocketAsk {
    pub fn request(self) -> AskRequest {
        AskRequest::new(self.message, self.session_id)
    }
}

/// An ask by its id.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamedAsk {
    pub handover_id: Uuid,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthRequest {
    pub token: String,
}

/// The token is never printed.
impl fmt::Debug for AuthRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthRequest").finish_non_exhaustive()
    }
}

/// About a room. The fields beside it are looked at after the room has been: a caller that may not see it learns that
/// first.
#[derive(Debug)]
pub struct RoomRequest<T> {
    pub room: RoomId,
    pub fields: Result<T, Problem>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SubscribeFields {
    after: Option<After>,
    extensions: Option<bool>,
}

impl SubscribeFields {
    pub fn subscription(self, room: RoomId, id: Option<MessageId>) -> Subscription {
        let extensions = self.extensions.unwrap_or_default();
        Subscription { room, after: self.after.map(Head::from), extensions, id }
    }
}

/// The fields of a message that has none.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoFields {}

/// Where the client's last visit ended. An epoch of any form may come, and any number: what is not known gives a snapshot.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct After {
    epoch: String,
    sequence: Number,
}

impl From<After> for Head {
    fn from(After { epoch, sequence }: After) -> Self {
        let sequence = sequence.as_i64().unwrap_or(i64::MAX);
        Self { epoch: Uuid::try_parse(&epoch).unwrap_or_default(), sequence }
    }
}

impl Asked {
    /// Fails if the text is not a message at all.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        match serde_json::from_str(text) {
            Ok(Fitting(asked)) => Ok(asked),
            Err(_) => Self::parse_object(text),
        }
    }

    fn parse_object(text: &str) -> Result<Self, &'static str> {
        let Ok(Value::Object(mut object)) = serde_json::from_str(text) else { return Err("not a JSON object") };
        let Some(Value::String(kind)) = object.remove("type") else { return Err("no `type`") };
        let id = MessageId::parse(object.remove("id").unwrap_or_default())?;
        let request = match kind.as_str() {
            "auth" => SocketRequest::Auth(from_object(object)),
            "subscribe" => SocketRequest::Subscribe(about_room(object)),
            "unsubscribe" => SocketRequest::Unsubscribe(about_room(object)),
            "lock" => SocketRequest::Command(about_lock(object, LockCommand::Lock)),
            "extend" => SocketRequest::Command(about_lock(object, LockCommand::Extend)),
            "unlock" => SocketRequest::Command(about_lock(object, LockCommand::Unlock)),
            "wait" => SocketRequest::Command(about_lock(object, LockCommand::Wait)),
            "cancel_wait" => SocketRequest::Command(about_lock(object, LockCommand::CancelWait)),
            "ask_handover" => SocketRequest::Command(about_lock(object, LockCommand::Ask)),
            "cancel_handover" => SocketRequest::Command(about_lock(object, LockCommand::CancelAsk)),
            "answer_handover" => SocketRequest::Command(about_lock(object, LockCommand::AnswerAsk)),
            "ping" => match from_object::<NoFields>(object) {
                Ok(NoFields {}) => SocketRequest::Ping,
                Err(problem) => SocketRequest::Command(Err(problem)),
            },
            kind => SocketRequest::Command(Err(Problem::new(
                Code::BadRequest,
                format!("`{kind}` is not a type this server knows."),
            ))),
        };
        Ok(Self { id, request })
    }
}

fn in_room(object: &mut Map<String, Value>) -> Result<RoomId, Problem> {
    name(object, "room")?.ok_or_else(|| Problem::invalid("room", "is needed"))
}

fn about_room<T: DeserializeOwned>(mut object: Map<String, Value>) -> Result<RoomRequest<T>, Problem> {
    Ok(RoomRequest { room: in_room(&mut object)?, fields: from_object(object) })
}

fn about_lock<T: DeserializeOwned>(
    mut object: Map<String, Value>,
    command: impl FnOnce(DocumentName, T) -> LockCommand,
) -> Result<LockCommand, Problem> {
    let room = in_room(&mut object)?;
    let document = name(&mut object, "document")?.unwrap_or_else(DocumentId::main);
    Ok(command(DocumentName { room, document }, fields::from_object(object)?))
}

/// Takes a name out of the fields.
fn name<T: TryFrom<String, Error: fmt::Display>>(
    object: &mut Map<String, Value>,
    field: &str,
) -> Result<Option<T>, Problem> {
    match object.remove(field) {
        None => Ok(None),
        Some(Value::String(text)) => T::try_from(text).map(Some).map_err(|reason| Problem::invalid(field, reason)),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            Err(Problem::invalid(field, "must be a text"))
        }
    }
}

/// A message in which everything fits, parsed in one pass. Whatever is unusual about another one, such as a field given
/// twice, is left to [`Asked::parse_object`].
struct Fitting(Asked);

impl<'de> Deserialize<'de> for Fitting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FittingVisitor)
    }
}

struct FittingVisitor;

/// A text that is not copied if it has no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> Visitor<'de> for FittingVisitor {
    type Value = Fitting;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message whose type comes first")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fitting, A::Error> {
        if map.next_key()?.is_none_or(|Text(name)| name != "type") {
            return Err(A::Error::custom("the type does not come first"));
        }
        let Text(kind) = map.next_value()?;
        let mut envelope = Envelope::default();
        let request = match &*kind {
            "auth" => SocketRequest::Auth(Ok(envelope.fields(map, &["id"])?)),
            "subscribe" => SocketRequest::Subscribe(Ok(envelope.about_room(map)?)),
            "unsubscribe" => SocketRequest::Unsubscribe(Ok(envelope.about_room(map)?)),
            "lock" => envelope.about_lock(map, LockCommand::Lock)?,
            "extend" => envelope.about_lock(map, LockCommand::Extend)?,
            "unlock" => envelope.about_lock(map, LockCommand::Unlock)?,
            // The others are rare: they are read as objects.
            _ => return Err(A::Error::custom("a rare or an unknown type")),
        };
        let id = MessageId::parse(envelope.id.unwrap_or_default()).map_err(A::Error::custom)?;
        Ok(Fitting(Asked { id, request }))
    }
}

/// What a message says beside the fields of its request.
#[derive(Default)]
struct Envelope {
    id: Option<Value>,
    room: Option<RoomId>,
    document: Option<DocumentId>,
}

impl Envelope {
    /// Reads the rest of a message. `takes` are the names that are the envelope's; all others are fields of the request.
    fn fields<'de, A: MapAccess<'de>, T: Deserialize<'de>>(
        &mut self,
        map: A,
        takes: &'static [&'static str],
    ) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(Rest { map, takes, envelope: self }))
    }

    fn about_room<'de, A: MapAccess<'de>, T: Deserialize<'de>>(&mut self, map: A) -> Result<RoomRequest<T>, A::Error> {
        let fields = self.fields(map, &["id", "room"])?;
        Ok(RoomRequest { room: self.room()?, fields: Ok(fields) })
    }

    fn about_lock<'de, A: MapAccess<'de>, T: Deserialize<'de>>(
        &mut self,
        map: A,
        command: impl FnOnce(DocumentName, T) -> LockCommand,
    ) -> Result<SocketRequest, A::Error> {
        let fields = self.fields(map, &["id", "room", "document"])?;
        let document = self.document.take().unwrap_or_else(DocumentId::main);
        Ok(SocketRequest::Command(Ok(command(DocumentName { room: self.room()?, document }, fields))))
    }

    fn room<E: serde::de::Error>(&mut self) -> Result<RoomId, E> {
        self.room.take().ok_or_else(|| E::missing_field("room"))
    }
}

/// The rest of a message as its request sees it: without what the envelope takes.
struct Rest<'e, A> {
    map: A,
    takes: &'static [&'static str],
    envelope: &'e mut Envelope,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Rest<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        while let Some(Text(name)) = self.map.next_key()? {
            if !self.takes.contains(&&*name) {
                return seed.deserialize(name.into_deserializer()).map(Some);
            }
            let is_new = match &*name {
                "id" => self.envelope.id.replace(self.map.next_value()?).is_none(),
                "room" => self.envelope.room.replace(self.map.next_value()?).is_none(),
                _ => self.envelope.document.replace(self.map.next_value()?).is_none(),
            };
            if !is_new {
                return Err(A::Error::custom("a name is given twice"));
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FITTING: [&str; 9] = [
        r#"{"type": "auth", "token": "secret", "id": 1}"#,
        r#"{"type": "subscribe", "room": "a/b", "after": {"epoch": "x", "sequence": 1e99}, "id": "mine"}"#,
        r#"{"type": "subscribe", "room": "r", "extensions": true}"#,
        r#"{"type": "unsubscribe", "id": null, "room": "r"}"#,
        r#"{"type": "lock", "room": "r"}"#,
        r#"{"type": "lock", "ttl_seconds": 5, "room": "r\u00e4", "document": "d", "metadata": {"b": [1], "a": null}}"#,
        r#"{"type": "lock", "room": "r", "request_id": "once", "takeover": true, "expected_token": 1, "capacity": 2}"#,
        r#"{"type": "extend", "room": "r", "session_id": "tab", "id": 7}"#,
        r#" {"type": "unlock", "room": "r", "lease_id": "01a1e884-dddf-78aa-85ad-c748c6ad7220"} "#,
    ];

    #[test]
    fn a_message_in_which_everything_fits_is_parsed_in_one_pass_to_the_same_request() {
        for text in FITTING {
            let Fitting(asked) = serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(format!("{asked:?}"), format!("{:?}", Asked::parse_object(text).unwrap()), "{text}");
        }
    }

    #[test]
    fn a_type_need_not_come_first_and_the_last_of_two_equal_names_counts() {
        for text in [
            r#"{"room": "r", "type": "lock"}"#,
            r#"{"type": "lock", "room": "other", "room": "r"}"#,
            r#"{"type": "extend", "type": "lock", "room": "r"}"#,
        ] {
            let asked = Asked::parse(text).unwrap();
            assert_eq!(format!("{asked:?}"), format!("{:?}", Asked::parse(FITTING[4]).unwrap()), "{text}");
        }
    }

    #[test]
    fn what_is_no_message_is_refused_with_a_reason() {
        for (text, reason) in [
            ("", "not a JSON object"),
            ("[]", "not a JSON object"),
            (r#"{"type": "lock", "room": "r"} x"#, "not a JSON object"),
            ("{}", "no `type`"),
            (r#"{"type": 5}"#, "no `type`"),
            (r#"{"type": "lock", "id": {}}"#, "`id` must be a short text or a number"),
        ] {
            assert_eq!(Asked::parse(text).err(), Some(reason), "{text}");
        }
    }

    #[test]
    fn what_does_not_fit_is_told_with_the_id_wherever_that_stands() {
        for (text, detail) in [
            (r#"{"type": "lock", "ttl_seconds": 5, "id": 7}"#, "`room` is needed"),
            (r#"{"type": "lock", "room": 5, "id": 7}"#, "`room` must be a text"),
            (r#"{"type": "lock", "room": "", "id": 7}"#, "`room` must not be empty"),
            (r#"{"type": "lock", "room": "r", "document": "..", "id": 7}"#, "`document` must not be `.` or `..`"),
            (r#"{"type": "lock", "room": "r", "x": 1, "id": 7}"#, "`x` is not a field of this request"),
            (r#"{"type": "dance", "room": "r", "id": 7}"#, "`dance` is not a type this server knows."),
        ] {
            let Asked { id, request: SocketRequest::Command(Err(problem)) } = Asked::parse(text).unwrap() else {
                panic!("{text}")
            };
            assert_eq!((id, problem.detail.as_str()), (MessageId::parse(7.into()).unwrap(), detail));
        }
    }
}
