//! The files of the page, in the binary: it works without a network.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::http::refused;

/// The API in the words of OpenAPI 3.1.
pub(super) const OPENAPI: &str = include_str!("openapi.json");

/// The files of the folder `page`, by name.
macro_rules! files {
    ($($name:literal),* $(,)?) => {
        /// Every file there is.
        const FILES: &[(&str, &[u8])] = &[$(($name, include_bytes!(concat!("page/", $name)))),*];
    };
}

files![
    "api.js",
    "colour.js",
    "connection.js",
    "contrast.js",
    "dom.js",
    "export_menu.js",
    "fft.js",
    "fft_view.js",
    "fft_worker.js",
    "format.js",
    "index.html",
    "keys.js",
    "latest.js",
    "looks.js",
    "main.js",
    "names.js",
    "npy.js",
    "optics_panel.js",
    "page.css",
    "phase_panel.js",
    "picture.js",
    "python.js",
    "raw.js",
    "readout.js",
    "recorded_list.js",
    "ring_overlay.js",
    "rings.js",
    "rings_panel.js",
    "scale_bar.js",
    "series_list.js",
    "state_panel.js",
    "state_text.js",
    "store.js",
    "tiles.js",
];

/// The kind of a file, by its ending.
fn kind(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        _ => "application/octet-stream",
    }
}

/// A file of the page.
pub(super) fn file(name: &str) -> Response {
    match FILES.iter().find(|(known, _)| *known == name) {
        Some((name, bytes)) => {
            let policy =
                "default-src 'self'; img-src 'self' data: blob:; connect-src 'self'; frame-ancestors 'none'";
            let heads = [
                (header::CONTENT_TYPE, kind(name)),
                (header::CACHE_CONTROL, "no-cache"),
                (header::CONTENT_SECURITY_POLICY, policy),
                (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            ];
            (heads, *bytes).into_response()
        }
        None => refused(StatusCode::NOT_FOUND, "there is no such page").into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_page_is_in_the_binary_and_all_of_them_are_small() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/serve/page");
        let mut there: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        there.sort();
        assert_eq!(there, FILES.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        let bytes: usize = FILES.iter().map(|(_, bytes)| bytes.len()).sum();
        assert!(bytes < 2_000_000, "{bytes}");
    }
}
