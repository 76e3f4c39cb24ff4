//! Which pages may call from a browser.

use std::{net::SocketAddr, sync::Arc};

/// The origins of pages that may call. Set once, asked at every request that has an `Origin`.
#[derive(Debug, Clone)]
pub struct Origins(Arc<Rule>);

#[derive(Debug)]
enum Rule {
    All,
    These(Vec<String>),
    Loopback,
    None,
}

impl Origins {
    /// If `allowed` is empty, pages from this machine may call, and only while the server listens on loopback.
    pub fn new(allowed: &[String], listen: SocketAddr) -> Self {
        Self(Arc::new(if allowed.iter().any(|origin| origin == "*") {
            Rule::All
        } else if !allowed.is_empty() {
            Rule::These(allowed.iter().map(|origin| origin.trim_end_matches('/').to_ascii_lowercase()).collect())
        } else if listen.ip().is_loopback() {
            Rule::Loopback
        } else {
            Rule::None
        }))
    }

    pub fn allow(&self, origin: &str) -> bool {
        match &*self.0 {
            Rule::All => true,
            Rule::These(origins) => origins.iter().any(|allowed| allowed == origin),
            Rule::Loopback => is_loopback(origin),
            Rule::None => false,
        }
    }
}

fn is_loopback(origin: &str) -> bool {
    let Some((scheme, host)) = origin.split_once("://") else { return false };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_here = name == "localhost"
        || name.ends_with(".localhost")
        || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    matches!(scheme, "http" | "https") && is_here
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_this_machine_may_call_while_listening_on_loopback() {
        let here = Origins::new(&[], "127.0.0.1:8080".parse().unwrap());
        for origin in ["http://localhost:5173", "http://127.0.0.1", "https://[::1]:3000", "http://app.localhost:1"] {
            assert!(here.allow(origin), "{origin}");
        }
        for origin in
            ["http://localhost.evil.example", "http://evil.example", "null", "file://localhost", "http://10.0.0.1"]
        {
            assert!(!here.allow(origin), "{origin}");
        }
        let everywhere = Origins::new(&[], "0.0.0.0:8080".parse().unwrap());
        assert!(!everywhere.allow("http://localhost:5173"));
    }

    #[test]
    fn configured_origins_are_the_only_ones_allowed() {
        let listen = "127.0.0.1:8080".parse().unwrap();
        let given = Origins::new(&["https://App.example/".to_owned()], listen);
        assert!(given.allow("https://app.example") && !given.allow("http://localhost:1"));
        assert!(Origins::new(&["*".to_owned()], listen).allow("https://any.example"));
    }
}
