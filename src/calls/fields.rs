//! Bodies and query parameters, parsed into types; what does not fit is told by field.

use std::{future::Future, pin::Pin};

use actix_web::{
    FromRequest, HttpMessage, HttpRequest,
    dev::Payload,
    http::{Method, header},
};
use futures_util::StreamExt;
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::{Map, Value, error::Category};

use super::problem::{Code, Problem};

const MAX_BODY: usize = 16 * 1024;

/// A JSON body; none at all is `{}`. A DELETE may give its fields as query parameters instead.
#[derive(Debug)]
pub struct Fields<T>(pub T);

/// The same for `sendBeacon`, which sends text as `text/plain`, and its token among the fields.
pub struct Beacon(Vec<u8>);

impl Beacon {
    /// Whatever else is wrong with the fields.
    pub fn access_token(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Token {
            access_token: String,
        }
        serde_json::from_slice(&self.0).ok().map(|Token { access_token }| access_token)
    }

    pub fn fields<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        parse(&self.0)
    }
}

impl<T: DeserializeOwned> FromRequest for Fields<T> {
    type Error = Problem;
    type Future = Pin<Box<dyn Future<Output = Result<Self, Problem>>>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (request, payload) = (request.clone(), payload.take());
        Box::pin(async move {
            let body = read(&request, payload, &["application/json"]).await?;
            if request.method() == Method::DELETE && !request.query_string().is_empty() {
                return with_query(&body, request.query_string()).map(Self);
            }
            parse(&body).map(Self)
        })
    }
}

impl FromRequest for Beacon {
    type Error = Problem;
    type Future = Pin<Box<dyn Future<Output = Result<Self, Problem>>>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (request, payload) = (request.clone(), payload.take());
        Box::pin(async move { read(&request, payload, &["application/json", "text/plain"]).await.map(Self) })
    }
}

/// Query parameters of a GET.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned> FromRequest for Query<T> {
    type Error = Problem;
    type Future = std::future::Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        std::future::ready(query_object(request.query_string()).and_then(from_object).map(Self))
    }
}

async fn read(request: &HttpRequest, mut payload: Payload, accepted: &[&str]) -> Result<Vec<u8>, Problem> {
    let too_large = || Problem::new(Code::BodyTooLarge, format!("A body may have {MAX_BODY} bytes."));
    let declared = request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if declared.is_some_and(|length: usize| length > MAX_BODY) {
        return Err(too_large());
    }
    let mut body = Vec::with_capacity(declared.unwrap_or_default());
    while let Some(chunk) = payload.next().await {
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

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let body = body.trim_ascii();
    let body = if body.is_empty() { b"{}" } else { body };
    // serde would also take an array, by position.
    if body[0] != b'{' {
        return Err(match serde_json::from_slice::<serde::de::IgnoredAny>(body) {
            Ok(_) => Problem::invalid("body", "must be a JSON object"),
            Err(error) => bad_json(&error),
        });
    }
    serde_json::from_slice(body).or_else(|_| {
        // Only a body that fails pays for knowing where.
        let mut json = serde_json::Deserializer::from_slice(body);
        let parsed = serde_path_to_error::deserialize(&mut json).map_err(|error| explain(&error))?;
        json.end().map_err(|error| bad_json(&error))?;
        Ok(parsed)
    })
}

fn bad_json(error: &serde_json::Error) -> Problem {
    Problem::new(Code::BadJson, format!("The body is not JSON: {error}"))
}

fn explain(error: &serde_path_to_error::Error<serde_json::Error>) -> Problem {
    let reason = error.inner().to_string();
    let reason = reason.split(" at line ").next().unwrap_or_default();
    if error.inner().classify() != Category::Data {
        return bad_json(error.inner());
    }
    let path = match error.path().to_string() {
        path if path == "." => String::new(),
        path => path,
    };
    let quoted = reason.split('`').nth(1).unwrap_or_default();
    let named = |prefix: &str| reason.starts_with(prefix).then(|| join(&path, quoted));
    if let Some(field) = named("unknown field") {
        return Problem::field(Code::UnknownField, &field, "is not a field of this request");
    }
    if let Some(field) = named("missing field") {
        return Problem::invalid(&field, "is needed");
    }
    if let Some(field) = named("duplicate field") {
        return Problem::invalid(&field, "is given twice");
    }
    Problem::invalid(if path.is_empty() { "body" } else { &path }, format!("does not fit: {reason}"))
}

/// serde's path of an unknown or missing field may or may not end with it.
fn join(path: &str, field: &str) -> String {
    if path.is_empty() {
        field.to_owned()
    } else if path == field || path.ends_with(&format!(".{field}")) {
        path.to_owned()
    } else {
        format!("{path}.{field}")
    }
}

pub fn from_object<T: DeserializeOwned>(object: Map<String, Value>) -> Result<T, Problem> {
    let object = Value::Object(object);
    // Only fields that do not fit pay for knowing where.
    T::deserialize(&object).or_else(|_| serde_path_to_error::deserialize(object).map_err(|error| explain(&error)))
}

fn with_query<T: DeserializeOwned>(body: &[u8], query: &str) -> Result<T, Problem> {
    let mut object: Map<String, Value> = parse(body)?;
    for (name, value) in query_object(query)? {
        if object.insert(name.clone(), value).is_some() {
            return Err(Problem::invalid(&name, "is given twice, in the body and in the query"));
        }
    }
    from_object(object)
}

/// Texts by name; `documents` may be repeated and is always a list.
fn query_object(query: &str) -> Result<Map<String, Value>, Problem> {
    let mut object = Map::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decode(name)?, decode(value)?);
        if name == "documents" {
            let list = object.entry(name).or_insert_with(|| Value::Array(Vec::new()));
            list.as_array_mut().into_iter().for_each(|list| list.push(Value::String(value.clone())));
        } else if object.insert(name.clone(), Value::String(value)).is_some() {
            return Err(Problem::invalid(&name, "is given twice"));
        }
    }
    Ok(object)
}

fn decode(text: &str) -> Result<String, Problem> {
    let text = text.replace('+', " ");
    let decoded = percent_decode_str(&text).decode_utf8();
    Ok(decoded.map_err(|_| Problem::new(Code::BadRequest, "The query is not UTF-8."))?.into_owned())
}

/// A number in a query, where everything is text.
pub fn number_text<'de, D, N>(deserializer: D) -> Result<Option<N>, D::Error>
where
    D: Deserializer<'de>,
    N: std::str::FromStr,
{
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(|_| serde::de::Error::custom("must be a whole number in range"))
}

/// Marks the field that carries the request's id: what it stands for is compared without it, since the same id may come
/// in the body once and as a header the next time. (`skip_serializing` would hide the field from the API's description.)
pub fn not_compared<T>(_: &T) -> bool {
    true
}
