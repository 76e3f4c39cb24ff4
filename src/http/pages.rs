//! Pages and the browser clients, as they are in `static/`. All files are in the binary.

use actix_web::{
    HttpRequest, HttpResponse, Responder,
    body::BoxBody,
    http::header::{self, HeaderValue},
    web,
};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use rust_embed::{EmbeddedFile, RustEmbed};

use super::extract;
use crate::calls::{Code, Problem};

#[derive(RustEmbed)]
#[folder = "static/"]
#[exclude = "docs/*"]
#[exclude = "*.test.*"]
struct Static;

/// What a page may load and where it may be shown. Nothing is inline, nothing comes from elsewhere.
const POLICY: &str = "default-src 'self'; style-src 'self'; script-src 'self'; connect-src 'self' ws: wss:; \
                      frame-ancestors 'none'; base-uri 'none'";

/// `/`: the demo, or what this server is.
pub async fn home(request: HttpRequest) -> Result<impl Responder, Problem> {
    let is_demo = extract::api(&request)?.demo.is_some();
    file(&request, if is_demo { "pages/demo/index.html" } else { "pages/about/index.html" })
}

/// `/client/*`: for pages of every origin.
pub async fn client(request: HttpRequest, name: web::Path<String>) -> Result<impl Responder, Problem> {
    let mut response = file(&request, &format!("client/{name}"))?;
    response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    Ok(response)
}

/// `/pages/*`: what pages are made of.
pub async fn page(request: HttpRequest, name: web::Path<String>) -> Result<impl Responder, Problem> {
    file(&request, &format!("pages/{name}"))
}

/// `/vendor/*`: libraries of others that pages use.
pub async fn vendor(request: HttpRequest, name: web::Path<String>) -> Result<impl Responder, Problem> {
    file(&request, &format!("vendor/{name}"))
}

/// Browsers ask each time whether the file has changed: after an update pages and clients must fit together.
fn file(request: &HttpRequest, path: &str) -> Result<HttpResponse<BoxBody>, Problem> {
    let found: EmbeddedFile = Static::get(path).ok_or_else(|| Problem::new(Code::NotFound, "No such file."))?;
    let tag = format!("\"{}\"", BASE64_URL_SAFE_NO_PAD.encode(&found.metadata.sha256_hash()[..12]));
    let is_known = request.headers().get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
    let mut response = if is_known { HttpResponse::NotModified() } else { HttpResponse::Ok() };
    response
        .insert_header((header::ETAG, tag))
        .insert_header((header::CACHE_CONTROL, "no-cache"))
        .insert_header((header::CONTENT_SECURITY_POLICY, POLICY))
        .insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .insert_header((header::REFERRER_POLICY, "no-referrer"))
        .insert_header((header::CONTENT_TYPE, content_type(path)));
    Ok(if is_known { response.finish() } else { response.body(found.data.into_owned()) })
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js" | "mjs") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("json") => "application/json",
        Some("ts" | "txt" | "md") => "text/plain; charset=utf-8",
        Some(_) | None => "application/octet-stream",
    }
}
