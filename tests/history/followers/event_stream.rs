//! A room as Server-Sent Events.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Following, Visit};
use crate::chance::Chance;

impl Following {
    /// Until its time is over or the connection is gone.
    pub(super) async fn stream(&mut self, server: usize, chance: &mut Chance) {
        let mut visits: Vec<_> = self.follower.rooms.iter().take(1).map(|room| self.visit(room, server)).collect();
        let stay = self.stay(chance);
        let _ = tokio::time::timeout(stay, self.read(server, &mut visits)).await;
        self.visits.extend(visits);
    }

    async fn read(&mut self, server: usize, visits: &mut [Visit]) -> Result<(), reqwest::Error> {
        let url = format!("{}/api/rooms/{}/events", self.bases[server], visits[0].room);
        let mut request = self.http.get(url).bearer_auth(&self.follower.token);
        if let Some(after) = visits[0].after {
            request = request.header("last-event-id", format!("{}:{after}", self.epoch));
        }
        let mut response = request.send().await?;
        let (mut buffer, mut pages) = (Vec::new(), BTreeMap::new());
        while let Some(chunk) = response.chunk().await? {
            buffer.extend_from_slice(&chunk);
            while let Some(end) = buffer.windows(2).position(|pair| pair == b"\n\n") {
                let block: Vec<u8> = buffer.drain(..end + 2).collect();
                let block = String::from_utf8_lossy(&block);
                if let Some(data) = block.lines().find_map(|line| line.strip_prefix("data: ")) {
                    let message: Value = serde_json::from_str(data).unwrap_or_default();
                    self.take(&message, visits, &mut pages);
                }
            }
        }
        Ok(())
    }
}
