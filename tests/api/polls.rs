//! Requests that wait, and how to know that they do.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::support::{Answer, Caller, TestServer};

/// Nothing in these tests takes nearly as long: whatever does is stuck.
const PATIENCE: Duration = Duration::from_secs(20);

/// A request that has been sent, and whose answer may take a while.
pub struct Poll(JoinHandle<Answer>);

impl Poll {
    pub async fn answer(self) -> Answer {
        tokio::time::timeout(PATIENCE, self.0).await.expect("no answer came").unwrap()
    }

    /// The answer of a request that may not have arrived yet: time passes until it is up.
    pub async fn answer_in_time(self, server: &TestServer) -> Answer {
        while !self.0.is_finished() {
            server.pass(Duration::from_millis(50)).await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        self.answer().await
    }
}

impl Caller {
    /// Has a request sent, and goes on.
    pub fn poll(&self, method: Method, path: &str, body: Value) -> Poll {
        let (caller, path) = (self.clone(), path.to_owned());
        Poll(tokio::spawn(async move { caller.json(method, &path, body).await }))
    }

    /// Stands in line for up to 55 s; as session `tab`, unless the fields say otherwise. Returns when it has its place,
    /// with so many in line.
    pub async fn waits(&self, server: &TestServer, path: &str, fields: Value, waiting: u64) -> Poll {
        let mut body = json!({"wait_ms": 55_000, "session_id": "tab"});
        body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let poll = self.poll(Method::POST, path, body);
        until_waiting(server, path, waiting).await;
        poll
    }
}

/// Who holds a document, by name; nobody if it is free.
pub async fn holder(server: &TestServer, path: &str) -> Value {
    server.admin().get(path).await.ok()["lock"]["holder"]["owner_id"].clone()
}

/// Waits until something is as expected. The clock of the server stands still meanwhile, so however long that takes changes
/// nothing.
pub async fn until<T: PartialEq + std::fmt::Debug>(expected: T, found: impl AsyncFn() -> T) {
    let looks = async {
        while found().await != expected {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let looked = tokio::time::timeout(PATIENCE, looks).await;
    assert!(looked.is_ok(), "{:?} instead of {expected:?}", found().await);
}

/// Waits until so many stand in line for a document.
pub async fn until_waiting(server: &TestServer, path: &str, count: u64) {
    let root = server.admin().connected();
    until(json!(count), async || root.get(path).await.ok()["waiting"].clone()).await;
}
