//! `/openapi.json`, `/asyncapi.json`, and the page at `/docs/` to try the API. All files are in the binary.

use std::sync::{Arc, LazyLock};

use actix_web::{HttpResponse, Responder, http::header, web};
use utoipa_swagger_ui::Config;

use super::Api;
use crate::calls::{Code, Problem};

/// The description of this API
#[utoipa::path(get, path = "/openapi.json", tag = "operations", security(()),
    responses((status = 200, body = Object)))]
pub async fn openapi(api: web::Data<Api>) -> impl Responder {
    HttpResponse::Ok().content_type("application/json").body(api.openapi.clone())
}

/// The description of the WebSocket at `/ws`
#[utoipa::path(get, path = "/asyncapi.json", tag = "operations", security(()),
    responses((status = 200, body = Object)))]
pub async fn asyncapi(api: web::Data<Api>) -> impl Responder {
    HttpResponse::Ok().content_type("application/json").body(api.asyncapi.clone())
}

/// Redirects `/docs` to `/docs/`. The redirect is temporary because browsers remember a permanent one.
pub async fn redirect() -> impl Responder {
    HttpResponse::TemporaryRedirect().insert_header((header::LOCATION, "/docs/")).finish()
}

/// Starts the page, signed in with the token of the link that led here: `/docs/#token=…`.
const START: &str = include_str!("../../static/docs/start.js");

pub async fn file(name: web::Path<String>) -> Result<impl Responder, Problem> {
    static CONFIG: LazyLock<Arc<Config<'static>>> = LazyLock::new(|| Arc::new(Config::from("/openapi.json")));
    if name.as_str() == "swagger-initializer.js" {
        return Ok(HttpResponse::Ok().content_type("text/javascript; charset=utf-8").body(START));
    }
    match utoipa_swagger_ui::serve(&name, Arc::clone(&CONFIG)) {
        Ok(Some(file)) => Ok(HttpResponse::Ok()
            .content_type(file.content_type)
            .insert_header((header::CACHE_CONTROL, "max-age=3600"))
            .body(file.bytes.into_owned())),
        Ok(None) | Err(_) => Err(Problem::new(Code::NotFound, "No such file.")),
    }
}
