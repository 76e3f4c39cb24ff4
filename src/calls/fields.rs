//! Bodies and query parameters, parsed into request types; what does not fit is told by field.
//!
//! What serde says of a field that does not fit is put into our own words by its first words: the tests below pin them.

use percent_encoding::percent_decode_str;
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::{Map, Value, error::Category};

use super::{Code, Problem};

/// A JSON body; none at all is `{}`.
pub fn from_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
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
        let parsed = serde_path_to_error::deserialize(&mut json).map_err(|error| {
            // serde_json takes a number where a name of an enum should be for a fault of the JSON itself.
            let is_json = error.inner().classify() == Category::Data || serde_json::from_slice::<Value>(body).is_ok();
            if is_json { explain(&error) } else { bad_json(error.inner()) }
        })?;
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

/// An object that was parsed already.
pub fn from_object<T: DeserializeOwned>(object: Map<String, Value>) -> Result<T, Problem> {
    let object = Value::Object(object);
    // Only fields that do not fit pay for knowing where.
    T::deserialize(&object).or_else(|_| serde_path_to_error::deserialize(object).map_err(|error| explain(&error)))
}

/// A JSON body whose fields may also be given as query parameters, each once.
pub fn from_json_and_query<T: DeserializeOwned>(body: &[u8], query: &str) -> Result<T, Problem> {
    let mut object: Map<String, Value> = from_json(body)?;
    for (name, value) in query_object(query)? {
        if object.insert(name.clone(), value).is_some() {
            return Err(Problem::invalid(&name, "is given twice, in the body and in the query"));
        }
    }
    from_object(object)
}

/// Query parameters.
pub fn from_query<T: DeserializeOwned>(query: &str) -> Result<T, Problem> {
    from_object(query_object(query)?)
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Request {
        count: u32,
        inner: Option<Inner>,
        #[serde(default)]
        documents: Vec<String>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        name: String,
    }

    fn refused<T: std::fmt::Debug>(parsed: Result<T, Problem>) -> (Code, Value, String) {
        let problem = parsed.unwrap_err();
        (problem.code, problem.extra().get("field").cloned().unwrap_or_default(), problem.detail)
    }

    #[test]
    fn what_does_not_fit_is_told_by_field_in_our_own_words() {
        for (body, code, field, detail) in [
            (r#"{"x": 1}"#, Code::UnknownField, "x", "`x` is not a field of this request"),
            (r#"{"": 1}"#, Code::UnknownField, "", "`` is not a field of this request"),
            ("{}", Code::InvalidField, "count", "`count` is needed"),
            ("", Code::InvalidField, "count", "`count` is needed"),
            (r#"{"count": 1, "count": 2}"#, Code::InvalidField, "count", "`count` is given twice"),
            (
                r#"{"count": "1"}"#,
                Code::InvalidField,
                "count",
                "`count` does not fit: invalid type: string \"1\", expected u32",
            ),
            (
                r#"{"count": -1}"#,
                Code::InvalidField,
                "count",
                "`count` does not fit: invalid value: integer `-1`, expected u32",
            ),
            (
                r#"{"count": 1, "inner": {"name": "a", "x": 1}}"#,
                Code::UnknownField,
                "inner.x",
                "`inner.x` is not a field of this request",
            ),
            (r#"{"count": 1, "inner": {}}"#, Code::InvalidField, "inner.name", "`inner.name` is needed"),
            (
                r#"{"count": 1, "documents": ["a", 1]}"#,
                Code::InvalidField,
                "documents[1]",
                "`documents[1]` does not fit: invalid type: integer `1`, expected a string",
            ),
            ("[]", Code::InvalidField, "body", "`body` must be a JSON object"),
        ] {
            let found = refused(from_json::<Request>(body.as_bytes()));
            assert_eq!(found, (code, json!(field), detail.to_owned()), "{body}");
        }
    }

    #[test]
    fn what_is_not_json_is_told_with_its_place() {
        for (body, detail) in [
            ("{", "The body is not JSON: EOF while parsing an object at line 1 column 1"),
            ("[1,", "The body is not JSON: EOF while parsing a value at line 1 column 3"),
            (r#"{"count": 1} {}"#, "The body is not JSON: trailing characters at line 1 column 14"),
        ] {
            assert_eq!(refused(from_json::<Request>(body.as_bytes())), (Code::BadJson, Value::Null, detail.to_owned()));
        }
    }

    #[test]
    fn an_object_and_a_query_are_refused_in_the_same_words() {
        let object = |value: Value| value.as_object().cloned().unwrap();
        let (code, _, detail) = refused(from_object::<Request>(object(json!({"count": 1, "x": 1}))));
        assert_eq!((code, detail.as_str()), (Code::UnknownField, "`x` is not a field of this request"));
        let (_, field, _) = refused(from_object::<Request>(object(json!({"count": 1, "inner": {"name": 5}}))));
        assert_eq!(field, "inner.name");
        let (_, _, detail) = refused(from_query::<Request>("count=1&count=2"));
        assert_eq!(detail, "`count` is given twice");
        let (_, _, detail) = refused(from_json_and_query::<Request>(br#"{"count": 1}"#, "count=1"));
        assert_eq!(detail, "`count` is given twice, in the body and in the query");
    }

    #[test]
    fn a_query_may_repeat_documents_and_nothing_else() {
        let request: Request = from_json_and_query(br#"{"count": 1}"#, "documents=a+b&documents=c%26d").unwrap();
        assert_eq!(request.documents, ["a b", "c&d"]);
    }
}
