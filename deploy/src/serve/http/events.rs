//! The events over a WebSocket: the status, and the images that a client subscribes to.
//!
//! One task a client, which sends one thing at a time: what has become newer meanwhile takes the place of what was not sent.
//! A client that does not read holds up this task alone, and is let go after a while.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::limits::MOST_REQUEST_BYTES;
use super::{Shared, refused};
use crate::optics::without_types;
use crate::output::Quantity;
use crate::serve::images::{self, Asked, Format, Stamp};

/// Between two events of one kind to one client, at least.
const EVENT_EVERY: Duration = Duration::from_millis(100);
/// Between two looks at most: rates and free memory change on their own.
const LOOK_AT_LEAST_EVERY: Duration = Duration::from_secs(1);
/// From one image of a subscription to the next, at least so many times what the last one took.
const REST: u32 = 4;
/// Images a client can subscribe to.
const MOST_SUBSCRIPTIONS: usize = 16;
/// Letters of the name of a subscription.
const MOST_NAME: usize = 64;
/// How long a client may not read.
const LONGEST_SEND: Duration = Duration::from_secs(30);
/// A client that says nothing is asked whether it is there.
const PING_EVERY: Duration = Duration::from_secs(20);
/// After so long without a word it is not.
const LONGEST_SILENCE: Duration = Duration::from_secs(70);

/// Takes a client.
pub(super) async fn events(State(shared): State<Shared>, upgrade: WebSocketUpgrade) -> Response {
    let Ok(place) = shared.clients.clone().try_acquire_owned() else {
        return refused(StatusCode::SERVICE_UNAVAILABLE, "too many clients listen already").into_response();
    };
    upgrade.max_message_size(MOST_REQUEST_BYTES).on_upgrade(async move |socket| {
        let _place = place;
        let client = Client { socket, shared, subscriptions: Vec::new(), heard: Instant::now() };
        // an end is an end, whoever makes it
        let _ = client.run().await;
    })
}

/// What a client says.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Said {
    Subscribe(Wanted),
    Unsubscribe(String),
}

/// An image that is wanted, whenever it is newer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    /// The client's name for it; the same name again takes its place.
    id: String,
    /// The series: its number, or `current`.
    #[serde(default = "current")]
    series: Value,
    name: String,
    #[serde(default)]
    format: Format,
    inner: Option<f64>,
    outer: Option<f64>,
    row: Option<f64>,
    col: Option<f64>,
}

fn current() -> Value {
    json!("current")
}

#[derive(Debug)]
struct Subscription {
    id: String,
    series: String,
    quantity: Quantity,
    asked: Asked,
    /// What was sent last.
    sent: Option<Stamp>,
    /// Nothing is sent before.
    due: Instant,
}

/// Nobody is there any more.
struct Gone;

struct Client {
    socket: WebSocket,
    shared: Shared,
    subscriptions: Vec<Subscription>,
    heard: Instant,
}

impl Client {
    async fn run(mut self) -> Result<(), Gone> {
        let hub = self.shared.hub.clone();
        let mut changes = hub.changes();
        let mut last: Option<Arc<str>> = None;
        let (mut status_due, mut ping_due) = (Instant::now(), Instant::now() + PING_EVERY);
        loop {
            changes.borrow_and_update();
            if Instant::now() >= status_due {
                let status = hub.status_text();
                if last.as_ref() != Some(&status) {
                    self.send(Message::Text((&*status).into())).await?;
                    last = Some(status);
                }
                status_due = Instant::now() + EVENT_EVERY;
            }
            for at in 0..self.subscriptions.len() {
                self.bring(at).await?;
            }
            if Instant::now() >= ping_due {
                if self.heard.elapsed() > LONGEST_SILENCE {
                    return Err(Gone);
                }
                self.send(Message::Ping(Bytes::new())).await?;
                ping_due = Instant::now() + PING_EVERY;
            }
            // frames come without telling: they are looked at as long as a series runs
            let is_quiet = !matches!(hub.state(), "receiving" | "reconstructing" | "armed");
            let wake = Instant::now() + if is_quiet { LOOK_AT_LEAST_EVERY } else { EVENT_EVERY };
            tokio::select! {
                () = tokio::time::sleep_until(wake.into()) => {}
                changed = changes.changed() => {
                    changed.map_err(|_| Gone)?;
                    // what is told in a row is sent once
                    tokio::time::sleep_until(status_due.into()).await;
                }
                heard = self.socket.recv() => match heard {
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(Gone),
                    Some(Ok(message)) => self.hear(message).await?,
                },
            }
        }
    }

    /// Sends one thing.
    async fn send(&mut self, message: Message) -> Result<(), Gone> {
        match tokio::time::timeout(LONGEST_SEND, self.socket.send(message)).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(Gone),
        }
    }

    /// Takes what the client says; what cannot be understood is answered with why.
    async fn hear(&mut self, message: Message) -> Result<(), Gone> {
        self.heard = Instant::now();
        let Message::Text(text) = message else { return Ok(()) };
        let answer = match serde_json::from_str(&text) {
            Ok(Said::Unsubscribe(id)) => {
                self.subscriptions.retain(|subscription| subscription.id != id);
                return Ok(());
            }
            Ok(Said::Subscribe(wanted)) => match self.subscribe(wanted) {
                Ok(()) => return Ok(()),
                Err(why) => why,
            },
            Err(error) => format!("not understood: {}", without_types(&error.to_string())),
        };
        self.send(Message::Text(json!({ "error": answer }).to_string().into())).await
    }

    fn subscribe(&mut self, wanted: Wanted) -> Result<(), String> {
        let quantity = images::named(&wanted.name)
            .ok_or_else(|| format!("subscription {}: there is no image {}", wanted.id, wanted.name))?;
        if wanted.id.len() > MOST_NAME {
            return Err(format!("got an id of {} bytes, expected at most {MOST_NAME}", wanted.id.len()));
        }
        self.subscriptions.retain(|subscription| subscription.id != wanted.id);
        if self.subscriptions.len() >= MOST_SUBSCRIPTIONS {
            return Err(format!("subscription {}: expected at most {MOST_SUBSCRIPTIONS}", wanted.id));
        }
        let Wanted { id, series, format, inner, outer, row, col, .. } = wanted;
        let series = series.as_str().map_or_else(|| series.to_string(), str::to_owned);
        let asked = Asked::new(format, [inner, outer], [row, col]);
        self.subscriptions.push(Subscription {
            id,
            series,
            quantity,
            asked,
            sent: None,
            due: Instant::now(),
        });
        Ok(())
    }

    /// Sends an image where there is a newer one and it is time for it. What cannot be computed yet is not sent.
    async fn bring(&mut self, at: usize) -> Result<(), Gone> {
        let Some(subscription) = self.subscriptions.get(at) else { return Ok(()) };
        let (quantity, asked) = (subscription.quantity, subscription.asked);
        let Ok(series) = self.shared.series(&subscription.series) else { return Ok(()) };
        let Some(stamp) = series.stamp(quantity) else { return Ok(()) };
        if subscription.sent == Some(stamp) || Instant::now() < subscription.due {
            return Ok(());
        }
        let started = Instant::now();
        let made = self.shared.image(series.clone(), quantity, asked).await;
        let rest = EVENT_EVERY.max(started.elapsed() * REST);
        if let Some(subscription) = self.subscriptions.get_mut(at) {
            subscription.due = Instant::now() + rest;
            subscription.sent = Some(stamp).filter(|_| made.is_ok()).or(subscription.sent);
        }
        let (Ok(made), Some(subscription)) = (made, self.subscriptions.get(at)) else { return Ok(()) };
        let more = json!({ "subscription": subscription.id, "series": series.number, "format": asked.format.word() });
        let Ok(frame) = made.frame(&more) else { return Ok(()) };
        self.send(Message::Binary(frame.into())).await
    }
}
