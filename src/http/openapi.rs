//! The OpenAPI description, generated from the handlers and the types of `calls`. What all of them share is added here
//! once.

use std::collections::BTreeMap;

use utoipa::{
    OpenApi, PartialSchema, ToSchema,
    openapi::{
        ContentBuilder, HttpMethod, KnownFormat, Object, ObjectBuilder, PathItem, Ref, RefOr, Required, Response,
        ResponseBuilder, Schema, SchemaFormat, Type,
        path::{Operation, Parameter, ParameterBuilder, ParameterIn},
        security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};

use super::{admin, docs, event_stream, handovers, health, locks, problem::ProblemBody, room_locks, stream_passes};
use crate::{
    calls::{admin::events::OrderName, problem},
    locking::{
        Activity, EventName, HolderKind, Metadata, Timestamp,
        names::{DocumentId, DocumentVersion, MAX_NAME_BYTES, OwnerId, RequestId, RoomId, SessionId},
    },
};

#[derive(OpenApi)]
#[openapi(
    info(title = "doclock", description = "Real-time document locks with fencing tokens."),
    paths(
        locks::lock_document,
        locks::extend_lock,
        locks::unlock,
        locks::release,
        locks::read_lock,
        locks::verify,
        handovers::ask_handover,
        handovers::read_handover,
        handovers::cancel_handover,
        handovers::answer_handover,
        room_locks::room_locks,
        room_locks::lock_many,
        room_locks::extend_many,
        room_locks::unlock_many,
        event_stream::events,
        stream_passes::issue,
        admin::locks,
        admin::document,
        admin::unlock_one,
        admin::unlock_matching,
        admin::events,
        admin::stats,
        health::healthz,
        health::readyz,
        health::metrics,
        docs::openapi,
        docs::asyncapi,
    ),
    components(schemas(ProblemBody<'static>, EventName, OrderName)),
    // In the order of the page at `/docs/`: what editors need comes first.
    tags(
        (name = "locks", description = "One document. Paths without `{document}` mean the room's own, `main`."),
        (name = "handovers", description = "Asking the holder for a lock."),
        (name = "rooms", description = "Several documents of a room at once."),
        (name = "admin", description = "The lock table, the audit trail and figures. Takes the role admin."),
        (name = "operations", description = "For those who run the server."),
    ),
    security(("token" = [])),
    modifiers(&Shared),
)]
struct Description;

pub fn document() -> String {
    Description::openapi().to_json().unwrap_or_default()
}

struct Shared;

impl utoipa::Modify for Shared {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("JWT").build();
        let components = openapi.components.get_or_insert_default();
        components.security_schemes.insert("token".to_owned(), SecurityScheme::Http(bearer).into());
        for (path, item) in &mut openapi.paths.paths {
            for (method, operation) in operations(item) {
                complete(operation, path, &method);
            }
        }
        let short = |(path, item): (&String, &PathItem)| {
            let short = path.replace("/{document}", "");
            (path.contains("/{document}/")).then(|| (short, without_document(item)))
        };
        let family: BTreeMap<_, _> = openapi.paths.paths.iter().filter_map(short).collect();
        openapi.paths.paths.extend(family);
    }
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = (HttpMethod, &mut Operation)> {
    let verbs = [
        (HttpMethod::Get, &mut item.get),
        (HttpMethod::Post, &mut item.post),
        (HttpMethod::Put, &mut item.put),
        (HttpMethod::Delete, &mut item.delete),
    ];
    verbs.into_iter().filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

/// Adds the names in the path, and the problems any request may meet.
fn complete(operation: &mut Operation, path: &str, method: &HttpMethod) {
    let statuses: &[u16] = match (path.starts_with("/api/"), method) {
        (true, HttpMethod::Get) => &[400, 401, 403, 404, 422, 429, 503],
        (true, _) => &[400, 401, 403, 404, 409, 413, 415, 422, 429, 503],
        (false, _) => &[401, 403, 503],
    };
    for answer in operation.responses.responses.values_mut() {
        if let RefOr::T(answer) = answer
            && answer.description.is_empty()
        {
            "Done".clone_into(&mut answer.description);
        }
    }
    for status in statuses {
        operation.responses.responses.insert(status.to_string(), RefOr::T(problem_response(*status)));
    }
    let mut parameters: Vec<RefOr<Parameter>> = [("room", "minutes"), ("document", "intro")]
        .iter()
        .filter(|(name, _)| path.contains(&format!("{{{name}}}")))
        .map(|(name, example)| {
            let schema = Some(name_schema(example));
            let parameter = ParameterBuilder::new().name(*name).parameter_in(ParameterIn::Path).schema(schema);
            RefOr::T(parameter.required(Required::True).build())
        })
        .collect();
    if operation.operation_id.as_deref().is_some_and(|id| WITH_REQUEST_ID.contains(&id)) {
        parameters.push(RefOr::T(idempotency_key()));
    }
    parameters.append(operation.parameters.get_or_insert_default());
    operation.parameters = Some(parameters);
}

/// The operations that take a `request_id`: sent again with the same one, they do not act twice.
const WITH_REQUEST_ID: [&str; 6] =
    ["lock_document", "extend_lock", "unlock", "lock_many", "extend_many", "unlock_many"];

fn idempotency_key() -> Parameter {
    ParameterBuilder::new()
        .name("Idempotency-Key")
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some("The same as `request_id`. If both are given they must be equal."))
        .schema(Some(name_schema("try-1")))
        .build()
}

fn problem_response(status: u16) -> Response {
    let codes = problem::Code::ALL.iter().filter(|code| code.status() == status);
    let names: Vec<_> = codes.map(|code| format!("`{}`", code.name())).collect();
    let body = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    ResponseBuilder::new().description(names.join(", ")).content("application/problem+json", body).build()
}

/// Returns the same operations for the room's own document, whose paths have no `{document}`.
fn without_document(item: &PathItem) -> PathItem {
    let mut item = item.clone();
    for (_, operation) in operations(&mut item) {
        let is_document = |parameter: &RefOr<Parameter>| matches!(parameter, RefOr::T(p) if p.name == "document");
        operation.parameters.get_or_insert_default().retain(|parameter| !is_document(parameter));
        operation.operation_id = operation.operation_id.take().map(|id| format!("{id}_main"));
    }
    item
}

/// A schema counts characters and the limit is in bytes, so a name that fits the schema may still be refused.
fn name_schema(example: &str) -> Object {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .min_length(Some(1))
        .max_length(Some(MAX_NAME_BYTES))
        .pattern(Some(r"^(?!\.{1,2}$)[^\u0000-\u001f\u007f-\u009f]+$"))
        .description(Some("1 to 200 bytes of UTF-8, no control characters, not `.` or `..`"))
        .examples([example])
        .build()
}

macro_rules! schemas {
    ($($Type:ty => $schema:expr),+ $(,)?) => {$(
        impl PartialSchema for $Type {
            fn schema() -> RefOr<Schema> {
                RefOr::T(Schema::Object($schema))
            }
        }

        impl ToSchema for $Type {}
    )+};
}

schemas! {
    RoomId => name_schema("minutes"),
    DocumentId => name_schema("intro"),
    OwnerId => name_schema("alice"),
    SessionId => name_schema("tab-1"),
    RequestId => name_schema("try-1"),
    DocumentVersion => name_schema("v2"),
    // Not derived: that would show the names of the variants rather than those of the catalogue.
    problem::Code => ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(problem::Code::ALL.iter().map(|code| code.name())))
        .build(),
    Activity => ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(Activity::ALL.iter().map(|activity| activity.name())))
        .build(),
    HolderKind => ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(HolderKind::ALL.iter().map(|kind| kind.name())))
        .build(),
    EventName => ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(EventName::ALL.map(EventName::as_str)))
        .build(),
    Metadata => ObjectBuilder::new().schema_type(Type::Object).build(),
    Timestamp => ObjectBuilder::new()
        .schema_type(Type::String)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
        .build(),
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn described() -> Value {
        serde_json::from_str(&document()).unwrap()
    }

    /// Collects every object in it, at any depth.
    fn objects<'v>(value: &'v Value, found: &mut Vec<&'v serde_json::Map<String, Value>>) {
        match value {
            Value::Object(object) => {
                found.push(object);
                object.values().for_each(|value| objects(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| objects(value, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    #[test]
    fn every_reference_in_the_description_can_be_followed() {
        let description = described();
        let mut found = Vec::new();
        objects(&description, &mut found);
        let references: Vec<_> = found.iter().filter_map(|object| object.get("$ref")?.as_str()).collect();
        assert!(!references.is_empty());
        for reference in references {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(description.pointer(pointer).is_some(), "{reference}");
        }
    }

    #[test]
    fn path_parameters_are_required_and_answers_are_described() {
        let description = described();
        let mut found = Vec::new();
        objects(&description["paths"], &mut found);
        for object in found {
            if object.get("in").is_some_and(|place| place == "path") {
                assert_eq!(object["required"], true, "{object:?}");
            }
            for (status, answer) in object.get("responses").and_then(Value::as_object).into_iter().flatten() {
                assert!(answer["description"].is_string(), "{status} of {}", object["operationId"]);
            }
        }
    }

    #[test]
    fn problem_codes_and_request_ids_are_described_as_they_are_sent() {
        let description = described();
        let codes = &description["components"]["schemas"]["Code"]["enum"];
        assert!(codes.as_array().unwrap().contains(&"LOCK_HELD".into()), "{codes}");
        let request = &description["components"]["schemas"]["LockRequest"]["properties"];
        assert!(request["request_id"].is_object(), "{request}");
    }
}
