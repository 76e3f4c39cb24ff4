//! Rooms over a WebSocket.

use std::collections::BTreeMap;

use futures_util::{SinkExt, StreamExt};
use reqwest::header::HeaderValue;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{self, Message, client::IntoClientRequest};

use super::{ALL_ROOMS, Following, Visit};
use crate::chance::Chance;

impl Following {
    /// Until its time is over or the connection is gone.
    pub(super) async fn socket(&mut self, server: usize, chance: &mut Chance) {
        let mut visits: Vec<_> = self.follower.rooms.iter().map(|room| self.visit(room, server)).collect();
        let stay = self.stay(chance);
        // What happens after it has left is as if it had not been sent.
        let _ = tokio::time::timeout(stay, self.converse(server, &mut visits)).await;
        self.visits.extend(visits);
    }

    async fn converse(&mut self, server: usize, visits: &mut [Visit]) -> Result<(), tungstenite::Error> {
        let hears_all = visits.iter().any(|visit| *visit.room == *ALL_ROOMS);
        let path = if hears_all { "/ws?rooms=*" } else { "/ws" };
        let base = self.bases[server].replace("http://", "ws://");
        let mut request = format!("{base}{path}").into_client_request()?;
        let bearer = format!("Bearer {}", self.follower.token);
        for (name, value) in [("authorization", bearer.as_str()), ("sec-websocket-protocol", "doclock.v1")] {
            let value = HeaderValue::from_str(value).unwrap_or_else(|_| HeaderValue::from_static(""));
            request.headers_mut().append(name, value);
        }
        let (mut stream, _) = tokio_tungstenite::connect_async(request).await?;
        for visit in visits.iter().filter(|_| !hears_all) {
            let mut subscribe = json!({ "type": "subscribe", "room": &*visit.room });
            if let Some(after) = visit.after {
                subscribe["after"] = json!({ "epoch": self.epoch, "sequence": after });
            }
            stream.send(Message::text(subscribe.to_string())).await?;
        }
        let mut pages = BTreeMap::new();
        while let Some(message) = stream.next().await {
            if let Message::Text(text) = message? {
                let message: Value = serde_json::from_str(&text).unwrap_or_default();
                self.take(&message, visits, &mut pages);
            }
        }
        Ok(())
    }
}
