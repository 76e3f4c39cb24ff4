//! HTTP: turns requests into calls and renders their answers. This file is the route table.
//!
//! 1. `observe` gives the request an id, and at the end logs and counts it, and renders a [`Problem`] if it failed.
//! 2. `extract` finds out who calls and which document is meant; `body` reads the fields.
//! 3. The handler (`locks`, `handovers`, `room_locks`, `admin`) runs the verb of `calls`, and its answer is written as JSON. The
//!    answer to a request that has waited carries a `receipt`: if nobody takes it, its lock is given up.
//! 4. `event_stream` sends a room's notices as Server-Sent Events; `stream_passes` issues the passes that let
//!    `EventSource` in.
//! 5. `pages` serves what is in `static/`; `demo` is a small back end for its visitors, where there is one.
//!
//! The routes of other protocols that start as HTTP are added by `app`, through [`resource`].

mod admin;
mod body;
mod cors;
mod demo;
mod docs;
mod event_stream;
mod extract;
mod handovers;
mod health;
mod locks;
mod observe;
mod openapi;
mod pages;
mod problem;
mod proxies;
mod receipt;
mod room_locks;
pub mod server;
mod stream_passes;

use std::sync::Arc;

use actix_web::{
    FromRequest, Handler, Resource, Responder, Route, guard, http::header::HeaderValue, middleware::from_fn, web,
};

use crate::{
    calls::{Calls, Code, Problem},
    demo::Demo,
    live::Live,
    metrics::Metrics,
};
pub use openapi::document as openapi_document;
pub use proxies::Proxies;

/// What handlers work with.
#[derive(Debug)]
pub struct Api {
    pub calls: Arc<Calls>,
    pub live: Arc<Live>,
    pub metrics: Arc<Metrics>,
    pub proxies: Proxies,
    pub public_metrics: bool,
    /// None where there is no demo.
    pub demo: Option<Demo>,
    /// The descriptions of the API and of the WebSocket, as JSON.
    pub openapi: String,
    pub asyncapi: String,
}

/// Adds routes to the application of each worker.
pub type Routes = Arc<dyn Fn(&mut web::ServiceConfig) + Send + Sync>;

/// The whole application, for each worker of the HTTP server. `more_routes` are those of other protocols.
fn app(
    api: web::Data<Api>,
    cors: actix_cors::Cors,
    more_routes: Routes,
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
        .configure(move |config| more_routes(config))
        .default_service(web::to(async || {
            actix_web::HttpResponse::from_error(Problem::new(Code::NotFound, "No such path."))
        }))
        .wrap(from_fn(observe::observe))
        .wrap(cors)
}

/// The two families of paths. The first means the room's own document, the second any document.
const DOCUMENTS: [&str; 2] = ["/api/documents/{room:[^/]*}", "/api/documents/{room:[^/]*}/{document:[^/]*}"];

fn routes(config: &mut web::ServiceConfig) {
    for document in DOCUMENTS {
        config
            .service(resource(
                &format!("{document}/lock"),
                [get(locks::read_lock), post(locks::lock_document), put(locks::extend_lock), delete(locks::unlock)],
            ))
            .service(resource(&format!("{document}/lock/release"), [post(locks::release)]))
            .service(resource(&format!("{document}/lock/verify"), [post(locks::verify)]))
            .service(resource(&format!("{document}/lock/handovers"), [post(handovers::ask_handover)]))
            .service(resource(
                &format!("{document}/lock/handovers/{{handover_id:[^/]*}}"),
                [get(handovers::read_handover), delete(handovers::cancel_handover)],
            ))
            .service(resource(
                &format!("{document}/lock/handovers/{{handover_id:[^/]*}}/answer"),
                [post(handovers::answer_handover)],
            ));
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
        .service(resource("/api/stream-tickets", [post(stream_passes::issue)]))
        .service(resource("/api/admin/locks", [get(admin::locks)]))
        .service(resource("/api/admin/locks/unlock", [post(admin::unlock_matching)]))
        .service(resource("/api/admin/locks/{lease_id}", [delete(admin::unlock_one)]))
        .service(resource("/api/admin/documents/{room:[^/]*}/{document:[^/]*}", [get(admin::document)]))
        .service(resource("/api/admin/events", [get(admin::events)]))
        .service(resource("/api/admin/stats", [get(admin::stats)]))
        .service(resource("/healthz", [get(health::healthz)]))
        .service(resource("/readyz", [get(health::readyz)]))
        .service(resource("/metrics", [get(health::metrics)]))
        .service(resource("/openapi.json", [get(docs::openapi)]))
        .service(resource("/asyncapi.json", [get(docs::asyncapi)]))
        .service(resource("/api/demo/sessions", [post(demo::session)]))
        .service(resource("/api/demo/documents/{room:[^/]*}/{document:[^/]*}", [get(demo::load), put(demo::save)]))
        .service(resource("/", [get(pages::home)]))
        .service(resource("/client/{file:.*}", [get(pages::client)]))
        .service(resource("/pages/{file:.*}", [get(pages::page)]))
        .service(resource("/vendor/{file:.*}", [get(pages::vendor)]))
        .service(resource("/docs", [get(docs::redirect)]))
        .service(resource("/docs/{file:.*}", [get(docs::file)]));
}

/// The methods as `Allow` lists them, and the route for them.
pub type Verb = (&'static str, Route);

pub fn get<F: Handler<Args>, Args: FromRequest + 'static>(handler: F) -> Verb
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

/// Returns a path with its verbs. Any other method is answered with 405 and their list.
pub fn resource<const N: usize>(path: &str, verbs: [Verb; N]) -> Resource {
    let allow = verbs.iter().map(|(method, _)| *method).collect::<Vec<_>>().join(", ");
    let allow = HeaderValue::from_str(&allow).unwrap_or_else(|_| HeaderValue::from_static(""));
    let resource = web::resource(path).app_data(observe::RouteName::of(path));
    verbs
        .into_iter()
        .fold(resource, |resource, (_, route)| resource.route(route))
        .default_service(web::to(move || std::future::ready(problem::not_allowed(&allow))))
}
