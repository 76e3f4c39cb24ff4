//! `doclock events`.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use doclock::{
    auth::Role,
    client::{DoclockServer, LockError},
};
use serde_json::Value;

use super::{
    Connection, Failure,
    locks::with_query,
    print::{print, text},
};

const LOOK_AGAIN: Duration = Duration::from_secs(1);
const PAGE: u32 = 1000;

#[derive(Debug, Args)]
#[command(after_help = "\
The audit trail: who locked what, and how it ended. Needs the role admin.

With --follow it goes on as events are committed, each once and in order, also through restarts of the server. To go on \
later, pass the last sequence as --after.

Examples:
  doclock events --follow
  doclock events --room minutes --limit 20
  doclock events --after 0 --json > all.jsonl")]
pub struct EventsArgs {
    /// Go on with new ones until interrupted.
    #[arg(long, short)]
    follow: bool,
    /// Show those after this sequence, oldest first and all of them. Without it, the last few.
    #[arg(long, value_name = "SEQUENCE")]
    after: Option<u64>,
    /// How many of the last ones.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(0..=1000))]
    limit: u32,
    /// Only those of this room.
    #[arg(long, value_name = "ROOM")]
    room: Option<String>,
    /// Only those of this document.
    #[arg(long, value_name = "DOCUMENT")]
    document: Option<String>,
    /// Only those of locks of this owner.
    #[arg(long, value_name = "USER")]
    owner: Option<String>,
    /// Only those of this type, such as `DocumentLocked`.
    #[arg(long = "type", value_name = "TYPE")]
    kind: Option<String>,
}

pub async fn events(connection: &Connection<'_>, args: EventsArgs, as_json: bool) -> Result<ExitCode, Failure> {
    let server = connection.server(Role::Admin)?;
    let mut log = Log { server, args, as_json, epoch: None };
    let mut after = match log.args.after {
        Some(after) => log.print_all_after(after).await?,
        None => log.print_last().await?,
    };
    while log.args.follow {
        tokio::time::sleep(LOOK_AGAIN).await;
        after = match log.print_all_after(after).await {
            Ok(after) => after,
            // It goes on when the server is back. What was committed meanwhile is in the log.
            Err(Problem::Asking(error)) if error.is_retryable() => after,
            Err(problem) => return Err(problem.into()),
        };
    }
    Ok(ExitCode::SUCCESS)
}

struct Log {
    server: DoclockServer,
    args: EventsArgs,
    as_json: bool,
    /// Sequences of different epochs have nothing to do with each other.
    epoch: Option<String>,
}

enum Problem {
    Asking(LockError),
    Other(String),
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        match problem {
            Problem::Asking(error) => error.into(),
            Problem::Other(line) => line.into(),
        }
    }
}

impl Log {
    /// Returns the sequence to go on after.
    async fn print_all_after(&mut self, mut after: u64) -> Result<u64, Problem> {
        loop {
            let page = self.page(&[("after", Some(after.to_string())), ("limit", Some(PAGE.to_string()))]).await?;
            let Some(last) = self.print(&page, false)? else { return Ok(after) };
            after = last;
            if page["next_after"].is_null() {
                return Ok(after);
            }
        }
    }

    async fn print_last(&mut self) -> Result<u64, Problem> {
        let limit = self.args.limit.max(1).to_string();
        let page = self.page(&[("order", Some("desc".to_owned())), ("limit", Some(limit))]).await?;
        let newest = page["items"][0]["sequence"].as_u64();
        if self.args.limit > 0 {
            self.print(&page, true)?;
        }
        Ok(newest.unwrap_or_default())
    }

    async fn page(&mut self, parameters: &[(&str, Option<String>)]) -> Result<Value, Problem> {
        let EventsArgs { room, document, owner, kind, .. } = &self.args;
        let filters = [("room", room), ("document", document), ("owner", owner), ("type", kind)];
        let mut all = parameters.to_vec();
        all.extend(filters.map(|(name, value)| (name, value.clone())));
        let path = with_query("/api/admin/events", &all);
        let page = self.server.call("GET", &path, None).await.map_err(Problem::Asking)?;
        let epoch = text(&page, "epoch");
        let is_same = self.epoch.as_ref().is_none_or(|known| *known == epoch);
        self.epoch = Some(epoch);
        if is_same {
            return Ok(page);
        }
        Err(Problem::Other("the log has a new epoch: start again, from the beginning if you keep a copy".to_owned()))
    }

    /// Returns the last sequence printed.
    fn print(&self, page: &Value, newest_first: bool) -> Result<Option<u64>, Problem> {
        let mut items: Vec<_> = page["items"].as_array().into_iter().flatten().collect();
        if newest_first {
            items.reverse();
        }
        let lines = items.iter().map(|event| if self.as_json { event.to_string() } else { line(event) });
        print(lines.collect::<Vec<_>>()).map_err(Problem::Other)?;
        Ok(items.last().and_then(|event| event["sequence"].as_u64()))
    }
}

fn line(event: &Value) -> String {
    let who = Some(text(event, "name")).filter(|name| !name.is_empty()).unwrap_or_else(|| text(event, "owner_id"));
    let mut line = format!(
        "{}  {:>8}  {}  {}/{}  token {}  {who}",
        text(event, "at"),
        text(event, "sequence"),
        text(event, "type"),
        text(event, "room"),
        text(event, "document"),
        text(event, "fencing_token"),
    );
    for (label, field) in [("", "reason"), ("by ", "by"), ("note: ", "note"), ("", "outcome")] {
        let value = text(event, field);
        if !value.is_empty() {
            line.extend(["  ", label, value.as_ref()]);
        }
    }
    if let Some(held_ms) = event["held_ms"].as_u64() {
        let held = format!("{:?}", Duration::from_millis(held_ms));
        line.extend(["  after ", &held]);
    }
    line.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}
