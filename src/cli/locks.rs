//! `doclock locks`.

use std::{io::IsTerminal as _, process::ExitCode, time::Duration};

use clap::Args;
use doclock::{auth::Role, client::DoclockServer};
use serde_json::{Value, json};

use super::{
    Connection, Failure,
    print::{Columns, print, text},
};

const REFRESH: Duration = Duration::from_secs(1);
const PAGE: usize = 1000;
/// Clears the screen and goes to its top.
const CLEAR: &str = "\x1b[2J\x1b[H";

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  doclock locks                      # all locks; needs the role admin
  doclock locks reports              # those of one room; the role viewer is enough
  doclock locks --owner alice --json | jq .fencing_token")]
pub struct LocksArgs {
    /// Only those of this room.
    #[arg(value_name = "ROOM")]
    room: Option<String>,
    /// Only those of this owner. Needs the role admin.
    #[arg(long, value_name = "USER")]
    owner: Option<String>,
    /// Show at most so many.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    limit: usize,
    /// Show them again whenever they have changed, until interrupted.
    #[arg(long)]
    watch: bool,
}

pub async fn locks(connection: &Connection<'_>, args: LocksArgs, as_json: bool) -> Result<ExitCode, Failure> {
    let server = connection.server(Role::Admin)?;
    let mut shown = None;
    loop {
        let found = read(&server, &args).await?;
        // Heartbeats change only the times, which a table that stands still would show wrong a second later anyway.
        let leases: Vec<_> = found.locks.iter().map(|lock| lock["fencing_token"].to_string() + &place(lock)).collect();
        if shown.as_ref() != Some(&leases) {
            if args.watch && !as_json && std::io::stdout().is_terminal() {
                print([CLEAR.to_owned()])?;
            }
            print(found.lines(as_json))?;
            shown = Some(leases);
        }
        if !args.watch {
            return Ok(ExitCode::SUCCESS);
        }
        tokio::time::sleep(REFRESH).await;
    }
}

struct Found {
    locks: Vec<Value>,
    has_more: bool,
}

async fn read(server: &DoclockServer, args: &LocksArgs) -> Result<Found, Failure> {
    let mut found = Found { locks: Vec::new(), has_more: false };
    let mut cursor = None;
    loop {
        let limit = PAGE.min(args.limit - found.locks.len()).max(1).to_string();
        let base = match (&args.room, &args.owner) {
            (Some(room), None) => format!("/api/rooms/{}/locks", escaped(room)),
            _ => "/api/admin/locks".to_owned(),
        };
        let is_table = base.ends_with("/admin/locks");
        let path = with_query(
            &base,
            &[
                ("limit", Some(limit)),
                ("cursor", cursor),
                ("room", args.room.clone().filter(|_| is_table)),
                ("owner", args.owner.clone()),
            ],
        );
        let mut page = server.call("GET", &path, None).await?;
        if let Value::Array(items) = page["items"].take() {
            found.locks.extend(items);
        }
        cursor = page["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() || found.locks.len() >= args.limit {
            found.has_more = cursor.is_some();
            return Ok(found);
        }
    }
}

impl Found {
    fn lines(&self, as_json: bool) -> Vec<String> {
        if as_json {
            return self.locks.iter().map(Value::to_string).collect();
        }
        let mut table = Columns::new(&["DOCUMENT", "HOLDER", "TOKEN", "SINCE", "EXPIRES IN", "LEASE"]);
        for lock in &self.locks {
            let left = lock["expires_in_ms"].as_i64().unwrap_or_default();
            let holder = &lock["holder"];
            let holder = [text(holder, "name"), text(holder, "owner_id")].into_iter().find(|name| !name.is_empty());
            table.add([
                place(lock),
                holder.unwrap_or_default(),
                text(lock, "fencing_token"),
                text(lock, "acquired_at"),
                format!("{} s", left / 1000),
                text(lock, "lease_id"),
            ]);
        }
        let mut lines = table.lines();
        if self.has_more {
            lines.push("… and more; --limit shows them".to_owned());
        }
        lines
    }
}

fn place(lock: &Value) -> String {
    format!("{}/{}", text(lock, "room"), text(lock, "document"))
}

/// A path with those parameters that have a value.
pub fn with_query(path: &str, parameters: &[(&str, Option<String>)]) -> String {
    let given = parameters.iter().filter_map(|(name, value)| Some(format!("{name}={}", escaped(value.as_ref()?))));
    format!("{path}?{}", given.collect::<Vec<_>>().join("&"))
}

pub fn escaped(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// One line of JSON that says how many.
pub fn count_line(name: &str, count: &Value) -> String {
    json!({ name: count }).to_string()
}
