//! Locks that are asked for over a WebSocket.

use std::sync::Arc;

use futures_util::{SinkExt, StreamExt};
use reqwest::header::HeaderValue;
use serde_json::{Value, json};
use tokio::{net::TcpStream, sync::Mutex};
use tokio_tungstenite::{
    MaybeTlsStream, WebSocketStream,
    tungstenite::{Message, client::IntoClientRequest},
};

use crate::{
    record::Name,
    request::{Request, Verb},
};

type Stream = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// One person's sockets, one to each server, opened when needed.
#[derive(Clone)]
pub struct Lines {
    bases: Vec<Name>,
    token: String,
    open: Arc<Mutex<Vec<Option<Stream>>>>,
}

impl Lines {
    pub fn new(bases: &[Name], token: String) -> Self {
        let open = bases.iter().map(|_| None).collect();
        Self { bases: bases.to_vec(), token, open: Arc::new(Mutex::new(open)) }
    }

    pub fn can_send(request: &Request) -> bool {
        matches!(request.verb, Verb::Lock | Verb::Heartbeat | Verb::Unlock) && !request.many
    }

    /// The answer as HTTP would give it, or `None` if the connection broke before it came. Whoever stops waiting has hung up.
    pub async fn try_send(&self, server: usize, request: &Request) -> Option<(u16, Value)> {
        let mut open = self.open.lock().await;
        let mut stream = match open[server].take() {
            Some(stream) => stream,
            None => self.connect(server).await?,
        };
        let mut message = request.body();
        message["type"] = json!(match request.verb {
            Verb::Heartbeat => "extend",
            Verb::Unlock => "unlock",
            _ => "lock",
        });
        message["room"] = json!(&*request.room);
        message["document"] = json!(&*request.documents[0]);
        message["id"] = json!(1);
        stream.send(Message::text(message.to_string())).await.ok()?;
        let answer = loop {
            if let Message::Text(text) = stream.next().await?.ok()? {
                let answer: Value = serde_json::from_str(&text).ok()?;
                if answer["id"] == 1 {
                    break answer;
                }
            }
        };
        open[server] = Some(stream);
        let status = match (answer["type"].as_str(), answer["code"].as_str()) {
            (Some("ok"), _) => 200,
            (_, Some("OUTCOME_UNKNOWN" | "OVERLOADED" | "DRAINING")) => 503,
            _ => 409,
        };
        Some((status, answer))
    }

    async fn connect(&self, server: usize) -> Option<Stream> {
        let url = format!("{}/ws", self.bases[server].replace("http://", "ws://"));
        let mut request = url.into_client_request().ok()?;
        for (name, value) in
            [("authorization", format!("Bearer {}", self.token)), ("sec-websocket-protocol", "doclock.v1".into())]
        {
            request.headers_mut().append(name, HeaderValue::from_str(&value).ok()?);
        }
        Some(tokio_tungstenite::connect_async(request).await.ok()?.0)
    }
}
