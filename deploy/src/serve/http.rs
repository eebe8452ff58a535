//! The HTTP API, version 1, and the page. Everything here only reads; nothing a client does can hold up the stream.
//!
//! Bounded: requests in work, clients of the events, bytes of a request. No path that a client sends reaches the file
//! system: names are looked up among those there are.

mod events;
mod limits;
mod log;
mod recent;
mod resources;

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::json;
use tokio::sync::{Semaphore, oneshot};

use super::ServeRequest;
use super::access::{Access, check};
use super::hub::Hub;
use super::images::{self, Asked, Format, Made};
use super::phase::Changes;
use super::series::{Series, View};
use super::{metrics, page};
use crate::output::{Image, Quantity, Values};

use recent::Recent;

/// Images that are computed at the same time; others wait.
const IMAGES_AT_ONCE: usize = 2;
/// Requests for images that wait, at most.
const IMAGES_WAITING: usize = 64;
/// How long one waits.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Clients of the events, at most.
const MOST_CLIENTS: usize = 64;

/// What every handler has.
#[derive(Clone, Debug)]
struct Shared {
    hub: Arc<Hub>,
    computing: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    clients: Arc<Semaphore>,
    /// What the daemon was told.
    request: Arc<ServeRequest>,
    /// Images that were just computed.
    recent: Arc<Recent>,
}

/// The server at work.
#[derive(Debug)]
pub(super) struct Pages {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    thread: std::thread::JoinHandle<()>,
}

impl Pages {
    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it, clients that are slow included.
    pub(super) fn stop(self) {
        let _ = self.stop.send(());
        // a thread that panicked has said so
        let _ = self.thread.join();
    }
}

/// Takes an address, so that nothing is begun where it cannot be had.
///
/// # Errors
/// The address cannot be used.
pub(super) fn listen(at: SocketAddr) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(at).with_context(|| format!("{at}: cannot be listened at"))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Starts to serve.
///
/// # Errors
/// There is no thread.
pub(super) fn start(
    listener: TcpListener,
    hub: Arc<Hub>,
    access: Access,
    request: &ServeRequest,
) -> anyhow::Result<Pages> {
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(IMAGES_AT_ONCE + 2)
        .thread_name("pages")
        .enable_all()
        .build()
        .context("no threads for pages")?;
    let (stop, stopped) = oneshot::channel();
    let router = router(hub, access, Arc::new(request.clone()));
    let serve = move || {
        runtime.block_on(async {
            let serving = async {
                match tokio::net::TcpListener::from_std(listener) {
                    Ok(listener) => limits::serve(listener, router).await,
                    Err(error) => tracing::error!("pages are not served: {error}"),
                }
            };
            tokio::select! {
                () = serving => {}
                _ = stopped => {}
            }
        });
        runtime.shutdown_timeout(Duration::from_millis(200));
    };
    let thread =
        std::thread::Builder::new().name("pages".to_owned()).spawn(serve).context("no thread for pages")?;
    Ok(Pages { address, stop, thread })
}

fn router(hub: Arc<Hub>, access: Access, request: Arc<ServeRequest>) -> Router {
    let shared = Shared {
        hub,
        computing: Arc::new(Semaphore::new(IMAGES_AT_ONCE)),
        waiting: Arc::new(Semaphore::new(IMAGES_WAITING)),
        clients: Arc::new(Semaphore::new(MOST_CLIENTS)),
        request,
        recent: Arc::default(),
    };
    Router::new()
        .route("/", get(async || page::file("index.html")))
        .route("/page/{name}", get(async |Path(name): Path<String>| page::file(&name)))
        .route("/healthz", get(async || "ok\n"))
        .route("/metrics", get(async |State(shared): State<Shared>| metrics::text(&shared.hub)))
        .route(
            "/api/v1/openapi.json",
            get(async || ([(header::CONTENT_TYPE, "application/json")], page::OPENAPI)),
        )
        .route("/api/v1/status", get(async |State(shared): State<Shared>| Json(shared.hub.status())))
        .route("/api/v1/series", get(async |State(shared): State<Shared>| Json(shared.hub.list())))
        .route("/api/v1/series/{number}", get(series))
        .route("/api/v1/series/{number}/images/{name}", get(image))
        .route("/api/v1/series/{number}/reconstruct", post(reconstruct))
        .merge(resources::router())
        .merge(log::router())
        .route("/api/v1/events", get(events::events))
        .fallback(async || refused(StatusCode::NOT_FOUND, "there is no such page"))
        .layer(from_fn(limits::whole))
        .layer(from_fn_with_state(access, check))
        .layer(from_fn(limits::in_words))
        .with_state(shared)
}

/// An answer that says why there is none.
#[derive(Debug)]
pub(super) struct Refused(StatusCode, String);

/// What cannot be now.
fn conflict(error: &anyhow::Error) -> Refused {
    refused(StatusCode::CONFLICT, &format!("{error:#}"))
}

/// An error in words.
pub(super) fn refused(status: StatusCode, why: &str) -> Refused {
    Refused(status, why.to_owned())
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Self(status, why) = self;
        (status, Json(json!({ "error": why }))).into_response()
    }
}

impl Shared {
    /// The series that `number` names: a number, or `current` for the newest.
    fn series(&self, number: &str) -> Result<Arc<Series>, Refused> {
        let found = match number {
            "current" => self.hub.newest(),
            number => number.parse().ok().and_then(|number| self.hub.series(number)),
        };
        found.ok_or_else(|| refused(StatusCode::NOT_FOUND, "there is no such series"))
    }

    /// Does what takes long where it holds up nobody else, a few at a time.
    async fn compute<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
    ) -> Result<T, Refused> {
        let busy = || refused(StatusCode::SERVICE_UNAVAILABLE, "too many images are asked for at once");
        let _waiting = self.waiting.try_acquire().map_err(|_| busy())?;
        let turn = tokio::time::timeout(LONGEST_WAIT, self.computing.clone().acquire_owned()).await;
        let Ok(Ok(turn)) = turn else { return Err(busy()) };
        let work = move || {
            let _turn = turn;
            work()
        };
        match tokio::task::spawn_blocking(work).await {
            Ok(Ok(made)) => Ok(made),
            Ok(Err(error)) => Err(conflict(&error)),
            Err(_) => Err(refused(StatusCode::INTERNAL_SERVER_ERROR, "that went wrong, and is our fault")),
        }
    }

    /// An image of a series: computed, or one of those that were just computed for somebody else.
    async fn image(
        &self,
        series: Arc<Series>,
        quantity: Quantity,
        asked: Asked,
    ) -> Result<Arc<Made>, Refused> {
        let stamp = series.stamp(quantity);
        let key = format!("{} {}", quantity.stem(), asked.key());
        if let Some(made) = stamp.and_then(|stamp| self.recent.get(&key, stamp)) {
            return Ok(made);
        }
        let work = move || {
            if series.view().is_none()
                && let Some(stored) = stored(series.folder(), quantity, asked.format)?
            {
                return Ok(Made::of_file(stored));
            }
            let (image, version) = images::image(&series, quantity, &asked)?;
            Made::of(&image, version, asked.format)
        };
        let made = Arc::new(self.compute(work).await?);
        if let Some(stamp) = stamp {
            self.recent.put(key, stamp, made.clone());
        }
        Ok(made)
    }
}

async fn series(State(shared): State<Shared>, Path(number): Path<String>) -> Result<Response, Refused> {
    if let Some(entry) = shared.hub.recorded_before.entry(&number) {
        return Ok(Json(entry.json(&number)).into_response());
    }
    Ok(Json(shared.series(&number)?.json()).into_response())
}

async fn image(
    State(shared): State<Shared>,
    Path((number, name)): Path<(String, String)>,
    Query(query): Query<Vec<(String, String)>>,
) -> Result<Response, Refused> {
    let asked = Asked::of_query(&query).map_err(|why| refused(StatusCode::BAD_REQUEST, &why))?;
    let quantity =
        images::named(&name).ok_or_else(|| refused(StatusCode::NOT_FOUND, "there is no such image"))?;
    if let Some(entry) = shared.hub.recorded_before.entry(&number) {
        let stored = move || stored(entry.folder, quantity, asked.format);
        let bytes = shared.compute(stored).await?;
        let bytes =
            bytes.ok_or_else(|| refused(StatusCode::CONFLICT, "there are no results of this series"))?;
        return Ok(bytes_of(asked.format, bytes));
    }
    let series = shared.series(&number)?;
    let made = shared.image(series, quantity, asked).await?;
    let bytes = Made::clone(&made).file(asked.format).map_err(|error| conflict(&error))?;
    Ok(bytes_of(asked.format, bytes))
}

/// An image of a series that is no longer in memory, from its folder: the name is ours, not the client's.
fn stored(folder: Option<PathBuf>, quantity: Quantity, format: Format) -> anyhow::Result<Option<Vec<u8>>> {
    let (Some(folder), Some(extension)) = (folder, format.extension()) else { return Ok(None) };
    let path = folder.join(format!("{}.{extension}", quantity.stem()));
    let bytes = std::fs::read(&path).map_err(|error| anyhow!("{}: {error}", path.display()))?;
    Ok(Some(bytes))
}

/// An answer of bytes that are never the same for long.
fn bytes_of(format: Format, bytes: Vec<u8>) -> Response {
    const NO_STORE: (HeaderName, &str) = (header::CACHE_CONTROL, "no-store");
    ([(header::CONTENT_TYPE, format.content_type()), NO_STORE], Body::from(bytes)).into_response()
}

async fn reconstruct(
    State(shared): State<Shared>,
    Path(number): Path<String>,
    Json(changes): Json<Changes>,
) -> Result<Response, Refused> {
    let series = shared.series(&number)?;
    let work = move || {
        let again = series.phase(|phase| phase.again());
        let again =
            again.ok_or_else(|| anyhow!("the spectra of this series are not in memory, or not complete"))?;
        let View { snapshot, optics, .. } = series.view().context("the series is no longer in memory")?;
        let made = again.reconstruct(&changes)?;
        let pixels = made.num_pixels;
        let coverage = snapshot.over_scan().coverage();
        let image = Image::over_scan(Quantity::Phase, made.scan, optics.step(), Values::F32(made.phase))?
            .with_missing(coverage.missing());
        let version = series.phase(|phase| phase.version());
        Made::of(&image, version, Format::Raw)?.frame(&json!({ "pixels_used": pixels }))
    };
    let bytes = shared.compute(work).await?;
    Ok(bytes_of(Format::Raw, bytes))
}
