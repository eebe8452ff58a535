//! The files of the set, as the filewriter of a detector hands them out: `/data/NAME`.
//!
//! What a client names is compared with the list of names; it is never a path.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use futures_core::Stream;
use ingest::open_regular;
use tokio::sync::mpsc::{Receiver, channel};

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 1 << 20;

/// The files that can be had.
#[derive(Clone, Debug)]
pub struct Files {
    /// Name and path.
    files: Vec<(String, PathBuf)>,
}

impl Files {
    /// Those that are there, the first of each name.
    pub fn of(paths: &[PathBuf]) -> Self {
        let mut files: Vec<(String, PathBuf)> = Vec::new();
        for path in paths {
            if let Some(name) = path.file_name().and_then(|name| name.to_str())
                && path.is_file()
                && files.iter().all(|(other, _)| other != name)
            {
                files.push((name.to_owned(), path.clone()));
            }
        }
        Self { files }
    }

    /// Their names.
    pub fn names(&self) -> Vec<String> {
        self.files.iter().map(|(name, _)| name.clone()).collect()
    }

    /// The bytes of a file, and their number; nothing where there is no file of that name.
    ///
    /// # Errors
    /// The system's.
    pub fn body(&self, name: &str) -> io::Result<Option<(Body, u64)>> {
        let Some((_, path)) = self.files.iter().find(|(known, _)| known == name) else { return Ok(None) };
        let (file, identity) = open_regular(path)?;
        let (chunks, chunks_in) = channel(4);
        tokio::task::spawn_blocking(move || {
            read_chunks(file, |chunk| chunks.blocking_send(chunk).is_ok());
        });
        Ok(Some((Body::from_stream(Chunks(chunks_in)), identity.bytes)))
    }
}

/// Reads a file to its end, for as long as `send` takes chunks.
fn read_chunks(mut file: File, send: impl Fn(io::Result<Bytes>) -> bool) {
    loop {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        match (&mut file).take(CHUNK_BYTES as u64).read_to_end(&mut chunk) {
            Ok(0) => return,
            Ok(_) if send(Ok(chunk.into())) => {}
            Ok(_) => return,
            Err(error) => {
                send(Err(error));
                return;
            }
        }
    }
}

/// Chunks as they come.
struct Chunks(Receiver<io::Result<Bytes>>);

impl Stream for Chunks {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}
