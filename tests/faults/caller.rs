//! Somebody with a token.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::process::DEADLINE;

#[derive(Clone)]
pub struct Caller {
    base: String,
    token: String,
    http: reqwest::Client,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub content_type: String,
    pub body: Value,
}

impl Caller {
    pub fn new(base: &str, token: String) -> Self {
        // Idle connections are given up before the server does so: a request into a closing one has no answer.
        let idle = Duration::from_secs(2);
        let http = reqwest::Client::builder().timeout(DEADLINE).pool_idle_timeout(idle).build().unwrap();
        Self { base: base.to_owned(), token, http }
    }

    /// The answer, or `None` if the connection broke before it came.
    pub async fn try_send(&self, method: Method, path: &str, body: &Value) -> Option<Answer> {
        let request = self.http.request(method, format!("{}{path}", self.base)).bearer_auth(&self.token);
        let request = if body.is_null() { request } else { request.json(body) };
        let answer = async {
            let response = request.send().await?;
            let status = response.status().as_u16();
            let content_type = response.headers().get("content-type").map(|value| value.to_str().unwrap().to_owned());
            Ok((status, content_type.unwrap_or_default(), response.text().await?))
        };
        match answer.await {
            Ok((status, content_type, text)) => {
                let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
                Some(Answer { status, content_type, body })
            }
            Err::<_, reqwest::Error>(error) if error.is_timeout() => panic!("no answer: {error}"),
            Err(_) => None,
        }
    }

    pub async fn send(&self, method: Method, path: &str, body: Value) -> Answer {
        self.try_send(method, path, &body).await.unwrap_or_else(|| panic!("the connection broke: {path}"))
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, Value::Null).await
    }

    pub async fn lock(&self, document: &str, ttl_seconds: u32) -> Answer {
        self.send(Method::POST, &lock_path(document), json!({ "ttl_seconds": ttl_seconds })).await
    }

    pub async fn extend(&self, document: &str) -> Answer {
        self.send(Method::PUT, &lock_path(document), json!({})).await
    }

    /// The lock as it is read, null if there is none.
    pub async fn read(&self, document: &str) -> Value {
        self.get(&lock_path(document)).await.ok()["lock"].clone()
    }

    /// A figure of `/metrics`.
    pub async fn metric(&self, name: &str) -> usize {
        let metrics = self.get("/metrics").await.body;
        let lines = metrics.as_str().unwrap().lines();
        let value = lines.filter_map(|line| line.split_once(' ')).find(|(of, _)| *of == name);
        value.unwrap_or_else(|| panic!("no {name}")).1.parse().unwrap()
    }

    /// The whole log, page by page.
    pub async fn events(&self) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let after = events.last().map_or(0, |event: &Value| event["sequence"].as_i64().unwrap());
            let page = self.get(&format!("/api/admin/events?limit=1000&after={after}")).await.ok();
            events.extend(page["items"].as_array().unwrap().iter().cloned());
            if page["next_after"].is_null() {
                return events;
            }
        }
    }

    /// Every live lock, page by page.
    pub async fn locks(&self) -> Vec<Value> {
        let (mut locks, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = self.get(&format!("/api/admin/locks?limit=1000{cursor}")).await.ok();
            locks.extend(page["items"].as_array().unwrap().iter().cloned());
            let Some(next) = page["next_cursor"].as_str() else { return locks };
            cursor = format!("&cursor={next}");
        }
    }
}

pub fn lock_path(document: &str) -> String {
    format!("/api/documents/room/{document}/lock")
}

impl Answer {
    #[track_caller]
    pub fn ok(self) -> Value {
        assert_eq!(self.status, 200, "{:#}", self.body);
        self.body
    }

    pub fn is_ok(&self) -> bool {
        self.status == 200
    }

    /// Checks that the answer is a well-formed 503 with one of these codes.
    #[track_caller]
    pub fn is_unavailable(&self, codes: &[&str]) {
        let body = &self.body;
        assert_eq!(self.status, 503, "{body:#}");
        assert_eq!(self.content_type, "application/problem+json");
        assert!(codes.contains(&body["code"].as_str().unwrap()), "{body:#}");
        assert_eq!(body["retryable"], true, "{body:#}");
    }
}

/// Waits until `condition` returns a value.
pub async fn eventually<T>(what: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let wait = async {
        loop {
            if let Some(found) = condition().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(DEADLINE, wait).await.unwrap_or_else(|_| panic!("never happened: {what}"))
}
