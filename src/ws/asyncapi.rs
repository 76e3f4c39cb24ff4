//! The AsyncAPI description of the socket. What locks look like is taken from the OpenAPI description, so that the two
//! cannot differ; a test compares the messages with real ones.

use serde_json::{Map, Value, json};

use crate::live::presence::LISTED;

/// A field of a message: its name, whether it is always there, its schema.
type Field = (&'static str, bool, Value);

const ALWAYS: bool = true;
const SOMETIMES: bool = false;

/// From the OpenAPI description.
pub fn document(openapi: &str) -> String {
    let openapi: Value = serde_json::from_str(openapi).unwrap_or_default();
    let (sent, received) = (from_client(), from_server());
    let names = |messages: &[(&str, Value)]| -> Vec<Value> {
        messages.iter().map(|(name, _)| json!({"$ref": format!("#/channels/socket/messages/{name}")})).collect()
    };
    let all = || sent.iter().chain(&received);
    let of_channel: Map<_, _> =
        all().map(|(name, _)| ((*name).to_owned(), json!({"$ref": format!("#/components/messages/{name}")}))).collect();
    let messages: Map<_, _> =
        all().map(|(name, payload)| ((*name).to_owned(), json!({"name": name, "payload": payload}))).collect();
    json!({
        "asyncapi": "3.0.0",
        "info": {
            "title": "doclock", "version": openapi["info"]["version"],
            "description": "Live notices and locking over one WebSocket, subprotocol doclock.v1.",
        },
        "defaultContentType": "application/json",
        "channels": {"socket": {"address": "/ws", "messages": of_channel}},
        "operations": {
            "ask": {"action": "receive", "channel": {"$ref": "#/channels/socket"}, "messages": names(&sent)},
            "tell": {"action": "send", "channel": {"$ref": "#/channels/socket"}, "messages": names(&received)},
        },
        "components": {"messages": messages, "schemas": openapi["components"]["schemas"]},
    })
    .to_string()
}

fn from_client() -> Vec<(&'static str, Value)> {
    let id = || ("id", SOMETIMES, id());
    let after = object(None, vec![("epoch", ALWAYS, text()), ("sequence", ALWAYS, number())]);
    let of_document = |kind, mut more: Vec<Field>| {
        more.extend([id(), ("room", ALWAYS, text()), ("document", SOMETIMES, text())]);
        object(Some(kind), more)
    };
    let about_a_lock = |kind, more| {
        let mut message = of_document(kind, more);
        message["description"] = json!("And the fields of the HTTP call.");
        message["additionalProperties"] = json!(true);
        message
    };
    let keep = || ("keep", SOMETIMES, json!({"const": "connection"}));
    let handover = || ("handover_id", ALWAYS, text());
    vec![
        ("auth", object(Some("auth"), vec![id(), ("token", ALWAYS, text())])),
        (
            "subscribe",
            object(
                Some("subscribe"),
                vec![id(), ("room", ALWAYS, text()), ("after", SOMETIMES, after), ("extensions", SOMETIMES, flag())],
            ),
        ),
        ("unsubscribe", object(Some("unsubscribe"), vec![id(), ("room", ALWAYS, text())])),
        ("lock", about_a_lock("lock", vec![keep()])),
        ("extend", about_a_lock("extend", vec![keep()])),
        ("unlock", about_a_lock("unlock", vec![])),
        ("wait", about_a_lock("wait", vec![keep()])),
        ("cancel_wait", of_document("cancel_wait", vec![("session_id", ALWAYS, text())])),
        ("ask_handover", about_a_lock("ask_handover", vec![keep()])),
        ("cancel_handover", of_document("cancel_handover", vec![handover()])),
        ("answer_handover", about_a_lock("answer_handover", vec![handover(), ("grant", ALWAYS, flag())])),
        ("ping", object(Some("ping"), vec![id()])),
    ]
}

fn from_server() -> Vec<(&'static str, Value)> {
    let lock = || json!({"$ref": "#/components/schemas/Lock"});
    let mut locked = of_document("DocumentLocked", vec![("sequence", ALWAYS, number()), ("lock", ALWAYS, lock())]);
    locked["description"] = json!("The lock as it was when it was granted.");
    let unlocked = of_document(
        "DocumentUnlocked",
        vec![
            ("sequence", ALWAYS, number()),
            ("fencing_token", ALWAYS, number()),
            ("reason", ALWAYS, json!({"enum": ["released", "expired", "taken_over", "revoked", "handed_over"]})),
            ("by", ALWAYS, text_or_null()),
            ("document_version", ALWAYS, text_or_null()),
        ],
    );
    let saved = of_document(
        "DocumentSaved",
        vec![
            ("sequence", ALWAYS, number()),
            ("fencing_token", ALWAYS, number()),
            ("document_version", ALWAYS, text_or_null()),
            ("by", ALWAYS, text()),
        ],
    );
    let activity = of_document(
        "LockActivity",
        vec![("activity", ALWAYS, json!({"$ref": "#/components/schemas/Activity"})), ("active_at", ALWAYS, time())],
    );
    let limits = object(None, vec![("message_bytes", ALWAYS, number()), ("rooms", ALWAYS, number())]);
    let welcome = vec![
        ("epoch", ALWAYS, text()),
        ("server_time", ALWAYS, time()),
        ("ping_ms", ALWAYS, number()),
        ("limits", ALWAYS, limits),
        ("owner_id", ALWAYS, text()),
        ("name", ALWAYS, text_or_null()),
        ("role", ALWAYS, json!({"enum": ["viewer", "editor", "admin"]})),
    ];
    vec![
        ("welcome", object(Some("welcome"), welcome)),
        ("subscribed", page("subscribed", &lock())),
        ("snapshot", page("snapshot", &lock())),
        ("DocumentLocked", locked),
        ("DocumentUnlocked", unlocked),
        ("DocumentSaved", saved),
        ("LockExtended", of_document("LockExtended", vec![("expires_at", ALWAYS, time())])),
        ("LockActivity", activity),
        ("LockWaiting", waiting()),
        ("granted", of_document("granted", vec![("lock", ALWAYS, lock()), ("server_time", ALWAYS, time())])),
        ("extended", extended()),
        ("HandoverAsked", asked()),
        ("HandoverAnswered", answered()),
        ("ParticipantJoined", presence("ParticipantJoined")),
        ("ParticipantLeft", presence("ParticipantLeft")),
        ("ok", answer("ok", vec![])),
        ("pong", object(Some("pong"), vec![("id", SOMETIMES, id()), ("server_time", ALWAYS, time())])),
        (
            "error",
            answer(
                "error",
                vec![
                    ("code", ALWAYS, json!({"$ref": "#/components/schemas/Code"})),
                    ("retryable", ALWAYS, flag()),
                    ("detail", ALWAYS, text()),
                ],
            ),
        ),
        ("goodbye", object(Some("goodbye"), vec![("reconnect_after_ms", ALWAYS, number())])),
    ]
}

/// What is told to whoever stands in line.
fn waiting() -> Value {
    let position = json!({"type": ["integer", "null"], "description": "Null once it is in line no more."});
    of_document("LockWaiting", vec![("position", ALWAYS, position)])
}

/// A renewal by the server of a lock that a socket keeps, or has claimed.
fn extended() -> Value {
    of_document(
        "extended",
        vec![
            ("lease_id", ALWAYS, text()),
            ("expires_at", ALWAYS, time()),
            ("expires_in_ms", ALWAYS, number()),
            ("server_time", ALWAYS, time()),
        ],
    )
}

fn asked() -> Value {
    of_document(
        "HandoverAsked",
        vec![
            ("handover_id", ALWAYS, text()),
            ("by", ALWAYS, json!({"$ref": "#/components/schemas/Holder"})),
            ("message", ALWAYS, text_or_null()),
            ("expires_in_ms", ALWAYS, number()),
        ],
    )
}

fn answered() -> Value {
    of_document(
        "HandoverAnswered",
        vec![
            ("handover_id", ALWAYS, text()),
            ("outcome", ALWAYS, json!({"enum": ["granted", "denied", "unanswered", "cancelled", "moot"]})),
            ("message", ALWAYS, text_or_null()),
        ],
    )
}

fn page(kind: &'static str, lock: &Value) -> Value {
    let notices = ["DocumentLocked", "DocumentUnlocked", "DocumentSaved", "HandoverAnswered"];
    let notices = notices.map(|notice| json!({"$ref": format!("#/components/messages/{notice}/payload")}));
    let notice = json!({"anyOf": notices});
    let mut fields = vec![
        ("room", ALWAYS, text()),
        ("more", ALWAYS, flag()),
        ("locks", SOMETIMES, json!({"type": "array", "items": lock})),
        ("events", SOMETIMES, json!({"type": "array", "items": notice})),
    ];
    if kind == "subscribed" {
        fields.extend([
            ("id", SOMETIMES, id()),
            ("epoch", ALWAYS, text()),
            ("sequence", ALWAYS, number()),
            ("recovered", ALWAYS, flag()),
            ("server_time", ALWAYS, time()),
            ("participants", ALWAYS, json!({"type": "array", "items": participant(), "maxItems": LISTED + 1})),
        ]);
    }
    object(Some(kind), fields)
}

fn presence(kind: &'static str) -> Value {
    object(Some(kind), vec![("room", ALWAYS, text()), ("participant", ALWAYS, participant())])
}

fn participant() -> Value {
    object(None, vec![("owner_id", ALWAYS, text()), ("name", ALWAYS, text_or_null())])
}

/// What else it says is that of the HTTP call.
fn answer(kind: &'static str, mut fields: Vec<Field>) -> Value {
    fields.extend([("id", SOMETIMES, id()), ("server_time", ALWAYS, time())]);
    let mut message = object(Some(kind), fields);
    message["additionalProperties"] = json!(true);
    message
}

/// A message of the server about a document.
fn of_document(kind: &'static str, mut fields: Vec<Field>) -> Value {
    fields.extend([("room", ALWAYS, text()), ("document", ALWAYS, text())]);
    object(Some(kind), fields)
}

fn object(kind: Option<&'static str>, fields: Vec<Field>) -> Value {
    let kind = kind.map(|kind| ("type", ALWAYS, json!({"const": kind})));
    let fields: Vec<_> = kind.into_iter().chain(fields).collect();
    let required: Vec<_> = fields.iter().filter(|(_, always, _)| *always).map(|(name, ..)| *name).collect();
    let properties: Map<_, _> = fields.iter().map(|(name, _, schema)| ((*name).to_owned(), schema.clone())).collect();
    json!({"type": "object", "required": required, "properties": properties, "additionalProperties": false})
}

fn id() -> Value {
    json!({"type": ["string", "number"], "description": "The client's own, told again in the answer."})
}

fn text() -> Value {
    json!({"type": "string"})
}

fn text_or_null() -> Value {
    json!({"type": ["string", "null"]})
}

fn number() -> Value {
    json!({"type": "integer"})
}

fn flag() -> Value {
    json!({"type": "boolean"})
}

fn time() -> Value {
    json!({"type": "string", "format": "date-time"})
}
