//! Refuses requests that a foreign page sent to a service on loopback (DNS rebinding).

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::header;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::problem::{Class, Problem};

pub(super) async fn only_loopback(request: Request, next: Next) -> Response {
    let header = request
        .headers()
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let named = request
        .uri()
        .authority()
        .map(axum::http::uri::Authority::as_str)
        .or(header);
    if named.is_none_or(is_loopback) {
        return next.run(request).await;
    }
    let problem = Problem {
        class: Class::Forbidden,
        title: "this name is not served here",
        detail: format!(
            "the request is for `{}`",
            crate::ask::shortened(named.unwrap_or_default())
        ),
        remedy: "this service listens on loopback only: use 127.0.0.1 or localhost in the URL"
            .to_owned(),
    };
    problem.into_response()
}

/// Whether `host[:port]` can only be this machine.
fn is_loopback(authority: &str) -> bool {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::is_loopback;

    #[test]
    fn only_names_of_this_machine_pass() {
        for good in [
            "localhost:7070",
            "LOCALHOST",
            "127.0.0.1:1",
            "127.9.9.9",
            "[::1]:7070",
            "[::1]",
        ] {
            assert!(is_loopback(good), "{good}");
        }
        for bad in [
            "evil.example:7070",
            "127.0.0.1.evil.example",
            "10.0.0.1:7070",
            "localhost.evil",
            "",
            "user@evil",
        ] {
            assert!(!is_loopback(bad), "{bad}");
        }
    }
}
