//! Which records of a log are of which series: those from a start on, up to the next start that begins a series of the same name
//! again, or to the end of the log.
//!
//! A name comes again where the number is all there is of it (stream v1 counts from 1 again after the detector was restarted), where
//! a start comes behind the end of its series, or where images count again behind a start: the rule by which the receiver takes
//! them apart, too.

use super::error::RecordError;
use super::format::Head;
use super::reader::{LogReader, LogReport, Place, Record};
use crate::stream::message::Message;
use crate::stream::over::{begins_again, counts_again};
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
    /// A start of which the next message of its name tells whether it begins a series.
    in_doubt: Option<Held>,
    /// The start that was handed out last.
    held: Option<Held>,
    /// What comes behind it.
    behind: Option<((Head, Place), usize)>,
}

/// A record that is kept, and the place of its name.
#[derive(Debug)]
struct Held {
    head: Head,
    place: Place,
    payload: Vec<u8>,
    name: usize,
}

/// What is handed out next.
enum Next {
    /// The record that was read last.
    Read((Head, Place), Option<usize>),
    /// The start that is held.
    Held(usize),
}

/// What has come of a name.
#[derive(Debug)]
struct Name {
    key: OwnedKey,
    /// Of its last series.
    series: usize,
    first_record: u64,
    /// Of its images.
    highest_number: Option<u64>,
    has_ended: bool,
}

impl SeriesRecords {
    /// Reads every record, those that are not understood too.
    pub fn all(reader: LogReader) -> Self {
        let (names, num_series) = (Vec::new(), 0);
        Self { reader, of: None, names, num_series, in_doubt: None, held: None, behind: None }
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
        let Some(next) = self.advance()? else { return Ok(None) };
        Ok(match (next, &self.held) {
            (Next::Read(found, series), _) => {
                let record = self.reader.record(&found)?;
                Some(SeriesRecord { record, series })
            }
            (Next::Held(series), Some(Held { head, place, payload, .. })) => {
                let record = Record::new(head, *place, payload);
                Some(SeriesRecord { record, series: Some(series) })
            }
            (Next::Held(_), None) => None,
        })
    }

    /// Goes on to the next record that is wanted.
    fn advance(&mut self) -> Result<Option<Next>, RecordError> {
        if let Some((found, series)) = self.behind.take() {
            return Ok(Some(Next::Read(found, Some(series))));
        }
        loop {
            let Some(found) = self.reader.advance()? else {
                // nothing tells what it would have begun
                let Some(start) = self.in_doubt.take() else { return Ok(None) };
                let series = self.names.get(start.name).filter(|name| is_wanted(self.of.as_ref(), name));
                let series = series.map(|name| name.series);
                self.held = Some(start);
                return Ok(series.map(Next::Held));
            };
            let record = self.reader.record(&found)?;
            if self.of.as_ref().is_some_and(|of| record.series != Some(of.key.id)) {
                continue;
            }
            let Ok(message) = record.message() else {
                match self.of {
                    None => return Ok(Some(Next::Read(found, None))),
                    Some(_) => continue,
                }
            };
            if self.of.as_ref().is_some_and(|of| !of.key.is(message.series())) {
                continue;
            }
            let at = self.names.iter().rposition(|name| name.key.is(message.series()));
            let is_of_name =
                |start: &mut Held| at == Some(start.name) || matches!(message, Message::Start(_));
            let start = self.in_doubt.take_if(is_of_name);
            let is_repeated = at.and_then(|at| self.names.get(at)).is_some_and(|name| {
                let begins = begins_again(message.series(), name.has_images(), name.has_ended);
                matches!(message, Message::Start(_)) && name.has_images() && !begins
            });
            if let (true, Some(name)) = (is_repeated, at) {
                // its images tell whether it begins another series
                let (head, place) = found;
                self.in_doubt = Some(Held { head, place, payload: record.payload.to_vec(), name });
            }
            if let Some(start) = start {
                // of the series that it stands in, or of the next
                if let (Message::Image(image), Some(name)) = (&message, self.names.get_mut(start.name))
                    && name.key.is(image.series)
                    && counts_again(image.number, name.highest_number)
                {
                    *name = Name::new(name.key.clone(), self.num_series, start.head.number);
                    self.num_series += 1;
                }
                let series = self.names.get(start.name).filter(|name| is_wanted(self.of.as_ref(), name));
                let series = series.map(|name| name.series);
                if !is_repeated {
                    let name = place(&mut self.names, &mut self.num_series, &message, found.0.number);
                    self.behind = is_wanted(self.of.as_ref(), name).then_some((found, name.series));
                }
                self.held = Some(start);
                match (series, self.behind.take()) {
                    (Some(series), behind) => {
                        self.behind = behind;
                        return Ok(Some(Next::Held(series)));
                    }
                    (None, Some((found, series))) => return Ok(Some(Next::Read(found, Some(series)))),
                    (None, None) => continue,
                }
            }
            if is_repeated {
                continue;
            }
            let name = place(&mut self.names, &mut self.num_series, &message, found.0.number);
            if is_wanted(self.of.as_ref(), name) {
                return Ok(Some(Next::Read(found, Some(name.series))));
            }
        }
    }

    /// What reading has come to.
    pub fn into_report(self) -> LogReport {
        self.reader.into_report()
    }
}

impl Name {
    /// A series of which nothing has come yet.
    fn new(key: OwnedKey, series: usize, first_record: u64) -> Self {
        Self { key, series, first_record, highest_number: None, has_ended: false }
    }

    fn has_images(&self) -> bool {
        self.highest_number.is_some()
    }
}

/// Whether the series of a name is the one that is read.
fn is_wanted(of: Option<&LogKey>, name: &Name) -> bool {
    match of.map(|of| of.which) {
        None => true,
        Some(Which::Place(place)) => name.series as u64 + 1 == place,
        Some(Which::BegunBy(number)) => name.series == 0 || name.first_record <= number,
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
    let begins =
        at.is_none_or(|at| is_start && begins_again(key, names[at].has_images(), names[at].has_ended));
    let at = at.unwrap_or(names.len());
    if begins {
        let name = Name::new(OwnedKey::of(key), *num_series, number);
        *num_series += 1;
        match names.get_mut(at) {
            Some(before) => *before = name,
            None => names.push(name),
        }
    }
    let name = &mut names[at];
    match message {
        Message::Start(_) => {}
        Message::Image(image) => name.highest_number = name.highest_number.max(Some(image.number)),
        Message::End(_) => name.has_ended = true,
    }
    name
}
