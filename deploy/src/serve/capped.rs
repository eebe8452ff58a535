//! A listener that takes so many connections at a time and no more: those of pages must not use up what the stream needs.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;

/// Connections at a time; others wait to be taken.
const MOST_CONNECTIONS: usize = 256;
/// How long a client may take nothing of its answer.
const LONGEST_STALL: Duration = Duration::from_secs(60);
/// After an attempt to take one failed: file descriptors may be short.
const REST: Duration = Duration::from_millis(100);

/// The listener.
#[derive(Debug)]
pub(super) struct Capped {
    listener: TcpListener,
    places: Arc<Semaphore>,
}

impl Capped {
    pub(super) fn new(listener: TcpListener) -> Self {
        Self { listener, places: Arc::new(Semaphore::new(MOST_CONNECTIONS)) }
    }
}

impl Capped {
    /// The next connection.
    pub(super) async fn accept(&self) -> Connection {
        loop {
            // never closed
            let Ok(place) = self.places.clone().acquire_owned().await else { continue };
            match self.listener.accept().await {
                Ok((stream, _)) => return Connection { stream, stalled: None, _place: place },
                Err(error) => {
                    tracing::debug!("a page was not taken: {error}");
                    tokio::time::sleep(REST).await;
                }
            }
        }
    }
}

/// A connection; its place is free again when it ends.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    /// Runs while the client takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    /// Ends a connection whose client has taken nothing for too long.
    fn watched<T>(&mut self, context: &mut Context<'_>, taken: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if taken.is_ready() {
            self.stalled = None;
            return taken;
        }
        let sleep = || Box::pin(tokio::time::sleep(LONGEST_STALL));
        match self.stalled.get_or_insert_with(sleep).as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let taken = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watched(context, taken)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
