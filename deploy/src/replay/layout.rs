//! Messages are laid out before they are due, so that sending them is all that the sender does.

use std::io;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use ingest::stream::push::{WireBatch, WireMessage};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::frames::Frames;
use super::plan::{Plan, Step};
use super::recording::Recording;
use super::series::{Series, Wording};

/// Bytes that are written at once where nothing else bounds them.
const PIECE_BYTES: usize = 64 * 1024;
/// Longest time whose frames are sent in one burst.
const BURST: Duration = Duration::from_millis(1);
/// Most pieces that are laid out ahead.
const MOST_PIECES: u64 = 1 << 20;

/// What a message of a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A frame that a reader can use.
    Frame(u64),
    /// A frame that no reader can use.
    Damaged(u64),
    /// Start, end, garbage.
    Other,
}

impl Content {
    /// The number of the frame.
    pub fn number(self) -> Option<u64> {
        match self {
            Self::Frame(number) | Self::Damaged(number) => Some(number),
            Self::Other => None,
        }
    }
}

/// What is done at one time.
#[derive(Debug)]
pub enum Piece {
    /// Messages to send.
    Messages {
        /// The messages.
        batch: WireBatch,
        /// What each of them is.
        contents: Vec<Content>,
    },
    /// Something else to do.
    Step(Step),
    /// A frame that the set does not have, or that could not be read.
    Absent(u64),
}

/// The receiving end of a layout.
#[derive(Debug)]
pub struct LaidOut {
    /// Pieces, in order.
    pub pieces: Receiver<Piece>,
    /// Something comes when all is laid out, or all that there is memory for.
    pub ready: Receiver<Ready>,
}

/// What was laid out before the first frame is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// Everything.
    All,
    /// As much as there is memory for; the rest follows while this is sent.
    Part,
}

/// Lays a series out in a thread of its own, at most `memory_bytes` ahead.
///
/// # Errors
/// No thread can be had; a frame is larger than the memory.
pub fn lay_out(series: Series, plan: Plan, frames: Frames, memory_bytes: u64) -> io::Result<LaidOut> {
    let channels = series.channels.len().max(1) as u64;
    let appendix = series.image_appendix.as_ref().map_or(0, String::len) as u64;
    let message_bytes = frames.largest_bytes().saturating_add(1024).saturating_mul(channels) + appendix;
    let per_burst =
        series.frames_per_second.map_or(u64::MAX, |rate| (rate * BURST.as_secs_f64()) as u64).max(1);
    let piece_bytes = message_bytes.saturating_mul(per_burst).min(PIECE_BYTES as u64 + message_bytes);
    let most = (memory_bytes / (piece_bytes + 256)).min(MOST_PIECES);
    if most < 2 {
        let what = format!(
            "messages of {message_bytes} bytes, and {memory_bytes} bytes of memory to lay them out in"
        );
        return Err(io::Error::new(io::ErrorKind::OutOfMemory, what));
    }
    let needed = plan.num_frames().saturating_mul(2).saturating_add(64);
    let (pieces, pieces_in) = bounded(usize::try_from(most.min(needed)).map_err(io::Error::other)?);
    let (ready, ready_in) = bounded(1);
    let layout = Layout {
        per_burst: usize::try_from(per_burst).unwrap_or(usize::MAX),
        pieces,
        ready,
        batch: WireBatch::default(),
        contents: Vec::new(),
    };
    let named = std::thread::Builder::new().name("replay-layout".to_owned());
    named.spawn(move || layout.run(&series, &plan, frames))?;
    Ok(LaidOut { pieces: pieces_in, ready: ready_in })
}

/// Nobody wants pieces any more.
struct NobodyListens;

struct Layout {
    per_burst: usize,
    pieces: Sender<Piece>,
    ready: Sender<Ready>,
    batch: WireBatch,
    contents: Vec<Content>,
}

impl Layout {
    fn run(mut self, series: &Series, plan: &Plan, mut frames: Frames) {
        // whoever stops listening has what it wants
        let laid_out = match &series.wording {
            Wording::AsTheyCame(recording) => self.as_they_came(series, recording, &mut frames),
            Wording::Anew | Wording::Recorded(_) => self.steps(series, plan, &mut frames),
        };
        if laid_out.is_ok() {
            let _ = self.ready.try_send(Ready::All);
        }
    }

    fn steps(&mut self, series: &Series, plan: &Plan, frames: &mut Frames) -> Result<(), NobodyListens> {
        let mut channels = Vec::new();
        let recording = series.wording.recording();
        let (mut place, mut burst_began) = (0, Duration::ZERO);
        for step in plan.steps() {
            match step {
                Step::Start => {
                    let recorded =
                        recording.map(|recording| recording.start.map(|place| frames.message(place)));
                    self.add_recorded(recorded, || series.start());
                    self.finish()?;
                }
                Step::Frame { number, damage } => {
                    let due = series.due(place).unwrap_or_default();
                    place += 1;
                    if self.contents.is_empty() || due > burst_began + BURST {
                        self.finish()?;
                        burst_began = due;
                    }
                    if damage.is_none()
                        && let Some(image) = recording.and_then(|recording| recording.image(number))
                        && let Ok(message) = frames.message(image.place)
                    {
                        self.add(&message, Content::Frame(number));
                        self.finish_if_full()?;
                        continue;
                    }
                    match frames.read(number, &mut channels) {
                        Ok(true) if series.has_frame(&channels) => {}
                        Ok(_) => {
                            self.finish()?;
                            self.send(Piece::Absent(number))?;
                            continue;
                        }
                        Err(error) => {
                            tracing::warn!("frame {number} is not sent: {error}");
                            self.finish()?;
                            self.send(Piece::Absent(number))?;
                            continue;
                        }
                    }
                    let is_first = series.frames_per_trigger.is_some_and(|each| number.is_multiple_of(each));
                    if is_first {
                        // a piece does not go beyond what one trigger releases
                        self.finish()?;
                    }
                    let content = match damage {
                        None => Content::Frame(number),
                        Some(_) => Content::Damaged(number),
                    };
                    self.add(&series.image(number, &channels, damage), content);
                    self.finish_if_full()?;
                }
                Step::Garbage { seed } => self.add(&garbage(seed), Content::Other),
                Step::End { is_own } => {
                    self.finish()?;
                    let own = recording.filter(|_| is_own);
                    let recorded = own.map(|recording| recording.end.map(|place| frames.message(place)));
                    self.add_recorded(recorded, || series.end(is_own));
                    self.finish()?;
                }
                Step::Pause(_) | Step::Restart | Step::AbortNext => {
                    self.finish()?;
                    self.send(Piece::Step(step))?;
                }
            }
        }
        self.finish()
    }

    /// Every message of a recording in the order in which it came.
    fn as_they_came(
        &mut self,
        series: &Series,
        recording: &Recording,
        frames: &mut Frames,
    ) -> Result<(), NobodyListens> {
        self.add_recorded(Some(recording.start.map(|place| frames.message(place))), || series.start());
        self.finish()?;
        let mut burst_began = Duration::ZERO;
        for (place, image) in (0..).zip(&recording.images) {
            let due = series.due(place).unwrap_or_default();
            if self.contents.is_empty() || due > burst_began + BURST {
                self.finish()?;
                burst_began = due;
            }
            match frames.message(image.place) {
                Ok(message) => {
                    self.add(&message, Content::Frame(image.number));
                    self.finish_if_full()?;
                }
                Err(error) => {
                    tracing::warn!("frame {} is not sent: {error}", image.number);
                    self.finish()?;
                    self.send(Piece::Absent(image.number))?;
                }
            }
        }
        self.finish()?;
        self.add_recorded(Some(recording.end.map(|place| frames.message(place))), || series.end(true));
        self.finish()
    }

    /// Adds a start or an end: of a recording the one it has, if it has one; else a new one.
    fn add_recorded(
        &mut self,
        recorded: Option<Option<io::Result<WireMessage>>>,
        new: impl FnOnce() -> WireMessage,
    ) {
        match recorded {
            None => self.add(&new(), Content::Other),
            Some(None) => {}
            Some(Some(Ok(message))) => self.add(&message, Content::Other),
            Some(Some(Err(error))) => {
                tracing::warn!("a message of the recording is made anew: {error}");
                self.add(&new(), Content::Other);
            }
        }
    }

    fn finish_if_full(&mut self) -> Result<(), NobodyListens> {
        if self.contents.len() >= self.per_burst || self.batch.num_bytes() >= PIECE_BYTES {
            self.finish()?;
        }
        Ok(())
    }

    fn add(&mut self, message: &WireMessage, content: Content) {
        self.batch.push(message);
        self.contents.push(content);
    }

    /// Sends the piece that is being made.
    fn finish(&mut self) -> Result<(), NobodyListens> {
        if self.contents.is_empty() {
            return Ok(());
        }
        let mut batch = std::mem::take(&mut self.batch);
        batch.shrink();
        let contents = std::mem::take(&mut self.contents);
        self.send(Piece::Messages { batch, contents })
    }

    fn send(&mut self, piece: Piece) -> Result<(), NobodyListens> {
        match self.pieces.try_send(piece) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(piece)) => {
                let _ = self.ready.try_send(Ready::Part);
                self.pieces.send(piece).map_err(|_| NobodyListens)
            }
            Err(TrySendError::Disconnected(_)) => Err(NobodyListens),
        }
    }
}

/// A message that is none: of several kinds, none of which a reader may take for one.
fn garbage(seed: u64) -> WireMessage {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let noise: Vec<u8> = (0..rng.random_range(1..5000)).map(|_| rng.random_range(0..0x20)).collect();
    match seed % 6 {
        0 => WireMessage::new(&[b""]),
        1 => WireMessage::new(&[b"{\"htype\":\"dimage-1.0\",\"frame\":"]),
        2 => WireMessage::new(&[b"{\"htype\":\"dweather-1.0\",\"series\":1}", &noise]),
        // a map of nine pairs that ends before the first
        3 => WireMessage::new(&[&[0xd9, 0xd9, 0xf7, 0xa9]]),
        4 => WireMessage::new(&[&[0xd9, 0xd9, 0xf7, 0xa1, 0x64, b't', b'y', b'p', b'e', 0xf6]]),
        _ => WireMessage::new(&[&noise]),
    }
}
