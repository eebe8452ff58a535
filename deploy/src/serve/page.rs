//! The files of the page, in the binary: it works without a network.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::http::refused;

/// The API in the words of OpenAPI 3.1.
pub(super) const OPENAPI: &str = include_str!("openapi.json");

/// Every file there is.
const FILES: &[(&str, &str, &[u8])] =
    &[("index.html", "text/html; charset=utf-8", include_bytes!("page/index.html"))];

/// A file of the page.
pub(super) fn file(name: &str) -> Response {
    match FILES.iter().find(|(known, ..)| *known == name) {
        Some((_, kind, bytes)) => {
            let policy = "default-src 'self'; img-src 'self' data: blob:; connect-src 'self'; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'";
            let heads = [
                (header::CONTENT_TYPE, *kind),
                (header::CACHE_CONTROL, "no-cache"),
                (header::CONTENT_SECURITY_POLICY, policy),
                (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            ];
            (heads, *bytes).into_response()
        }
        None => refused(StatusCode::NOT_FOUND, "there is no such page").into_response(),
    }
}
