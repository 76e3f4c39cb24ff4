//! The HTTP API. One file per verb: request, handler, answer. This file is the route table.
//!
//! 1. `observe` gives the request an id, and at the end logs and counts it and renders a [`Problem`] if it failed.
//! 2. `call::Call` finds out who calls; `call::DocumentPath` and `fields::Fields` parse what was sent.
//! 3. The handler builds a command, has it committed, and shows the outcome as the caller may see it (`view`).

pub mod call;
mod cors;
mod docs;
mod event_stream;
mod health;
mod observe;
mod openapi;
mod proxies;
pub mod server;

use std::sync::{Arc, atomic::AtomicBool};

use actix_web::{FromRequest, Handler, Resource, Responder, Route, guard, middleware::from_fn, web};

use crate::{
    auth::Keys,
    calls::{
        admin, extend, lock,
        problem::{Code, Problem},
        rates::Rates,
        read, release, room_locks, unlock,
    },
    clock::Clock,
    committer::Committer,
    contention::Contention,
    life::Life,
    live::{self, Live},
    locking::Timestamp,
    metrics::Metrics,
    storage::Queries,
    ws,
};
pub use cors::Origins;
pub use openapi::document as openapi_document;
pub use proxies::Proxies;

/// What handlers work with.
#[derive(Debug)]
pub struct Api {
    pub committer: Committer,
    pub queries: Queries,
    pub life: Arc<Life>,
    pub clock: Clock,
    pub keys: Keys,
    pub metrics: Arc<Metrics>,
    pub contention: Arc<Contention>,
    pub rates: Rates,
    pub proxies: Proxies,
    pub started_at: Timestamp,
    pub max_ttl_seconds: u32,
    pub public_metrics: bool,
    pub draining: AtomicBool,
    pub openapi: String,
    pub live: Live,
}

/// The whole application, for each worker of the HTTP server.
pub fn app(
    api: web::Data<Api>,
    cors: actix_cors::Cors,
) -> actix_web::App<
    impl actix_web::dev::ServiceFactory<
        actix_web::dev::ServiceRequest,
        Config = (),
        Response = actix_web::dev::ServiceResponse<impl actix_web::body::MessageBody>,
        Error = actix_web::Error,
        InitError = (),
    >,
> {
    actix_web::App::new()
        .app_data(api)
        .configure(routes)
        .default_service(web::to(async || Problem::new(Code::NotFound, "No such path.").into_response()))
        .wrap(from_fn(observe::observe))
        .wrap(cors)
}

/// Either family of paths: the room's own document, or any.
const DOCUMENTS: [&str; 2] = ["/api/documents/{room:[^/]*}", "/api/documents/{room:[^/]*}/{document:[^/]*}"];

fn routes(config: &mut web::ServiceConfig) {
    for document in DOCUMENTS {
        config
            .service(resource(
                &format!("{document}/lock"),
                [get(read::read_lock), post(lock::lock_document), put(extend::extend_lock), delete(unlock::unlock)],
            ))
            .service(resource(&format!("{document}/lock/release"), [post(release::release)]))
            .service(resource(&format!("{document}/lock/verify"), [post(read::verify)]));
    }
    config
        .service(resource(
            "/api/rooms/{room:[^/]*}/locks",
            [
                get(room_locks::room_locks),
                post(room_locks::lock_many),
                put(room_locks::extend_many),
                delete(room_locks::unlock_many),
            ],
        ))
        .service(resource("/api/rooms/{room:[^/]*}/events", [get(event_stream::events)]))
        .service(resource("/api/stream-tickets", [post(live::issue)]))
        .service(resource("/ws", [get(ws::connect::connect)]))
        .service(resource("/ws/{room:[^/]*}", [get(ws::connect::connect_room)]))
        .service(resource("/api/admin/locks", [get(admin::locks)]))
        .service(resource("/api/admin/locks/unlock", [post(admin::unlock_matching)]))
        .service(resource("/api/admin/locks/{lease_id}", [delete(admin::unlock_one)]))
        .service(resource("/api/admin/events", [get(admin::events)]))
        .service(resource("/api/admin/stats", [get(admin::stats)]))
        .service(resource("/healthz", [get(health::healthz)]))
        .service(resource("/readyz", [get(health::readyz)]))
        .service(resource("/metrics", [get(health::metrics)]))
        .service(resource("/openapi.json", [get(docs::openapi)]))
        .service(resource("/asyncapi.json", [get(docs::asyncapi)]))
        .service(resource("/", [get(docs::redirect)]))
        .service(resource("/docs", [get(docs::redirect)]))
        .service(resource("/docs/{file:.*}", [get(docs::file)]));
}

/// Methods as they stand in `Allow`, and the route for them.
type Verb = (&'static str, Route);

fn get<F: Handler<Args>, Args: FromRequest + 'static>(handler: F) -> Verb
where
    F::Output: Responder + 'static,
{
    let head_too = guard::Any(guard::Get()).or(guard::Head());
    ("GET, HEAD", web::route().guard(head_too).to(handler))
}

fn post<F: Handler<Args>, Args: FromRequest + 'static>(handler: F) -> Verb
where
    F::Output: Responder + 'static,
{
    ("POST", web::post().to(handler))
}

fn put<F: Handler<Args>, Args: FromRequest + 'static>(handler: F) -> Verb
where
    F::Output: Responder + 'static,
{
    ("PUT", web::put().to(handler))
}

fn delete<F: Handler<Args>, Args: FromRequest + 'static>(handler: F) -> Verb
where
    F::Output: Responder + 'static,
{
    ("DELETE", web::delete().to(handler))
}

/// A path with its verbs; any other method gets 405 and the list of those.
fn resource<const N: usize>(path: &str, verbs: [Verb; N]) -> Resource {
    let allow = verbs.iter().map(|(method, _)| *method).collect::<Vec<_>>().join(", ");
    let resource = web::resource(path).app_data(observe::RouteName::of(path));
    verbs
        .into_iter()
        .fold(resource, |resource, (_, route)| resource.route(route))
        .default_service(web::to(move || std::future::ready(Problem::not_allowed(&allow).into_response())))
}
