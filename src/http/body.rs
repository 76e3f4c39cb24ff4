//! Extractors of bodies and query parameters. They read the bytes; `calls::fields` parses them.

use std::{future::Future, pin::Pin, time::Duration};

use actix_web::{
    FromRequest, HttpMessage, HttpRequest,
    dev::Payload,
    http::{Method, header},
};
use futures_util::StreamExt;
use serde::{Deserialize, de::DeserializeOwned};

use crate::calls::{Code, Problem, fields, release::ReleaseRequest};

const MAX_BODY: usize = 16 * 1024;
/// How long a body may take.
const READ_WITHIN: Duration = Duration::from_secs(10);

/// A JSON body; a missing body is `{}`. A DELETE may give its fields as query parameters instead.
#[derive(Debug)]
pub struct Fields<T>(pub T);

impl<T: DeserializeOwned> FromRequest for Fields<T> {
    type Error = Problem;
    type Future = Pin<Box<dyn Future<Output = Result<Self, Problem>>>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (request, payload) = (request.clone(), payload.take());
        Box::pin(async move {
            let body = read(&request, payload, &["application/json"]).await?;
            if request.method() == Method::DELETE && !request.query_string().is_empty() {
                return fields::from_json_and_query(&body, request.query_string()).map(Self);
            }
            fields::from_json(&body).map(Self)
        })
    }
}

/// Query parameters of a GET.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned> FromRequest for Query<T> {
    type Error = Problem;
    type Future = std::future::Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        std::future::ready(fields::from_query(request.query_string()).map(Self))
    }
}

/// The body of `sendBeacon`, which may come as `text/plain`, with the token among its fields.
#[derive(Debug)]
pub struct Beacon {
    /// The token, even if the rest cannot be parsed.
    pub access_token: Option<String>,
    pub request: Result<ReleaseRequest, Problem>,
}

impl FromRequest for Beacon {
    type Error = Problem;
    type Future = Pin<Box<dyn Future<Output = Result<Self, Problem>>>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (request, payload) = (request.clone(), payload.take());
        Box::pin(async move {
            let body = match read(&request, payload, &["application/json", "text/plain"]).await {
                Ok(body) => body,
                Err(problem) => return Ok(Self { access_token: None, request: Err(problem) }),
            };
            let mut request = fields::from_json(&body);
            let access_token = match &mut request {
                Ok(ReleaseRequest { access_token, .. }) => access_token.take(),
                // Only a body that cannot be parsed is read a second time, for its token.
                Err(_) => token_alone(&body),
            };
            Ok(Self { access_token, request })
        })
    }
}

fn token_alone(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Token {
        access_token: String,
    }
    serde_json::from_slice(body).ok().map(|Token { access_token }| access_token)
}

async fn read(request: &HttpRequest, mut payload: Payload, accepted: &[&str]) -> Result<Vec<u8>, Problem> {
    let too_large = || Problem::new(Code::BodyTooLarge, format!("A body may have {MAX_BODY} bytes."));
    let declared = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if declared.is_some_and(|length: usize| length > MAX_BODY) {
        return Err(too_large());
    }
    let mut body = Vec::with_capacity(declared.unwrap_or_default());
    // By the time of the world outside: a client that says nothing must not hold its connection.
    let deadline = tokio::time::sleep(READ_WITHIN);
    tokio::pin!(deadline);
    loop {
        let chunk = tokio::select! {
            chunk = payload.next() => chunk,
            () = &mut deadline => {
                let detail = format!("The body must be there within {} seconds.", READ_WITHIN.as_secs());
                return Err(Problem::new(Code::BadRequest, detail));
            }
        };
        let Some(chunk) = chunk else { break };
        let chunk = chunk.map_err(|error| Problem::new(Code::BadRequest, format!("The body broke off: {error}")))?;
        if body.len() + chunk.len() > MAX_BODY {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    if !body.is_empty() && request.headers().contains_key(header::CONTENT_ENCODING) {
        return Err(Problem::new(Code::UnsupportedMediaType, "Send it without a Content-Encoding."));
    }
    if !body.is_empty() && !accepted.contains(&request.content_type().to_ascii_lowercase().as_str()) {
        return Err(Problem::new(Code::UnsupportedMediaType, format!("Send it as {}.", accepted.join(" or "))));
    }
    Ok(body)
}
