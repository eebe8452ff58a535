//! Requests and answers.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::detector::{Detector, Refused};
use super::files::Files;
use super::parameters::{COMMANDS, PARAMETERS, Section};
use crate::replay::monitor::Pictures;

/// Longest body that is read: a header appendix can be long, nothing else is.
const MOST_BODY_BYTES: usize = 1 << 20;
/// How long answers that are under way are waited for in the end.
const MOST_LAST_WORDS: Duration = Duration::from_secs(1);
const VERSION: &str = "1.8.0";

/// The interface, answering; ended when it goes out of use.
#[derive(Debug)]
pub struct Api {
    address: SocketAddr,
    running: Option<(Runtime, JoinHandle<()>, oneshot::Sender<()>)>,
}

impl Api {
    /// Listens on an address; port 0 lets the system choose.
    ///
    /// # Errors
    /// The port is taken; no thread can be had.
    pub fn start(
        bind: IpAddr,
        port: u16,
        detector: Arc<Detector>,
        files: Files,
        pictures: Pictures,
    ) -> anyhow::Result<Self> {
        let pictures = Arc::new(pictures);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(8)
            .thread_name("replay-api")
            .enable_all()
            .build()
            .context("no threads for the REST interface")?;
        let wanted = SocketAddr::new(bind, port);
        let listener = runtime
            .block_on(tokio::net::TcpListener::bind(wanted))
            .with_context(|| format!("the REST interface cannot listen on {wanted}"))?;
        let address = listener.local_addr()?;
        let served = Arc::new(Served::new(detector, files, pictures));
        let router = Router::new().fallback(answer).with_state(served);
        let (end, ended) = oneshot::channel::<()>();
        let serving = runtime.spawn(async move {
            let serve = axum::serve(listener, router);
            let until = async move { drop(ended.await) };
            if let Err(error) = serve.with_graceful_shutdown(until).await {
                tracing::warn!("the REST interface has ended: {error}");
            }
        });
        Ok(Self { address, running: Some((runtime, serving, end)) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        if let Some((runtime, serving, end)) = self.running.take() {
            drop(end);
            // answers that are under way are waited for, files that someone reads slowly are not
            let within = async { tokio::time::timeout(MOST_LAST_WORDS, serving).await.is_ok() };
            runtime.block_on(within);
            runtime.shutdown_background();
        }
    }
}

/// What is served: a detector and the files of its set.
#[derive(Debug)]
pub struct Served {
    detector: Arc<Detector>,
    files: Files,
    pictures: Arc<Pictures>,
}

async fn answer(State(served): State<Arc<Served>>, request: Request) -> Response {
    served.respond(request).await
}

fn response(code: u16, content_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn json_response(value: &Value) -> Response {
    response(200, "application/json; charset=utf-8", Body::from(value.to_string()))
}

impl Served {
    /// Serves a detector.
    pub fn new(detector: Arc<Detector>, files: Files, pictures: Arc<Pictures>) -> Self {
        Self { detector, files, pictures }
    }

    /// Answers a request, whatever it is.
    pub async fn respond(&self, request: Request) -> Response {
        match self.answer(request).await {
            Ok(response) => response,
            Err(Refused { code, what }) => response(code, "text/plain; charset=utf-8", Body::from(what)),
        }
    }

    async fn answer(&self, request: Request) -> Result<Response, Refused> {
        let method = request.method().clone();
        let path = request.uri().path().to_owned();
        let nothing_there = || Refused::new(404, format!("there is nothing at {path}"));
        let words: Vec<&str> = path.trim_matches('/').splitn(5, '/').collect();
        match words[..] {
            ["data", name] if method == Method::GET => self.file(name),
            [module, "api", "version"] if COMMANDS.iter().any(|(known, _)| *known == module) => {
                Ok(json_response(&json!({ "value": VERSION, "value_type": "string" })))
            }
            ["filewriter", "api", VERSION, "files"] if method == Method::GET => {
                Ok(json_response(&json!(self.files.names())))
            }
            [module, "api", VERSION, "command", name] => match method {
                Method::PUT if name == "keys" => Err(nothing_there()),
                Method::PUT => {
                    // a trigger may carry a count time; it is not needed
                    body_of(request).await?;
                    let answer = self.detector.command(module, name)?;
                    if matches!(name, "abort" | "cancel" | "disarm" | "initialize") {
                        self.wait_until_ended().await;
                    }
                    match answer {
                        Some(answer) => Ok(json_response(&answer)),
                        None => Ok(response(200, "text/plain; charset=utf-8", Body::empty())),
                    }
                }
                Method::GET if name == "keys" => {
                    let of = COMMANDS.iter().find(|(known, _)| *known == module);
                    Ok(json_response(&json!(of.ok_or_else(nothing_there)?.1)))
                }
                _ => Err(Refused::new(405, "a command is given by PUT")),
            },
            ["monitor", "api", VERSION, "images", which] if method == Method::GET => self.image(which).await,
            [module, "api", VERSION, section, name] => {
                let section = match section {
                    "config" => Section::Config,
                    "status" => Section::Status,
                    _ => return Err(nothing_there()),
                };
                match method {
                    Method::GET if name == "keys" => keys(module, section).ok_or_else(nothing_there),
                    Method::GET => {
                        let value = self.detector.get(module, section, name, &self.files.names())?;
                        Ok(json_response(&value))
                    }
                    Method::PUT if section == Section::Config => {
                        let body = body_of(request).await?;
                        let value = value_of(&body)?;
                        Ok(json_response(&json!(self.detector.set(module, name, &value)?)))
                    }
                    _ => Err(Refused::new(405, "got neither GET nor, of a configuration, PUT")),
                }
            }
            _ => Err(nothing_there()),
        }
    }

    /// Waits for a series to end that was told to: what comes next finds the detector idle.
    async fn wait_until_ended(&self) {
        for _ in 0..2500 {
            if !self.detector.is_armed() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// An image of the monitor: the `next` in its buffer, the newest (`monitor`), or `SERIES/NUMBER`.
    async fn image(&self, which: &str) -> Result<Response, Refused> {
        let monitor = self.detector.monitor();
        let shown = match which {
            "next" => monitor.next(),
            "monitor" => monitor.newest(),
            numbers => {
                let (series, number) = numbers.split_once('/').unwrap_or_default();
                let shown = series.parse().ok().zip(number.parse().ok());
                let shown = shown.ok_or_else(|| Refused::new(404, format!("there is no image {numbers}")))?;
                Some(shown).filter(|&shown| monitor.holds(shown))
            }
        };
        let (_, number) = shown.ok_or_else(|| Refused::new(408, "the monitor has no image"))?;
        let pictures = Arc::clone(&self.pictures);
        let made = tokio::task::spawn_blocking(move || pictures.tiff(number)).await;
        match made.map_err(std::io::Error::other).and_then(|made| made) {
            Ok(Some(tiff)) => Ok(response(200, "image/tiff", Body::from(tiff))),
            Ok(None) => Err(Refused::new(408, "the monitor has no image")),
            Err(error) => Err(Refused::new(500, error.to_string())),
        }
    }

    fn file(&self, name: &str) -> Result<Response, Refused> {
        match self.files.body(name) {
            Ok(Some((body, bytes))) => {
                let mut response = response(200, "application/x-hdf5", body);
                response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(bytes));
                Ok(response)
            }
            Ok(None) => Err(Refused::new(404, "there is no such file")),
            Err(error) => Err(Refused::new(500, error.to_string())),
        }
    }
}

fn keys(module: &str, section: Section) -> Option<Response> {
    let of = PARAMETERS.iter().filter(|row| row.module == module && row.section == section);
    let names: Vec<&str> = of.map(|row| row.name).collect();
    (!names.is_empty()).then(|| json_response(&json!(names)))
}

async fn body_of(request: Request) -> Result<Vec<u8>, Refused> {
    let body = to_bytes(request.into_body(), MOST_BODY_BYTES).await;
    let too_long = |error| Refused::new(413, format!("expected at most {MOST_BODY_BYTES} bytes: {error}"));
    body.map(|body| body.to_vec()).map_err(too_long)
}

/// `{"value": x}`
fn value_of(body: &[u8]) -> Result<Value, Refused> {
    let refused = |why: String| Refused::new(400, format!("expected {{\"value\": ...}}: {why}"));
    let body: Value = serde_json::from_slice(body).map_err(|error| refused(error.to_string()))?;
    body.get("value").cloned().ok_or_else(|| refused("there is no value".to_owned()))
}
