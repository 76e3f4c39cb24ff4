//! What happens around every request: it gets an id, is logged and counted, and its problem is rendered with the time.

use std::sync::{
    Arc, LazyLock,
    atomic::{AtomicU64, Ordering},
};

use actix_web::{
    HttpMessage,
    body::{BoxBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    http::{
        Method,
        header::{self, HeaderName, HeaderValue},
    },
    middleware::Next,
    web,
};

use super::{Api, problem};
use crate::{
    auth::Caller,
    calls::{Code, Problem},
    time::clock::Stopwatch,
};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

pub async fn observe(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, actix_web::Error> {
    let stopwatch = Stopwatch::start();
    let id = request_id(&request);
    let mut response = next.call(request).await?.map_into_boxed_body();
    let Some(api) = response.request().app_data::<web::Data<Api>>().cloned() else { return Ok(response) };

    let problem = response.response().error().map(|error| match error.as_error::<Problem>() {
        Some(problem) => problem.clone(),
        // All extractors are ours and fail with a `Problem`. The error of any other becomes one here.
        None => Problem::new(Code::BadRequest, error.to_string()),
    });
    if let Some(problem) = &problem {
        let allow = response.headers().get(header::ALLOW).cloned();
        response = response.into_response(problem::render(problem, api.calls.clock.now()));
        if let Some(allow) = allow {
            response.headers_mut().insert(header::ALLOW, allow);
        }
    }

    let headers = response.headers_mut();
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    headers.insert(REQUEST_ID, id.clone());

    let took = stopwatch.elapsed();
    let route = route(&response);
    api.metrics.http(&route.0, method(response.request().method()), response.status().as_str(), took);
    log(&api, &response, &id, &route.0, problem.as_ref(), took);
    Ok(response)
}

/// Returns the client's own id if it sent a well-formed one, and otherwise a random number of this process with a
/// count.
fn request_id(request: &ServiceRequest) -> HeaderValue {
    static PROCESS: LazyLock<u32> = LazyLock::new(|| getrandom::u32().unwrap_or_default());
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let sent = request.headers().get(REQUEST_ID);
    let fits =
        |value: &&HeaderValue| (1..=128).contains(&value.len()) && value.as_bytes().iter().all(u8::is_ascii_graphic);
    sent.filter(fits).cloned().unwrap_or_else(|| {
        let id = format!("{:08x}-{}", *PROCESS, COUNT.fetch_add(1, Ordering::Relaxed));
        HeaderValue::from_str(&id).unwrap_or_else(|_| HeaderValue::from_static("-"))
    })
}

/// The pattern of a route without the router's regular expressions. It is the name of the route in logs and metrics,
/// and says which segment of a path is the room and which the document.
#[derive(Debug, Clone)]
pub struct RouteName(Arc<str>);

impl RouteName {
    pub fn of(pattern: &str) -> Self {
        Self(pattern.replace(":[^/]*", "").replace(":.*", "").into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn route(response: &ServiceResponse) -> RouteName {
    response.request().app_data().cloned().unwrap_or_else(|| RouteName::of("unmatched"))
}

/// Returns the label of a method. Methods that clients invent share one, so that the number of metrics is bounded.
fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "OTHER",
    }
}

/// Logs failures of the server always, and other requests at the level `debug`.
fn log(
    api: &Api,
    response: &ServiceResponse,
    id: &HeaderValue,
    route: &str,
    problem: Option<&Problem>,
    took: std::time::Duration,
) {
    let is_failure = response.status().is_server_error();
    if !is_failure && !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let request = response.request();
    let caller = request.extensions().get::<Arc<Caller>>().cloned();
    let parameter = |name: &str| request.match_info().get(name).map(ToOwned::to_owned);
    let (tenant, owner) =
        caller.map_or((None, None), |caller| (Some(caller.tenant.to_string()), Some(caller.owner.to_string())));
    let fields = (parameter("room"), parameter("document"), problem.map(|problem| problem.code.name()));
    let (room, document, code) = fields;
    let (id, status) = (id.to_str().unwrap_or("-"), response.status().as_u16());
    let address = api.proxies.client(request.peer_addr(), request.headers()).map(|address| address.to_string());
    let (method, duration_ms) = (method(request.method()), took.as_secs_f64() * 1000.0);
    if is_failure {
        tracing::warn!(
            request_id = id,
            method,
            route,
            status,
            code,
            tenant,
            owner,
            room,
            document,
            address,
            duration_ms,
            "failed"
        );
    } else {
        tracing::debug!(
            request_id = id,
            method,
            route,
            status,
            code,
            tenant,
            owner,
            room,
            document,
            address,
            duration_ms,
            "answered"
        );
    }
}
