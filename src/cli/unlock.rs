//! `doclock unlock`.

use std::process::ExitCode;

use clap::{ArgGroup, Args};
use doclock::{
    auth::Role,
    client::{LockError, LockName},
};
use serde_json::json;

use super::{
    Connection, Failure,
    lock::lock_name,
    locks::{count_line, escaped},
    print::print,
};

#[derive(Debug, Args)]
#[command(after_help = "\
Ends locks of others, on the record: their holders' next heartbeat is refused, and the audit trail (`doclock events`) says \
who did it and why. Needs the role admin.

Examples:
  doclock unlock minutes --reason 'laptop left on the train'
  doclock unlock --room minutes                # all documents of the room
  doclock unlock --owner alice --reason 'has left'")]
#[command(group(ArgGroup::new("which").required(true).args(["what", "room", "owner", "lease"])))]
pub struct UnlockArgs {
    /// A document of a room, or a room, which means its document `main`.
    #[arg(value_name = "ROOM[/DOCUMENT]", value_parser = lock_name)]
    what: Option<LockName>,
    /// All locks of a room.
    #[arg(long, value_name = "ROOM")]
    room: Option<String>,
    /// All locks of an owner.
    #[arg(long, value_name = "USER")]
    owner: Option<String>,
    /// The lock with this lease, as `doclock locks` shows it.
    #[arg(long, value_name = "LEASE")]
    lease: Option<String>,
    /// For the audit trail.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

pub async fn unlock(connection: &Connection<'_>, args: UnlockArgs, as_json: bool) -> Result<ExitCode, Failure> {
    let server = connection.server(Role::Admin)?;
    let unlocked = if let Some(lease) = &args.lease {
        let path = format!("/api/admin/locks/{}", escaped(lease));
        match server.call("DELETE", &path, Some(&json!({ "reason": args.reason }))).await {
            Ok(_) => 1.into(),
            Err(LockError::Refused(problem)) if problem.code == "LOCK_NOT_FOUND" => 0.into(),
            Err(error) => return Err(error.into()),
        }
    } else {
        let filter = match (&args.what, &args.room, &args.owner) {
            (Some(name), ..) => json!({ "room": name.room(), "document": name.document() }),
            (_, Some(room), _) => json!({ "room": room }),
            (.., owner) => json!({ "owner": owner }),
        };
        let body = json!({ "filter": filter, "reason": args.reason });
        server.call("POST", "/api/admin/locks/unlock", Some(&body)).await?["unlocked"].clone()
    };
    let line = if as_json { count_line("unlocked", &unlocked) } else { format!("locks ended: {unlocked}") };
    print([line])?;
    Ok(ExitCode::SUCCESS)
}
