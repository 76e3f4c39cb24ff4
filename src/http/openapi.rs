//! The OpenAPI description, generated from the handlers. What all of them share is added here once.

use std::collections::BTreeMap;

use utoipa::{
    OpenApi, PartialSchema, ToSchema,
    openapi::{
        ContentBuilder, HttpMethod, KnownFormat, Object, ObjectBuilder, PathItem, Ref, RefOr, Response,
        ResponseBuilder, Schema, SchemaFormat, Type,
        path::{Operation, Parameter, ParameterBuilder, ParameterIn},
        security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
    },
};

use super::{admin, docs, extend_lock, health, lock_document, problem, read_lock, release, room_locks, unlock};
use crate::locking::{
    Metadata, Timestamp,
    names::{DocumentId, DocumentVersion, MAX_NAME_BYTES, OwnerId, RequestId, RoomId, SessionId},
};

#[derive(OpenApi)]
#[openapi(
    info(title = "doclock", description = "Real-time document locks with fencing tokens."),
    paths(
        lock_document::lock_document,
        extend_lock::extend_lock,
        unlock::unlock,
        release::release,
        read_lock::read_lock,
        read_lock::verify,
        room_locks::room_locks,
        room_locks::lock_many,
        room_locks::extend_many,
        room_locks::unlock_many,
        admin::locks,
        admin::unlock_one,
        admin::unlock_matching,
        admin::events,
        admin::stats,
        health::healthz,
        health::readyz,
        health::metrics,
        docs::openapi,
    ),
    components(schemas(problem::ProblemBody<'static>)),
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

/// Names in the path, and the problems any request may meet.
fn complete(operation: &mut Operation, path: &str, method: &HttpMethod) {
    let statuses: &[u16] = match (path.starts_with("/api/"), method) {
        (true, HttpMethod::Get) => &[400, 401, 403, 422, 429, 503],
        (true, _) => &[400, 401, 403, 404, 409, 413, 415, 422, 429, 503],
        (false, _) => &[401, 403, 503],
    };
    for status in statuses {
        operation.responses.responses.insert(status.to_string(), RefOr::T(problem_response(*status)));
    }
    let mut parameters: Vec<RefOr<Parameter>> = ["room", "document"]
        .iter()
        .filter(|name| path.contains(&format!("{{{name}}}")))
        .map(|name| {
            let schema = Some(name_schema());
            RefOr::T(ParameterBuilder::new().name(*name).parameter_in(ParameterIn::Path).schema(schema).build())
        })
        .collect();
    parameters.append(operation.parameters.get_or_insert_default());
    operation.parameters = Some(parameters);
}

fn problem_response(status: u16) -> Response {
    let codes = problem::Code::ALL.iter().filter(|code| code.status().as_u16() == status);
    let names: Vec<_> = codes.map(|code| format!("`{}`", code.name())).collect();
    let body = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    ResponseBuilder::new().description(names.join(", ")).content("application/problem+json", body).build()
}

/// The same paths for the room's own document.
fn without_document(item: &PathItem) -> PathItem {
    let mut item = item.clone();
    for (_, operation) in operations(&mut item) {
        let is_document = |parameter: &RefOr<Parameter>| matches!(parameter, RefOr::T(p) if p.name == "document");
        operation.parameters.get_or_insert_default().retain(|parameter| !is_document(parameter));
        operation.operation_id = operation.operation_id.take().map(|id| format!("{id}_main"));
    }
    item
}

/// Bytes are what counts; with 200 characters a name may still be too long.
fn name_schema() -> Object {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .min_length(Some(1))
        .max_length(Some(MAX_NAME_BYTES))
        .description(Some("1 to 200 bytes of UTF-8, no control characters, not `.` or `..`"))
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
    RoomId => name_schema(),
    DocumentId => name_schema(),
    OwnerId => name_schema(),
    SessionId => name_schema(),
    RequestId => name_schema(),
    DocumentVersion => name_schema(),
    Metadata => ObjectBuilder::new().schema_type(Type::Object).build(),
    Timestamp => ObjectBuilder::new()
        .schema_type(Type::String)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
        .build(),
}
