//! Settings: `config/default.toml` (compiled in), then a file, then `DOCLOCK_<SECTION>__<KEY>`, then flags.
//!
//! The defaults are read from the commented reference itself, so that the two cannot differ. They also say which
//! keys exist and of which type each is: a variable of the environment is parsed as that type.

use std::{
    ffi::OsString,
    fs,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
};

use ipnet::IpNet;
use serde::Deserialize;
use toml::{Table, Value};

const REFERENCE: &str = include_str!("../config/default.toml");
const PREFIX: &str = "DOCLOCK_";

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub server: Server,
    pub database: Database,
    pub auth: Auth,
    pub locks: Locks,
    pub demo: DemoSettings,
    pub jobs: Jobs,
    pub events: Events,
    pub requests: Requests,
    pub log: Log,
    pub limits: Limits,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    #[serde(deserialize_with = "address")]
    pub listen: SocketAddr,
    #[serde(deserialize_with = "unless_empty")]
    pub public_url: Option<String>,
    pub allowed_origins: Vec<String>,
    pub trusted_proxies: Vec<Network>,
    pub drain_seconds: u16,
    pub public_metrics: bool,
}

/// One address, or a network such as 10.0.0.0/8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Network(IpNet);

impl Network {
    pub fn contains(self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }
}

impl TryFrom<String> for Network {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let network = text.parse().or_else(|_| text.parse().map(|address: IpAddr| IpNet::from(address)));
        network.map(Self).map_err(|_| format!("`{text}` is neither an address nor a network such as 10.0.0.0/8"))
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Database {
    pub url: DatabaseUrl,
    pub notify: bool,
}

/// Where the database is, and of what kind.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum DatabaseUrl {
    Sqlite(PathBuf),
    Postgres(String),
}

impl TryFrom<String> for DatabaseUrl {
    type Error = &'static str;

    fn try_from(url: String) -> Result<Self, Self::Error> {
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            return Ok(Self::Postgres(url));
        }
        match url.strip_prefix("sqlite://") {
            Some("") => Err("must name a file after sqlite://"),
            Some(path) => Ok(Self::Sqlite(path.into())),
            None => Err("must start with sqlite:// or postgres://"),
        }
    }
}

/// The address may hold a password: it is never printed.
impl std::fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite://{}", path.display()),
            Self::Postgres(_) => f.write_str("postgres://…"),
        }
    }
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Auth {
    #[serde(deserialize_with = "unless_empty")]
    pub secret: Option<String>,
    #[serde(deserialize_with = "unless_empty")]
    pub secret_file: Option<PathBuf>,
    #[serde(deserialize_with = "unless_empty")]
    pub jwks_file: Option<PathBuf>,
}

/// The secret is never printed.
impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Auth")
            .field("secret_file", &self.secret_file)
            .field("jwks_file", &self.jwks_file)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Locks {
    pub ttl_seconds: u32,
    pub max_ttl_seconds: u32,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DemoSettings {
    pub enabled: DemoEnabled,
}

/// Whether there is a demo.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DemoEnabled {
    /// Where the server has made its secret itself and only this machine can connect.
    Auto,
    True,
    False,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jobs {
    pub sweep: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Events {
    pub retention_days: u32,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requests {
    pub retention_hours: u32,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    pub format: LogFormat,
    pub level: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Auto,
    Text,
    Json,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub locks_per_owner: u32,
    pub waits_per_owner: u32,
    pub sockets_per_owner: u32,
    pub sockets_per_address: u32,
    pub rooms_per_socket: u32,
    pub requests_per_second: u32,
    pub frames_per_second: u32,
}

/// Why settings are refused: one line that says what to change.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("cannot read settings file {path}: {reason}")]
    Unreadable { path: String, reason: String },
    #[error("settings file {path} is not TOML: {reason}")]
    NotToml { path: String, reason: String },
    #[error("{origin}: there is no setting `{key}` (config/default.toml lists them)")]
    UnknownKey { origin: String, key: String },
    #[error("{origin}: {reason}")]
    BadValue { origin: String, reason: String },
}

/// Where values come from besides the defaults.
#[derive(Debug, Default)]
pub struct Sources {
    pub file: Option<PathBuf>,
    /// Name and value of each variable.
    pub environment: Vec<(String, OsString)>,
    pub listen: Option<String>,
    pub database: Option<String>,
}

impl Settings {
    pub fn load(sources: &Sources) -> Result<Self, SettingsError> {
        let mut table: Table = toml::from_str(REFERENCE)
            .map_err(|e| SettingsError::BadValue { origin: "default.toml".into(), reason: e.message().into() })?;
        if let Some(path) = &sources.file {
            merge(&mut table, read_file(path)?, &path.display().to_string(), "")?;
        }
        for (name, text) in &sources.environment {
            // Other names are not ours: clients have DOCLOCK_URL, and Kubernetes makes DOCLOCK_PORT for a service "doclock".
            if let Some(key) = name.strip_prefix(PREFIX).filter(|key| key.contains("__")) {
                let bad = || SettingsError::BadValue { origin: name.clone(), reason: "must be UTF-8".to_owned() };
                let text = text.to_str().ok_or_else(bad)?;
                set(&mut table, name, &key.to_lowercase().replace("__", "."), text)?;
            }
        }
        for (flag, key, value) in
            [("--listen", "server.listen", &sources.listen), ("--database", "database.url", &sources.database)]
        {
            if let Some(value) = value {
                set(&mut table, flag, key, value)?;
            }
        }
        let settings: Self = serde_path_to_error::deserialize(table).map_err(|e| SettingsError::BadValue {
            origin: format!("setting `{}`", e.path()),
            reason: e.inner().message().trim().replace('\n', " "),
        })?;
        settings.check()?;
        Ok(settings)
    }

    /// Checks what types alone cannot express.
    fn check(&self) -> Result<(), SettingsError> {
        let bad = |key: &str, reason: &str| {
            Err(SettingsError::BadValue { origin: format!("setting `{key}`"), reason: reason.to_owned() })
        };
        if let Some(origin) = self.server.allowed_origins.iter().find(|origin| !is_origin(origin)) {
            let reason = format!("`{origin}` is no origin such as https://app.example.com, nor *");
            return bad("server.allowed_origins", &reason);
        }
        let is_page = |url: &String| url.starts_with("http://") || url.starts_with("https://");
        if !self.server.public_url.as_ref().is_none_or(is_page) {
            return bad("server.public_url", "must start with http:// or https://");
        }
        let Locks { ttl_seconds, max_ttl_seconds } = self.locks;
        if !(1..=86_400).contains(&max_ttl_seconds) {
            return bad("locks.max_ttl_seconds", "must be 1 to 86400");
        }
        if !(1..=max_ttl_seconds).contains(&ttl_seconds) {
            return bad("locks.ttl_seconds", "must be 1 to locks.max_ttl_seconds");
        }
        if !(1..=3650).contains(&self.events.retention_days) {
            return bad("events.retention_days", "must be 1 to 3650");
        }
        // A memo must not outlive the events that say how its lock ended.
        if !(1..=24).contains(&self.requests.retention_hours) {
            return bad("requests.retention_hours", "must be 1 to 24");
        }
        if self.auth.secret.is_some() && self.auth.secret_file.is_some() {
            return bad("auth.secret", "cannot be set together with auth.secret_file");
        }
        if let Some(secret) = &self.auth.secret
            && secret.len() < 32
        {
            return bad("auth.secret", "must be at least 32 bytes");
        }
        Ok(())
    }
}

/// Returns whether the text is `*` or an origin as browsers send it: anything else would never match one. A slash at
/// the end is allowed.
fn is_origin(text: &str) -> bool {
    let host = text.split_once("://").map(|(_, host)| host.strip_suffix('/').unwrap_or(host));
    text == "*" || host.is_some_and(|host| !host.is_empty() && !host.contains(['/', '?', '#', '@', ' ']))
}

fn read_file(path: &Path) -> Result<Table, SettingsError> {
    let shown = path.display().to_string();
    let text = fs::read_to_string(path)
        .map_err(|e| SettingsError::Unreadable { path: shown.clone(), reason: e.to_string() })?;
    toml::from_str(&text)
        .map_err(|e| SettingsError::NotToml { path: shown, reason: e.message().trim().replace('\n', " ") })
}

/// Replaces values of `base` by those of `over`. Fails on a key that `base` does not have, since it has every key there
/// is.
fn merge(base: &mut Table, over: Table, origin: &str, prefix: &str) -> Result<(), SettingsError> {
    for (name, value) in over {
        let key = format!("{prefix}{name}");
        match (base.get_mut(&name), value) {
            (None, _) => return Err(SettingsError::UnknownKey { origin: origin.into(), key }),
            (Some(Value::Table(base)), Value::Table(over)) => merge(base, over, origin, &format!("{key}."))?,
            (Some(base), value) => *base = value,
        }
    }
    Ok(())
}

/// Sets one value given as text, parsed as the type of its default. Fails on an unknown key or a text of another type.
fn set(table: &mut Table, origin: &str, key: &str, text: &str) -> Result<(), SettingsError> {
    let unknown = || SettingsError::UnknownKey { origin: origin.into(), key: key.into() };
    let bad = |reason: &str| SettingsError::BadValue { origin: origin.into(), reason: reason.into() };
    let (section, name) = key.split_once('.').ok_or_else(unknown)?;
    let value = table.get_mut(section).and_then(|section| section.get_mut(name)).ok_or_else(unknown)?;
    *value = match value {
        Value::Integer(_) => Value::Integer(text.parse().map_err(|_| bad("must be a whole number"))?),
        Value::Boolean(_) => Value::Boolean(text.parse().map_err(|_| bad("must be true or false"))?),
        Value::Array(_) => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            Value::Array(items.map(|item| Value::String(item.to_owned())).collect())
        }
        _ => Value::String(text.to_owned()),
    };
    Ok(())
}

/// An address and a port; a port alone and `localhost` mean this machine only.
fn address<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    let local = text.strip_prefix("localhost:").unwrap_or(&text);
    let port = local.strip_prefix(':').unwrap_or(local).parse::<u16>();
    match port {
        Ok(port) => Ok(SocketAddr::from(([127, 0, 0, 1], port))),
        Err(_) => text.parse().map_err(|_| {
            serde::de::Error::custom(format!("`{text}` is no address and port such as 127.0.0.1:8080 or 8080"))
        }),
    }
}

fn unless_empty<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: From<String>,
{
    let text = String::deserialize(deserializer)?;
    Ok((!text.is_empty()).then(|| text.into()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn with_environment(name: &str, value: impl Into<OsString>) -> Result<Settings, SettingsError> {
        Settings::load(&Sources { environment: vec![(name.into(), value.into())], ..Sources::default() })
    }

    fn with_file(text: &str) -> Result<Settings, SettingsError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        Settings::load(&Sources { file: Some(file.path().to_owned()), ..Sources::default() })
    }

    #[test]
    fn the_reference_file_holds_the_defaults_of_the_contract() {
        let settings = Settings::load(&Sources::default()).unwrap();
        assert_eq!(settings.server.listen.to_string(), "127.0.0.1:8080");
        assert_eq!(settings.database.url, DatabaseUrl::Sqlite("data/doclock.db".into()));
        assert_eq!((settings.locks.ttl_seconds, settings.locks.max_ttl_seconds), (30, 300));
        assert_eq!(settings.server.drain_seconds, 5);
        assert_eq!((settings.events.retention_days, settings.requests.retention_hours), (30, 24));
        assert_eq!(settings.limits.locks_per_owner, 10_000);
        assert_eq!(settings.auth.secret, None);
    }

    #[test]
    fn flags_win_over_the_environment_and_the_environment_over_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "[server]\nlisten = \"127.0.0.1:1\"\ndrain_seconds = 1\n[locks]\nttl_seconds = 7\n")
            .unwrap();
        let settings = Settings::load(&Sources {
            file: Some(file.path().to_owned()),
            environment: vec![
                ("DOCLOCK_SERVER__LISTEN".into(), "127.0.0.1:2".into()),
                ("DOCLOCK_SERVER__DRAIN_SECONDS".into(), "2".into()),
                ("DOCLOCK_SERVER__ALLOWED_ORIGINS".into(), "https://a.example, https://b.example".into()),
                ("PATH".into(), OsString::from_vec(vec![0xFF])),
            ],
            listen: Some("127.0.0.1:3".into()),
            database: None,
        })
        .unwrap();
        assert_eq!(settings.server.listen.port(), 3);
        assert_eq!(settings.server.drain_seconds, 2);
        assert_eq!(settings.locks.ttl_seconds, 7);
        assert_eq!(settings.server.allowed_origins, ["https://a.example", "https://b.example"]);
    }

    #[test]
    fn an_unknown_key_or_a_bad_value_stops_the_start_with_one_clear_line() {
        for (result, expected) in [
            (
                with_environment("DOCLOCK_SERVER__LISTN", "x"),
                "DOCLOCK_SERVER__LISTN: there is no setting `server.listn`",
            ),
            (
                with_environment("DOCLOCK_LOCKS__TTL_SECONDS", "soon"),
                "DOCLOCK_LOCKS__TTL_SECONDS: must be a whole number",
            ),
            (with_environment("DOCLOCK_LOCKS__TTL_SECONDS", "301"), "setting `locks.ttl_seconds`: must be 1 to"),
            (
                with_environment("DOCLOCK_SERVER__LISTEN", "here"),
                "setting `server.listen`: `here` is no address and port",
            ),
            (
                with_environment("DOCLOCK_SERVER__TRUSTED_PROXIES", "10.0.0.1,10.0.0.0/33"),
                "setting `server.trusted_proxies[1]`: `10.0.0.0/33` is neither",
            ),
            (
                with_environment("DOCLOCK_SERVER__ALLOWED_ORIGINS", "https://a.example,app.example.com"),
                "setting `server.allowed_origins`: `app.example.com` is no origin",
            ),
            (
                with_environment("DOCLOCK_SERVER__ALLOWED_ORIGINS", "https://a.example/page"),
                "setting `server.allowed_origins`: `https://a.example/page` is no origin",
            ),
            (with_environment("DOCLOCK_SERVER__PUBLIC_URL", "here"), "setting `server.public_url`: must start with"),
            (
                with_environment("DOCLOCK_AUTH__SECRET", OsString::from_vec(vec![0xFF; 32])),
                "DOCLOCK_AUTH__SECRET: must be UTF-8",
            ),
            (with_environment("DOCLOCK_DATABASE__URL", "mysql://x"), "setting `database.url`: must start with"),
            (with_environment("DOCLOCK_AUTH__SECRET", "short"), "setting `auth.secret`: must be at least 32 bytes"),
            (with_environment("DOCLOCK_LOG__FORMAT", "xml"), "setting `log.format`: unknown variant `xml`"),
            (with_file("[server]\nport = 1\n"), "there is no setting `server.port`"),
            (with_file("[server\n"), "is not TOML"),
            (with_file("[locks]\nttl_seconds = \"30\"\n"), "setting `locks.ttl_seconds`: invalid type"),
        ] {
            let line = result.unwrap_err().to_string();
            assert!(line.contains(expected), "{line}");
            assert!(!line.contains('\n'), "{line}");
        }
    }

    #[test]
    fn a_port_alone_and_localhost_mean_this_machine() {
        for (text, expected) in [
            ("8081", "127.0.0.1:8081"),
            (":8081", "127.0.0.1:8081"),
            ("localhost:8081", "127.0.0.1:8081"),
            ("0.0.0.0:80", "0.0.0.0:80"),
            ("[::1]:8081", "[::1]:8081"),
        ] {
            let settings = with_environment("DOCLOCK_SERVER__LISTEN", text).unwrap();
            assert_eq!(settings.server.listen.to_string(), expected, "{text}");
        }
    }

    #[test]
    fn of_the_environment_only_names_with_two_underscores_are_settings() {
        for name in ["DOCLOCK_PORT", "DOCLOCK_URL", "DOCLOCK_SERVICE_HOST"] {
            with_environment(name, "tcp://10.0.0.1:80").unwrap();
        }
    }

    #[test]
    fn the_secret_is_not_printed_with_the_settings() {
        let settings = with_environment("DOCLOCK_AUTH__SECRET", "s3cret".repeat(6)).unwrap();
        assert!(!format!("{settings:?}").contains("s3cret"));
    }
}
