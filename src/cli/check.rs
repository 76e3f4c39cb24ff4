//! `doclock check`: what is wrong, before a start or after a refusal. Changes nothing.

use std::process::ExitCode;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use doclock::{
    auth::{Caller, Keys, secret},
    client::{BearerToken, DoclockServer, LockError},
    locking::Timestamp,
    settings::{DatabaseUrl, Settings, Sources},
    storage::{DatabaseLook, look},
    time::clock::Clock,
};
use serde_json::{Value, json};

use super::{Connection, Failure, print::print};

/// A room to ask the server about, so that it judges the token. Whether the token is good for it does not matter.
const ANY_ROOM: &str = "/api/documents/doclock-check/lock";

struct Finding {
    what: &'static str,
    /// What was found, or what is wrong.
    result: Result<String, String>,
}

/// Exit code 0 if all is well, 1 if anything is wrong.
pub async fn check(connection: &Connection<'_>, as_json: bool) -> Result<ExitCode, Failure> {
    let mut findings = Vec::new();
    let mut found = |what, result| findings.push(Finding { what, result });
    match Settings::load(connection.sources) {
        Err(error) => found("settings", Err(error.to_string())),
        Ok(settings) => {
            found("settings", Ok(described(&settings, connection.sources)));
            found("database", database(&settings.database.url).await);
            let keys = keys(&settings);
            found("keys", keys.as_ref().map(|(_, told)| told.clone()).map_err(Clone::clone));
            // A server elsewhere has other keys: it is asked below.
            if let (Some(token), Ok((Some(keys), _)), None) = (&connection.token, keys, &connection.url) {
                found("token", judged_here(&keys, token.trim()));
            }
        }
    }
    if let Some(url) = &connection.url {
        found("server", server(url).await);
        if let Some(token) = &connection.token {
            found("token", judged_there(url, token.trim()).await);
        }
    }
    let is_well = findings.iter().all(|finding| finding.result.is_ok());
    print(findings.iter().map(|finding| finding.line(as_json)))?;
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Finding {
    fn line(&self, as_json: bool) -> String {
        let Self { what, result } = self;
        let (is_ok, told) = (result.is_ok(), result.as_ref().unwrap_or_else(|reason| reason));
        if as_json {
            return json!({ "check": what, "ok": is_ok, "detail": told }).to_string();
        }
        format!("{:<7} {what:<9} {told}", if is_ok { "ok" } else { "WRONG" })
    }
}

fn described(settings: &Settings, sources: &Sources) -> String {
    let file = sources.file.as_ref().map_or_else(|| "no file".to_owned(), |file| file.display().to_string());
    format!("from {file}; it listens on {}", settings.server.listen)
}

async fn database(url: &DatabaseUrl) -> Result<String, String> {
    match look(url).await {
        Ok(DatabaseLook::Newer) => Err(format!("{url:?}: {}", DatabaseLook::Newer)),
        Ok(found) => Ok(format!("{url:?}: {found}")),
        Err(reason) => Err(format!("{url:?}: {reason}")),
    }
}

fn keys(settings: &Settings) -> Result<(Option<Keys>, String), String> {
    let secret = secret::find(&settings.auth, &settings.database.url).map_err(|error| error.to_string())?;
    let jwks = settings.auth.jwks_file.as_deref();
    if secret.is_none() && jwks.is_none() {
        return Ok((None, "there is no secret yet; the first start makes one".to_owned()));
    }
    let mut told = Vec::new();
    if let Some(secret) = &secret {
        told.push(if secret.self_made { "a secret that the server has made" } else { "the secret of the settings" });
    }
    if jwks.is_some() {
        told.push("the keys of auth.jwks_file");
    }
    let keys = Keys::new(secret.as_ref().map(|secret| secret.bytes.as_slice()), jwks);
    Ok((Some(keys.map_err(|error| error.to_string())?), told.join(" and ")))
}

fn judged_here(keys: &Keys, token: &str) -> Result<String, String> {
    let now = Clock::system(Timestamp::default()).wall();
    match keys.verify(token, now) {
        Ok(caller) => Ok(told_of(&caller)),
        Err(reason) => Err(format!("{reason}{}", claims_of(token))),
    }
}

fn told_of(caller: &Caller) -> String {
    let rooms = caller.rooms.patterns().map_or_else(|| "every room".to_owned(), |patterns| patterns.join(", "));
    let (owner, tenant, role) = (&caller.owner, &caller.tenant, format!("{:?}", caller.role).to_lowercase());
    format!("owner {owner}, role {role}, tenant {tenant}, for {rooms}, until {}", caller.expires_at)
}

async fn server(url: &str) -> Result<String, String> {
    let asked = async { DoclockServer::without_token(url)?.call("GET", "/readyz", None).await };
    match asked.await {
        Ok(answer) if answer["status"] == "ready" => Ok(format!("{url} is ready")),
        Ok(_) => Err(format!("what answers at {url} is not a doclock server")),
        Err(error) => Err(error.to_string()),
    }
}

async fn judged_there(url: &str, token: &str) -> Result<String, String> {
    let asked = async { DoclockServer::new(url, BearerToken::from(token))?.call("GET", ANY_ROOM, None).await };
    match asked.await {
        Ok(_) => Ok(format!("accepted{}", claims_of(token))),
        // The room may be none of its own, but the token was good enough to find that out.
        Err(LockError::Refused(problem)) if problem.code == "ROOM_FORBIDDEN" => {
            Ok(format!("accepted{}", claims_of(token)))
        }
        Err(error) => Err(format!("{error}{}", claims_of(token))),
    }
}

/// What the token says of itself, whoever signed it: usually enough to see the mistake.
fn claims_of(token: &str) -> String {
    let part = |index| {
        let part = token.split('.').nth(index)?;
        serde_json::from_slice::<Value>(&BASE64_URL_SAFE_NO_PAD.decode(part).ok()?).ok()
    };
    let (Some(header), Some(claims)) = (part(0), part(1)) else {
        return "; it does not look like a JWT (three parts, joined by dots)".to_owned();
    };
    let mut told = Vec::new();
    for (of, name) in [
        (&header, "alg"),
        (&header, "kid"),
        (&claims, "sub"),
        (&claims, "tenant"),
        (&claims, "role"),
        (&claims, "rooms"),
    ] {
        if !of[name].is_null() {
            told.push(format!("{name} {}", of[name]));
        }
    }
    for (name, label) in [("nbf", "valid from"), ("exp", "valid until")] {
        #[expect(clippy::cast_possible_truncation, reason = "a time beyond the range is shown as the last one")]
        if let Some(seconds) = claims[name].as_f64() {
            told.push(format!("{label} {}", Timestamp::from_millis((seconds * 1000.0) as i64)));
        }
    }
    if claims["exp"].is_null() {
        told.push("no exp, which it must have".to_owned());
    }
    format!("; it says {}", told.join(", "))
}
