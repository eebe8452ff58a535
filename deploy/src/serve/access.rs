//! Who may ask: this machine freely, everybody else with a token; no page of another site, ever.

use std::io::Read;
use std::net::SocketAddr;

use anyhow::Context;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::http::refused;

/// The rule.
#[derive(Clone, Debug)]
pub(super) struct Access {
    token: Option<String>,
}

impl Access {
    /// No token on an address of this machine alone, unless one is given; elsewhere the one given, or one made up.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(super) fn new(listen: SocketAddr, token: Option<String>) -> anyhow::Result<Self> {
        let token = match (token, listen.ip().is_loopback()) {
            (Some(token), _) => Some(token),
            (None, true) => None,
            (None, false) => Some(random_token()?),
        };
        Ok(Self { token })
    }

    /// The address of the page, with the token where one is needed.
    pub(super) fn address(&self, listening: SocketAddr) -> String {
        match &self.token {
            Some(token) => format!("http://{listening}/?token={token}"),
            None => format!("http://{listening}/"),
        }
    }

    fn admits(&self, headers: &HeaderMap, query: Option<&str>) -> bool {
        let Some(token) = &self.token else { return true };
        let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let bearer = bearer.and_then(|value| value.strip_prefix("Bearer "));
        let queried = query.into_iter().flat_map(|query| query.split('&'));
        let queried = queried.filter_map(|pair| pair.strip_prefix("token="));
        bearer.into_iter().chain(queried).any(|given| is_same(given.as_bytes(), token.as_bytes()))
    }
}

/// Compares in a time that does not tell how much was right.
fn is_same(given: &[u8], token: &[u8]) -> bool {
    given.len() == token.len()
        && given.iter().zip(token).fold(0, |all, (this, that)| all | (this ^ that)) == 0
}

fn random_token() -> anyhow::Result<String> {
    let mut bytes = [0; 16];
    let mut random = std::fs::File::open("/dev/urandom").context("/dev/urandom")?;
    random.read_exact(&mut bytes).context("/dev/urandom")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Lets requests through that may be made.
pub(super) async fn check(State(access): State<Access>, request: Request, next: Next) -> Response {
    let headers = request.headers();
    // a page of another site that a browser here has open says so itself
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let host = text(header::HOST);
    if let Some(origin) = text(header::ORIGIN)
        && Some(origin.split_once("://").map_or(origin, |(_, host)| host)) != host
    {
        return refused(StatusCode::FORBIDDEN, "asked by a page of another site").into_response();
    }
    // a name that leads here and is not ours: the page of another site under its own name
    if access.token.is_none() && !host.is_some_and(is_local) {
        return refused(StatusCode::FORBIDDEN, "asked under a name that is not this machine's")
            .into_response();
    }
    // the files of the page are no secret; what they ask for is
    let path = request.uri().path();
    let is_open = matches!(path, "/" | "/healthz") || path.starts_with("/page/");
    if !is_open && !access.admits(headers, request.uri().query()) {
        return refused(
            StatusCode::UNAUTHORIZED,
            "a token is needed: Authorization: Bearer TOKEN, or ?token=TOKEN",
        )
        .into_response();
    }
    next.run(request).await.into_response()
}

/// Whether a Host header names this machine's loopback.
fn is_local(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_needed_away_from_loopback_and_must_be_the_one() {
        let local = Access::new("127.0.0.1:0".parse().unwrap(), None).unwrap();
        assert!(local.admits(&HeaderMap::new(), None));
        let open = Access::new("0.0.0.0:0".parse().unwrap(), None).unwrap();
        assert!(!open.admits(&HeaderMap::new(), None));
        let token = open.token.clone().unwrap();
        assert_eq!(token.len(), 32);
        assert!(open.admits(&HeaderMap::new(), Some(&format!("format=raw&token={token}"))));
        assert!(!open.admits(&HeaderMap::new(), Some("token=")));
        assert!(!open.admits(&HeaderMap::new(), Some(&format!("token={token}0"))));
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
        assert!(open.admits(&headers, None));
    }

    #[test]
    fn names_of_loopback_are_told_from_others() {
        for local in ["localhost", "localhost:8040", "127.0.0.1:1", "127.9.9.9", "[::1]:80", "[::1]"] {
            assert!(is_local(local), "{local}");
        }
        for other in ["evil.example:8040", "127.0.0.1.evil.example", "10.0.0.1", "", "[::2]:80"] {
            assert!(!is_local(other), "{other}");
        }
    }
}
