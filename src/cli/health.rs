//! `doclock health`.

use std::process::ExitCode;

use doclock::client::{DoclockServer, LockError};
use serde_json::json;

use super::{Connection, Failure, print::print};

/// Exit code 0 if the server can serve requests, 1 if not. Needs no token.
pub async fn health(connection: &Connection<'_>, as_json: bool) -> Result<ExitCode, Failure> {
    let url = connection.address()?;
    let server = DoclockServer::without_token(&url)?;
    let problem = match server.call("GET", "/readyz", None).await {
        Ok(answer) if answer["status"] == "ready" => None,
        Ok(_) => Some("what answers there is not a doclock server".to_owned()),
        Err(LockError::Refused(problem)) => Some(problem.to_string()),
        Err(error) => Some(error.to_string()),
    };
    if as_json {
        print([json!({ "url": url, "ready": problem.is_none(), "problem": problem }).to_string()])?;
        return Ok(if problem.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    match problem {
        None => print([format!("{url} is ready")])?,
        Some(problem) => return Err(format!("{url} is not ready: {problem}").into()),
    }
    Ok(ExitCode::SUCCESS)
}
