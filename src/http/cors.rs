//! CORS: which pages may read what the API answers.

use actix_cors::Cors;
use actix_web::http::{Method, header};

use crate::auth::Origins;

pub fn middleware(origins: &Origins) -> Cors {
    let origins = origins.clone();
    Cors::default()
        .allowed_origin_fn(move |origin, _| origin.to_str().is_ok_and(|origin| origins.allow(origin)))
        .allowed_methods([Method::GET, Method::POST, Method::PUT, Method::DELETE])
        .allowed_headers([header::AUTHORIZATION, header::CONTENT_TYPE])
        .allowed_header("idempotency-key")
        .allowed_header("last-event-id")
        .expose_headers([header::RETRY_AFTER, header::ALLOW])
        .expose_headers(["x-request-id"])
        .max_age(3600)
}
