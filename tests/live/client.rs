//! A WebSocket client that says what it saw.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use reqwest::header::HeaderValue;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream,
    tungstenite::{self, Message, client::IntoClientRequest, handshake::client::Response, protocol::CloseFrame},
};

use crate::{raw::Raw, support::Caller};

/// Nothing in these tests takes nearly as long: whatever does is stuck.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// Long enough for what should not happen to happen.
const QUIET: Duration = Duration::from_millis(150);

pub struct Socket {
    pub stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
    pub response: Response,
    /// Everything that is said, for those who want to look at it afterwards.
    pub record: Option<Vec<Value>>,
}

pub type Headers<'a> = &'a [(&'static str, &'a str)];

pub async fn try_open(base: &str, path: &str, headers: Headers<'_>) -> Result<Socket, tungstenite::Error> {
    let mut request = format!("{}{path}", base.replace("http://", "ws://")).into_client_request().unwrap();
    for (name, value) in headers {
        request.headers_mut().append(*name, HeaderValue::from_str(value).unwrap());
    }
    let (stream, response) = tokio_tungstenite::connect_async(request).await?;
    Ok(Socket { stream, response, record: None })
}

pub async fn open(base: &str, path: &str, headers: Headers<'_>) -> Socket {
    try_open(base, path, headers).await.unwrap()
}

impl Caller {
    /// A socket of the caller's own, which has been welcomed.
    pub async fn socket(&self, path: &str) -> Socket {
        let mut socket = self.unwelcomed(path).await;
        assert_eq!(socket.next().await["type"], "welcome");
        socket
    }

    pub async fn unwelcomed(&self, path: &str) -> Socket {
        let bearer = format!("Bearer {}", self.token.as_deref().unwrap());
        open(&self.base, path, &[("authorization", &bearer), ("sec-websocket-protocol", "doclock.v1")]).await
    }

    /// A socket that answers pings when a test says so, and has been welcomed.
    pub async fn raw(&self) -> Raw {
        let mut raw = Raw::open(&self.base, "/ws", self.token.as_deref().unwrap()).await;
        assert_eq!(raw.said().await["type"], "welcome");
        raw
    }

    /// In the room, with what it was told.
    pub async fn in_room(&self, room: &str) -> (Socket, Told) {
        let mut socket = self.socket("/ws").await;
        let told = socket.subscribe(room, None).await;
        (socket, told)
    }
}

/// All pages of what a newcomer is told.
#[derive(Debug, Default)]
pub struct Told {
    pub opening: Value,
    pub locks: Vec<Value>,
    pub events: Vec<Value>,
    pub pages: usize,
}

impl Told {
    /// For the next visit.
    pub fn after(&self) -> Value {
        json!({"epoch": self.opening["epoch"], "sequence": self.opening["sequence"]})
    }
}

impl Socket {
    pub async fn say(&mut self, message: Value) {
        self.stream.send(Message::text(message.to_string())).await.unwrap();
    }

    /// Whether it could be sent: the server may have closed already.
    pub async fn send_raw(&mut self, message: Message) -> bool {
        self.stream.send(message).await.is_ok()
    }

    /// The next message, but for those about who is there; none once the connection is gone.
    pub async fn message(&mut self) -> Option<Message> {
        loop {
            match self.message_of_any_kind().await {
                Some(Message::Text(text)) if text.starts_with(r#"{"type":"Participant"#) => {}
                message => return message,
            }
        }
    }

    async fn message_of_any_kind(&mut self) -> Option<Message> {
        let next = tokio::time::timeout(PATIENCE, self.stream.next()).await.expect("no message came");
        next.and_then(Result::ok)
    }

    /// The next thing that is said, about who is there too; nothing once the server has closed, or is gone.
    async fn said(&mut self) -> Option<Value> {
        loop {
            match self.message_of_any_kind().await? {
                Message::Text(text) => {
                    let message: Value = serde_json::from_str(&text).unwrap();
                    self.record.iter_mut().for_each(|record| record.push(message.clone()));
                    return Some(message);
                }
                Message::Close(_) => return None,
                _ => {}
            }
        }
    }

    pub async fn next_of_any_kind(&mut self) -> Value {
        self.said().await.expect("closed")
    }

    /// The next thing that is said, but for who comes and goes.
    pub async fn next(&mut self) -> Value {
        // Pings may come for ever.
        let next = tokio::time::timeout(PATIENCE, self.try_next()).await.expect("nothing was said");
        next.expect("closed")
    }

    /// The same; nothing once the server has closed, or is gone.
    pub async fn try_next(&mut self) -> Option<Value> {
        loop {
            let message = self.said().await?;
            if !is_presence(&message) {
                return Some(message);
            }
        }
    }

    /// The next thing of this type, whatever is said before it.
    pub async fn next_of(&mut self, kind: &str) -> Value {
        let next = async {
            loop {
                let message = self.next().await;
                if message["type"] == kind {
                    return message;
                }
            }
        };
        tokio::time::timeout(PATIENCE, next).await.unwrap_or_else(|_| panic!("no {kind} was said"))
    }

    pub async fn ask(&mut self, message: Value) -> Value {
        self.say(message).await;
        self.next().await
    }

    pub async fn subscribe(&mut self, room: &str, after: Option<Value>) -> Told {
        let mut message = json!({"type": "subscribe", "room": room});
        if let Some(after) = after {
            message["after"] = after;
        }
        self.say(message).await;
        self.told().await
    }

    pub async fn told(&mut self) -> Told {
        let mut told = Told::default();
        loop {
            let mut page = self.next().await;
            let expected = if told.pages == 0 { "subscribed" } else { "snapshot" };
            assert_eq!(page["type"], expected, "{page}");
            told.pages += 1;
            let mut take = |name: &str| match page[name].take() {
                Value::Array(items) => items,
                _ => Vec::new(),
            };
            told.locks.extend(take("locks"));
            told.events.extend(take("events"));
            let more = page["more"] == true;
            if told.pages == 1 {
                told.opening = page;
            }
            if !more {
                return told;
            }
        }
    }

    /// How it ended, whatever came before.
    pub async fn close_code(&mut self) -> u16 {
        self.closed().await.0
    }

    pub async fn closed(&mut self) -> (u16, String) {
        loop {
            match self.message().await {
                Some(Message::Close(Some(CloseFrame { code, reason }))) => return (code.into(), reason.to_string()),
                Some(Message::Close(None)) | None => return (0, String::new()),
                Some(_) => {}
            }
        }
    }

    /// Nothing is said for a while.
    pub async fn is_quiet(&mut self) {
        let next = tokio::time::timeout(QUIET, self.next()).await;
        assert!(next.is_err(), "{next:?}");
    }

    /// Not even about who is there.
    pub async fn is_silent(&mut self) {
        let next = tokio::time::timeout(QUIET, self.next_of_any_kind()).await;
        assert!(next.is_err(), "{next:?}");
    }

    pub async fn close(mut self) {
        let _ = self.stream.close(None).await;
        while let Some(Ok(_)) = self.stream.next().await {}
    }
}

/// These come whenever somebody does, and have no sequence.
pub fn is_presence(message: &Value) -> bool {
    message["type"].as_str().is_some_and(|kind| kind.starts_with("Participant"))
}

/// The room after these notices, by document.
pub fn apply(locks: &mut std::collections::BTreeMap<String, i64>, notice: &Value) {
    let document = notice["document"].as_str().unwrap().to_owned();
    match notice["type"].as_str().unwrap() {
        "DocumentLocked" => {
            locks.insert(document, notice["lock"]["fencing_token"].as_i64().unwrap());
        }
        "DocumentUnlocked" => {
            let ended = locks.remove(&document);
            assert_eq!(ended, notice["fencing_token"].as_i64(), "{notice}");
        }
        other => panic!("{other}"),
    }
}

pub fn sequence(notice: &Value) -> i64 {
    notice["sequence"].as_i64().unwrap_or_else(|| panic!("no sequence in {notice}"))
}
