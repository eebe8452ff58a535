//! The monitor of a detector: pictures of single frames as TIFF, for whoever watches by REST.
//!
//! What is kept are numbers: a frame is fetched and decoded when somebody asks for it.

use std::collections::VecDeque;
use std::io::{self, Cursor};
use std::sync::{Mutex, MutexGuard, PoisonError};

use kernels::bslz4_decode::{Encoding, decode_frame};
use kernels::types::{Count, CountType, DetectorShape};
use tiff::encoder::colortype::{ColorType, Gray8, Gray16, Gray32};
use tiff::encoder::{TiffEncoder, TiffValue};

use super::frames::Frames;
use super::source::Source;

/// A frame that was sent: its series and its number in it.
pub type Shown = (u64, u64);

/// The buffer of the monitor.
#[derive(Debug, Default)]
pub struct Monitor(Mutex<Buffer>);

#[derive(Debug, Default)]
struct Buffer {
    is_enabled: bool,
    /// Most images that are kept.
    size: usize,
    /// A full buffer discards what comes rather than what it has had longest.
    discards_new: bool,
    images: VecDeque<Shown>,
    newest: Option<Shown>,
    dropped: u64,
}

impl Monitor {
    fn buffer(&self) -> MutexGuard<'_, Buffer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the configuration. What is in the buffer stays, as far as there is room.
    pub fn configure(&self, is_enabled: bool, size: u64, discards_new: bool) {
        let mut buffer = self.buffer();
        buffer.is_enabled = is_enabled;
        buffer.discards_new = discards_new;
        buffer.size = usize::try_from(size).unwrap_or(usize::MAX);
        while buffer.images.len() > buffer.size {
            buffer.images.pop_front();
            buffer.dropped += 1;
        }
    }

    /// Forgets all images, and what was dropped.
    pub fn clear(&self) {
        let mut buffer = self.buffer();
        buffer.images.clear();
        (buffer.newest, buffer.dropped) = (None, 0);
    }

    /// Notes frames of a series that were sent, where the monitor is enabled.
    pub fn show(&self, series: u64, numbers: impl Iterator<Item = u64>) {
        let mut buffer = self.buffer();
        if !buffer.is_enabled {
            return;
        }
        for number in numbers {
            buffer.newest = Some((series, number));
            if buffer.images.len() < buffer.size {
                buffer.images.push_back((series, number));
                continue;
            }
            buffer.dropped += 1;
            if !buffer.discards_new {
                buffer.images.pop_front();
                buffer.images.push_back((series, number));
            }
        }
    }

    /// The image that was kept longest, which is taken out.
    pub fn next(&self) -> Option<Shown> {
        self.buffer().images.pop_front()
    }

    /// The newest image, which stays.
    pub fn newest(&self) -> Option<Shown> {
        self.buffer().newest
    }

    /// Whether an image is in the buffer.
    pub fn holds(&self, image: Shown) -> bool {
        self.buffer().images.contains(&image)
    }

    /// Images that there is room for, and images that were discarded.
    pub fn free_and_dropped(&self) -> (u64, u64) {
        let buffer = self.buffer();
        (buffer.size.saturating_sub(buffer.images.len()) as u64, buffer.dropped)
    }
}

/// What makes pictures of frames.
#[derive(Debug)]
pub struct Pictures {
    frames: Mutex<Frames>,
    detector: DetectorShape,
    count_type: CountType,
    encoding: Encoding,
}

impl Pictures {
    /// Pictures of the frames of a source.
    pub fn of(source: &Source) -> Self {
        Self {
            frames: Mutex::new(source.frames.clone()),
            detector: source.detector,
            count_type: source.count_type,
            encoding: source.encoding,
        }
    }

    /// A frame as a TIFF of one page, grey, of as many bits as its counts have; nothing where it is not there.
    ///
    /// # Errors
    /// It cannot be read, or does not decode.
    pub fn tiff(&self, number: u64) -> io::Result<Option<Vec<u8>>> {
        let mut channels = Vec::new();
        self.frames.lock().unwrap_or_else(PoisonError::into_inner).read(number, &mut channels)?;
        let Some(bytes) = channels.first().filter(|bytes| !bytes.is_empty()) else { return Ok(None) };
        let picture = match self.count_type {
            CountType::U8 => self.picture::<u8, Gray8>(bytes),
            CountType::U16 => self.picture::<u16, Gray16>(bytes),
            CountType::U32 => self.picture::<u32, Gray32>(bytes),
        };
        picture.map(Some)
    }

    fn picture<T: Count, C: ColorType<Inner = T>>(&self, packed: &[u8]) -> io::Result<Vec<u8>>
    where
        [T]: TiffValue,
    {
        let mut counts = vec![T::default(); self.detector.pixels()];
        decode_frame(self.encoding, packed, &mut counts).map_err(io::Error::other)?;
        let side = |side: usize| u32::try_from(side).map_err(io::Error::other);
        let (cols, rows) = (side(self.detector.cols)?, side(self.detector.rows)?);
        let mut file = Cursor::new(Vec::new());
        let written =
            TiffEncoder::new(&mut file).and_then(|mut tiff| tiff.write_image::<C>(cols, rows, &counts));
        written.map_err(io::Error::other)?;
        Ok(file.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_buffer_discards_the_oldest_or_the_newest_and_counts() {
        let monitor = Monitor::default();
        monitor.show(1, 0..3);
        assert_eq!((monitor.newest(), monitor.next()), (None, None));
        for (discards_new, kept) in [(false, [3, 4]), (true, [0, 1])] {
            monitor.clear();
            monitor.configure(true, 2, discards_new);
            monitor.show(7, 0..5);
            assert_eq!((monitor.newest(), monitor.free_and_dropped()), (Some((7, 4)), (0, 3)));
            assert!(monitor.holds((7, kept[0])) && !monitor.holds((7, 2)));
            assert_eq!(
                [monitor.next(), monitor.next(), monitor.next()],
                [Some((7, kept[0])), Some((7, kept[1])), None]
            );
            assert_eq!(monitor.free_and_dropped(), (2, 3));
        }
        monitor.show(7, 0..2);
        monitor.configure(true, 1, false);
        assert_eq!((monitor.next(), monitor.next()), (Some((7, 1)), None));
    }
}
