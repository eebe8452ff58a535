//! How long a request may take to come, how large it may be, and that whatever is refused is refused in words.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;

use super::refused;
use crate::optics::without_types;
use crate::serve::capped::Capped;

/// Bytes of a request, at most.
pub(super) const MOST_REQUEST_BYTES: usize = 64 << 10;
/// How long the head of a request may take to come, and a connection may be idle.
const LONGEST_HEAD: Duration = Duration::from_secs(15);
/// How long the body of a request may take to come.
const LONGEST_BODY: Duration = Duration::from_secs(15);
/// Bytes of what a framework says of a request that it refuses.
const MOST_SAID: usize = 4096;

/// How axum begins to say what is wrong with a body; what follows begins with the key.
const OF_A_FRAMEWORK: &str = "Failed to deserialize the JSON body into the target type: ";

/// Answers connections, each by a task of its own.
pub(super) async fn serve(listener: TcpListener, router: Router) {
    let listener = Capped::new(listener);
    loop {
        let connection = listener.accept().await;
        let answering = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(LONGEST_HEAD)
            .serve_connection(TokioIo::new(connection), TowerToHyperService::new(router.clone()))
            .with_upgrades();
        tokio::spawn(async move {
            if let Err(error) = answering.await {
                tracing::debug!("a connection of a page ended: {error}");
            }
        });
    }
}

/// Waits for the whole request, but not for ever.
pub(super) async fn whole(request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    match tokio::time::timeout(LONGEST_BODY, to_bytes(body, MOST_REQUEST_BYTES)).await {
        Ok(Ok(bytes)) => next.run(Request::from_parts(head, Body::from(bytes))).await,
        Ok(Err(_)) => {
            let why = format!("got a request of more bytes, expected at most {MOST_REQUEST_BYTES}");
            refused(StatusCode::PAYLOAD_TOO_LARGE, &why).into_response()
        }
        Err(_) => {
            let why = format!("the request did not come within {} s", LONGEST_BODY.as_secs());
            refused(StatusCode::REQUEST_TIMEOUT, &why).into_response()
        }
    }
}

/// Puts what a framework says of a request that it refuses into the form of every other error.
pub(super) async fn in_words(request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let answer = next.run(request).await;
    let status = answer.status();
    let is_json = answer.headers().get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    if !(status.is_client_error() || status.is_server_error()) || is_json {
        return answer;
    }
    let (head, body) = answer.into_parts();
    let said = to_bytes(body, MOST_SAID).await.unwrap_or_default();
    let said = without_types(String::from_utf8_lossy(&said).trim().trim_start_matches(OF_A_FRAMEWORK));
    let allowed = head.headers.get(header::ALLOW);
    let why = match (said.is_empty(), allowed.and_then(|allowed| allowed.to_str().ok())) {
        (false, _) => said,
        (true, Some(allowed)) => format!("got {method}, expected {allowed}"),
        (true, None) => status.canonical_reason().unwrap_or("refused").to_owned(),
    };
    let mut answer = refused(status, &why).into_response();
    if let Some(allowed) = allowed {
        answer.headers_mut().insert(header::ALLOW, allowed.clone());
    }
    answer
}
