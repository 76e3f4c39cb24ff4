//! The address a request comes from, through proxies too.
//!
//! Anyone can send `X-Forwarded-For`, so it is believed only if it comes from a proxy that the settings name. Each
//! proxy appends the address that called it, so the client is the last address that is not one of these proxies.

use std::net::{IpAddr, SocketAddr};

use actix_web::http::header::HeaderMap;

use crate::settings::Network;

#[derive(Debug)]
pub struct Proxies(Vec<Network>);

impl Proxies {
    pub fn new(trusted: &[Network]) -> Self {
        Self(trusted.to_vec())
    }

    /// Returns the client's address: the peer's, or the one that trusted proxies have forwarded. `None` if the
    /// connection has no peer address.
    pub fn client(&self, peer: Option<SocketAddr>, headers: &HeaderMap) -> Option<IpAddr> {
        Some(self.before(peer?.ip().to_canonical(), headers))
    }

    fn before(&self, mut address: IpAddr, headers: &HeaderMap) -> IpAddr {
        let forwarded: Vec<_> = headers
            .get_all("x-forwarded-for")
            .flat_map(|value| value.to_str().unwrap_or_default().split(','))
            .map(|hop| parse(hop.trim()))
            .collect();
        for hop in forwarded.into_iter().rev() {
            match hop {
                Some(hop) if self.trust(address) => address = hop,
                // The sender is no trusted proxy, so what it forwarded is not believed; or this hop is not an address.
                Some(_) | None => break,
            }
        }
        address
    }

    fn trust(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }
}

/// Parses an address; some proxies add the port.
fn parse(hop: &str) -> Option<IpAddr> {
    let address = hop.parse().or_else(|_| hop.parse().map(|address: SocketAddr| address.ip()));
    address.ok().map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use actix_web::http::header::{HeaderName, HeaderValue};

    use super::*;

    #[test]
    fn the_client_is_the_last_address_that_is_no_proxy_of_ours() {
        let networks = ["10.0.0.0/8", "192.0.2.1", "::1"].map(|network| Network::try_from(network.to_owned()).unwrap());
        let proxies = Proxies::new(&networks);
        for (peer, forwarded, client) in [
            ("10.0.0.1", &["203.0.113.5"][..], "203.0.113.5"),
            ("10.0.0.1", &[], "10.0.0.1"),
            // What the client claims comes first, what our proxies saw last.
            ("10.0.0.1", &["198.51.100.9, 203.0.113.5"], "203.0.113.5"),
            ("10.0.0.1", &["198.51.100.9", "203.0.113.5, 192.0.2.1"], "203.0.113.5"),
            ("::1", &["10.1.2.3,10.1.2.4"], "10.1.2.3"),
            ("10.0.0.1", &["203.0.113.5:4711"], "203.0.113.5"),
            ("10.0.0.1", &["[2001:db8::7]:4711"], "2001:db8::7"),
            ("10.0.0.1", &["::ffff:203.0.113.5"], "203.0.113.5"),
            ("10.0.0.1", &["203.0.113.5, unknown"], "10.0.0.1"),
            ("10.0.0.1", &["203.0.113.5, unknown, 10.0.0.2"], "10.0.0.2"),
            ("203.0.113.9", &["198.51.100.9"], "203.0.113.9"),
            ("192.0.2.2", &["198.51.100.9"], "192.0.2.2"),
        ] {
            let mut headers = HeaderMap::new();
            for value in forwarded {
                headers.append(HeaderName::from_static("x-forwarded-for"), HeaderValue::from_static(value));
            }
            let found = proxies.before(peer.parse().unwrap(), &headers);
            assert_eq!(found, client.parse::<IpAddr>().unwrap(), "{peer} {forwarded:?}");
        }
    }
}
