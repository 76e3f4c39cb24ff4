//! Which server, and as whom.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use doclock::{
    auth::{Claims, Role, secret},
    client::{BearerToken, DoclockServer},
    locking::{HolderKind, Timestamp},
    settings::{Settings, Sources},
    time::clock::Clock,
};

/// How long a token lives that was signed for one request.
const TOKEN_SECONDS: i64 = 60;

/// The server of `--url` or `DOCLOCK_URL`, with the token of `DOCLOCK_TOKEN`. Without an address it is the one that runs here,
/// by the settings; without a token one is signed with its secret, if that can be read.
#[derive(Debug)]
pub struct Connection<'a> {
    pub url: Option<String>,
    pub token: Option<String>,
    pub sources: &'a Sources,
}

impl<'a> Connection<'a> {
    pub fn new(url: Option<String>, sources: &'a Sources) -> Self {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
        Self { url: url.or_else(|| variable("DOCLOCK_URL")), token: variable("DOCLOCK_TOKEN"), sources }
    }

    /// A token that is signed here has this role.
    pub fn server(&self, role: Role) -> Result<DoclockServer, String> {
        let url = self.address()?;
        let token = match &self.token {
            Some(token) => BearerToken::from(token.as_str()),
            None => self.own_token(&url, role)?,
        };
        DoclockServer::new(&url, token).map_err(|error| error.to_string())
    }

    pub fn address(&self) -> Result<String, String> {
        match &self.url {
            Some(url) => Ok(url.clone()),
            None => own_address(self.settings()?.server.listen),
        }
    }

    fn settings(&self) -> Result<Settings, String> {
        Settings::load(self.sources).map_err(|error| error.to_string())
    }

    fn own_token(&self, url: &str, role: Role) -> Result<BearerToken, String> {
        let missing = || "set DOCLOCK_TOKEN to a token; `doclock token --help` says how to make one".to_owned();
        // A token that is good here is not for the ears of another machine.
        if !is_here(url) {
            return Err(missing());
        }
        let settings = self.settings()?;
        let secret = secret::find(&settings.auth, &settings.database.url).map_err(|error| error.to_string())?;
        let secret = secret.ok_or_else(missing)?;
        let user = ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
        let user = user.filter(|user| !user.is_empty()).unwrap_or_else(|| "unknown".to_owned());
        Ok(BearerToken::from_fn(move || {
            let now = Clock::system(Timestamp::default()).wall();
            #[expect(clippy::cast_precision_loss, reason = "seconds of this century")]
            let exp = (now.millis() / 1000 + TOKEN_SECONDS) as f64;
            let (sub, name, kind) = (format!("cli:{user}"), Some(user.clone()), Some(HolderKind::Job));
            Ok(Claims { sub, name, kind, role, exp, ..Claims::default() }.sign(&secret.bytes)?)
        }))
    }
}

fn own_address(listen: SocketAddr) -> Result<String, String> {
    if listen.port() == 0 {
        return Err("set DOCLOCK_URL to the server's address: by the settings it takes any free port".to_owned());
    }
    let reached_at = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    Ok(format!("http://{}", SocketAddr::new(reached_at, listen.port())))
}

fn is_here(url: &str) -> bool {
    let host = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = host.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let host = if host.starts_with('[') { host.split(']').next() } else { host.split(':').next() };
    let host = host.unwrap_or_default().trim_start_matches('[');
    host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_listens_everywhere_is_reached_here() {
        let address = |text: &str| own_address(text.parse().unwrap());
        assert_eq!(address("0.0.0.0:8080").unwrap(), "http://127.0.0.1:8080");
        assert_eq!(address("[::]:8080").unwrap(), "http://[::1]:8080");
        assert_eq!(address("192.0.2.1:80").unwrap(), "http://192.0.2.1:80");
        assert!(address("127.0.0.1:0").unwrap_err().contains("DOCLOCK_URL"));
    }

    #[test]
    fn only_this_machine_gets_a_token_of_its_own_secret() {
        for url in ["http://127.0.0.1:8080", "http://localhost", "https://[::1]:8/x", "http://127.9.9.9/"] {
            assert!(is_here(url), "{url}");
        }
        for url in
            ["http://example.com:80", "http://127.0.0.1@example.com/", "http://localhost.example.com", "http://1.1.1.1"]
        {
            assert!(!is_here(url), "{url}");
        }
    }
}
