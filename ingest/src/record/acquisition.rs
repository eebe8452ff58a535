//! Which records of a log are of which series: those from a start on, up to the next start that begins a series of the same name
//! again, or to the end of the log.
//!
//! A name comes again where the number is all there is of it (stream v1 counts from 1 again after the detector was restarted), or
//! where a start comes behind the end of its series: the same rule by which the receiver takes them apart.

use super::error::RecordError;
use super::reader::{LogReader, LogReport, Record};
use crate::stream::message::Message;
use crate::stream::over::begins_again;
use crate::stream::series::OwnedKey;

/// Names a series of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogKey {
    /// Its number and its unique name.
    pub key: OwnedKey,
    /// Which of those that have both.
    pub which: Which,
}

/// Which of the series of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The one in this place, counted from 1 in the order of the log.
    Place(u64),
    /// The last that had begun when this message of the log came; the first where none had.
    BegunBy(u64),
}

impl From<OwnedKey> for LogKey {
    /// The first of this name.
    fn from(key: OwnedKey) -> Self {
        Self { key, which: Which::Place(1) }
    }
}

/// A record, and whose it is.
#[derive(Clone, Debug)]
pub struct SeriesRecord<'a> {
    /// The record.
    pub record: Record<'a>,
    /// Counts series from 0 in the order of their first messages, of those that are read; none where the message is not
    /// understood.
    pub series: Option<usize>,
}

/// Reads a log, series by series told apart.
#[derive(Debug)]
pub struct SeriesRecords {
    reader: LogReader,
    of: Option<LogKey>,
    /// The last series of each name.
    names: Vec<Name>,
    num_series: usize,
}

/// What has come of a name.
#[derive(Debug)]
struct Name {
    key: OwnedKey,
    /// Of its last series.
    series: usize,
    first_record: u64,
    has_images: bool,
    has_ended: bool,
}

impl SeriesRecords {
    /// Reads every record, those that are not understood too.
    pub fn all(reader: LogReader) -> Self {
        Self { reader, of: None, names: Vec::new(), num_series: 0 }
    }

    /// Reads the records of one series. Of one that is named by when it had begun, those of the same name before it come
    /// first: the last that comes is it.
    pub fn of(reader: LogReader, key: LogKey) -> Self {
        Self { of: Some(key), ..Self::all(reader) }
    }

    /// The next record.
    ///
    /// # Errors
    /// Those of [`LogReader::next_record`].
    pub fn next_record(&mut self) -> Result<Option<SeriesRecord<'_>>, RecordError> {
        let (found, series) = loop {
            let Some(found) = self.reader.advance()? else { return Ok(None) };
            let record = self.reader.record(&found)?;
            if self.of.as_ref().is_some_and(|of| record.series != Some(of.key.id)) {
                continue;
            }
            let Ok(message) = record.message() else {
                match self.of {
                    None => break (found, None),
                    Some(_) => continue,
                }
            };
            if self.of.as_ref().is_some_and(|of| !of.key.is(message.series())) {
                continue;
            }
            let name = place(&mut self.names, &mut self.num_series, &message, record.number);
            let is_wanted = match self.of.as_ref().map(|of| of.which) {
                None => true,
                Some(Which::Place(place)) => name.series as u64 + 1 == place,
                Some(Which::BegunBy(number)) => name.series == 0 || name.first_record <= number,
            };
            if is_wanted {
                break (found, Some(name.series));
            }
        };
        let record = self.reader.record(&found)?;
        Ok(Some(SeriesRecord { record, series }))
    }

    /// What reading has come to.
    pub fn into_report(self) -> LogReport {
        self.reader.into_report()
    }
}

/// The series that a message is of.
fn place<'a>(
    names: &'a mut Vec<Name>,
    num_series: &mut usize,
    message: &Message<'_>,
    number: u64,
) -> &'a Name {
    let key = message.series();
    // from the last on: that is the one
    let at = names.iter().rposition(|name| name.key.is(key));
    let is_start = matches!(message, Message::Start(_));
    let begins = at.is_none_or(|at| is_start && begins_again(key, names[at].has_images, names[at].has_ended));
    let at = at.unwrap_or(names.len());
    if begins {
        let series = *num_series;
        let name = Name {
            key: OwnedKey::of(key),
            series,
            first_record: number,
            has_images: false,
            has_ended: false,
        };
        *num_series += 1;
        match names.get_mut(at) {
            Some(before) => *before = name,
            None => names.push(name),
        }
    }
    let name = &mut names[at];
    name.has_images |= matches!(message, Message::Image(_));
    name.has_ended |= matches!(message, Message::End(_));
    name
}
