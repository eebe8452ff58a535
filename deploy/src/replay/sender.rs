//! Stage: pieces onto the wire, when they are due.

mod ending;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use crossbeam_channel::{Receiver, RecvTimeoutError, TryRecvError};
use ingest::stream::compose::Version;
use ingest::stream::push::{PushSocket, WireBatch};

use super::fault::FaultSwitch;
use super::frames::Frames;
use super::layout::{Content, LaidOut, Piece, Ready, lay_out};
use super::log::{Delivered, FaultLog, Ranges, SeriesLog};
use super::plan::{Plan, Step, plan};
use super::series::Series;
use super::simplon::detector::{Shared, State};
use super::thief::Thief;
use super::{ReplaySettings, print, stream_address};
use crate::doctor::MemoryReport;
use crate::request::StopFlag;

use ending::{Ending, WAITED, in_the_middle_of};

/// How often a sender that waits looks at its orders, and lets readers in.
const TICK: Duration = Duration::from_millis(10);
/// How often a sender that is busy lets readers in.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// What a sender is told.
#[derive(Debug)]
pub enum Order {
    /// Send a series.
    Arm(Box<Series>),
    /// Release the frames of one trigger.
    Trigger,
    /// End the series after what is being sent.
    Finish,
    /// End the series at once.
    Abort,
    /// Listen where a version of the stream is expected.
    Version(Version),
}

/// The stage.
#[derive(Debug)]
pub struct Sender {
    socket: PushSocket,
    frames: Frames,
    log: Option<FaultLog>,
    orders: Receiver<Order>,
    /// Orders that came while a series was sent.
    waiting: VecDeque<Order>,
    version: Version,
    memory_bytes: u64,
    settings: ReplaySettings,
    shared: Arc<Shared>,
}

/// A series while it is sent.
struct Course<'a> {
    series: &'a Series,
    /// When the frame with place 0 would have been due.
    origin: Option<Instant>,
    /// Frames that were due so far.
    place: u64,
    /// When the first frame may come.
    earliest: Instant,
    /// Frames that are released.
    released: u64,
    /// A message was dropped, and none taken since: nobody is waited for.
    is_impatient: bool,
    first_sent: Option<Instant>,
    last_look: Instant,
    sent: u64,
    dropped: Ranges,
    num_dropped: u64,
    absent: Ranges,
    delivered: Delivered,
}

impl Sender {
    /// Binds the socket.
    ///
    /// # Errors
    /// The address is taken.
    pub fn bind(
        settings: &ReplaySettings,
        frames: Frames,
        log: Option<FaultLog>,
        orders: Receiver<Order>,
        shared: Arc<Shared>,
    ) -> anyhow::Result<Self> {
        let half_of_free = || MemoryReport::examine().usable_bytes().map_or(1 << 30, |bytes| bytes / 2);
        Ok(Self {
            socket: bind(stream_address(settings, settings.version), settings.patience)?,
            frames,
            log,
            orders,
            waiting: VecDeque::new(),
            version: settings.version,
            memory_bytes: settings.memory_bytes.unwrap_or_else(half_of_free),
            settings: settings.clone(),
            shared,
        })
    }

    /// What is printed of where it listens.
    ///
    /// # Errors
    /// The system's.
    pub fn address_line(&self) -> anyhow::Result<String> {
        Ok(format!("stream tcp://{} ({})", self.socket.address()?, self.version))
    }

    /// Sends what it is told to, until nobody tells it any more, enough series are over, or the stop flag is raised: then it
    /// gives back what it was at.
    ///
    /// # Errors
    /// A port is taken when it is bound again; no reader came; the log cannot be written.
    pub fn run(mut self) -> anyhow::Result<Option<String>> {
        while !self.stop().is_raised() {
            if self.settings.num_series.is_some_and(|most| self.shared.series_over() >= most) {
                return Ok(None);
            }
            let order = match self.waiting.pop_front() {
                Some(order) => order,
                None => match self.orders.recv_timeout(TICK) {
                    Ok(order) => order,
                    Err(RecvTimeoutError::Timeout) => {
                        self.socket.accept();
                        continue;
                    }
                    Err(RecvTimeoutError::Disconnected) => return Ok(None),
                },
            };
            match order {
                Order::Arm(series) => {
                    let broken_off = self.series(*series)?;
                    if broken_off.is_some() {
                        return Ok(broken_off);
                    }
                }
                Order::Version(version) => self.listen_for(version)?,
                // there is nothing to trigger or to end
                Order::Trigger | Order::Finish | Order::Abort => {}
            }
        }
        // one that was armed a moment ago
        let armed = self.waiting.into_iter().chain(self.orders.try_iter());
        let armed = armed.into_iter().find_map(|order| match order {
            Order::Arm(series) => Some(in_the_middle_of(series.facts.id)),
            _ => None,
        });
        Ok(Some(match (armed, self.shared.series_over()) {
            _ if self.settings.arms_itself && self.socket.num_readers() == 0 => WAITED.to_owned(),
            (Some(armed), _) => armed,
            (None, 0) => "before the first series".to_owned(),
            (None, _) => "while it stayed for the next series".to_owned(),
        }))
    }

    fn stop(&self) -> &StopFlag {
        &self.settings.stop
    }

    /// Moves to where a version of the stream is expected, if that is elsewhere.
    fn listen_for(&mut self, version: Version) -> anyhow::Result<()> {
        self.version = version;
        if self.settings.stream_port.is_none() {
            let address = stream_address(&self.settings, version);
            if self.socket.address()? != address {
                self.socket.disconnect();
                self.socket = bind(address, self.settings.patience)?;
            }
        }
        print(&self.address_line()?)
    }

    /// Closes the socket and binds it again.
    fn restart(&mut self) -> anyhow::Result<()> {
        let address = self.socket.address()?;
        self.socket.disconnect();
        // the address of the new socket is that of the old one, which has to be gone by then
        let elsewhere = PushSocket::bind(SocketAddr::new(address.ip(), 0), Duration::ZERO)?;
        drop(std::mem::replace(&mut self.socket, elsewhere));
        self.socket = bind(address, self.settings.patience)?;
        Ok(())
    }

    /// Waits until there are so many readers. False when there are not, after as long as is waited for one.
    fn wait_for_readers(&mut self, readers: usize) -> bool {
        let until = Instant::now() + self.settings.wait_for_reader;
        loop {
            self.socket.accept();
            if self.socket.num_readers() >= readers {
                return true;
            }
            if Instant::now() >= until || self.stop().is_raised() {
                return false;
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
    }

    /// Sends a series, and the one that follows it at once, if one does. Gives back what it was at where it was stopped.
    fn series(&mut self, series: Series) -> anyhow::Result<Option<String>> {
        self.socket.accept();
        if self.settings.arms_itself && !self.wait_for_readers(1) {
            if self.stop().is_raised() {
                return Ok(Some(WAITED.to_owned()));
            }
            let secs = self.settings.wait_for_reader.as_secs_f64();
            bail!("no reader came within {secs} s; give --wait SECONDS for longer");
        }
        let mut next = Some(series);
        let mut faults = self.settings.faults.clone();
        while let Some(series) = next.take() {
            let seed = self.settings.seed.wrapping_add(self.shared.series_over());
            let plan = plan(seed, &faults, series.facts.num_images);
            let thief = match plan.has_thief {
                true => Some(Thief::start(self.socket.address()?)?),
                false => None,
            };
            if thief.is_some() && !self.wait_for_readers(2) {
                bail!("the second reader did not get in");
            }
            let ending = self.one_series(&series, plan, seed, thief)?;
            if ending == Ending::AbortedForNext {
                next = Some(series.followed_by(self.shared.next_series()));
                faults.retain(|fault| !matches!(fault, FaultSwitch::AbortNext(_)));
            }
            self.shared.end_series();
            if ending == Ending::Stopped {
                return Ok(Some(in_the_middle_of(series.facts.id)));
            }
        }
        if self.shared.state().is_armed() {
            self.shared.set_state(State::Idle);
        }
        Ok(None)
    }

    fn one_series(
        &mut self,
        series: &Series,
        plan: Plan,
        seed: u64,
        thief: Option<Thief>,
    ) -> anyhow::Result<Ending> {
        let LaidOut { pieces, ready } =
            lay_out(series.clone(), plan.clone(), self.frames.clone(), self.memory_bytes)
                .context("the series cannot be laid out")?;
        let mut course = Course {
            series,
            origin: None,
            place: 0,
            earliest: Instant::now() + series.delay,
            released: series.frames_per_trigger.map_or(u64::MAX, |_| 0),
            is_impatient: false,
            first_sent: None,
            last_look: Instant::now(),
            sent: 0,
            dropped: Ranges::default(),
            num_dropped: 0,
            absent: Ranges::default(),
            delivered: Delivered::of(&plan, self.log.is_some()),
        };
        let mut ending = Ending::Sent;
        for piece in &pieces {
            let step = match piece {
                Piece::Messages { batch, contents } => {
                    let first = contents.iter().find_map(|content| content.number());
                    if first.is_some() && course.first_sent.is_none() {
                        self.wait_until_laid_out(&ready)?;
                    }
                    let due = self.wait_until_due(&mut course, first);
                    due.or_else(|| self.send(&mut course, &batch, &contents))
                }
                Piece::Absent(number) => {
                    course.absent.push(number);
                    course.place += 1;
                    None
                }
                Piece::Step(Step::Pause(time)) => {
                    let paused = Instant::now();
                    let ended = self.wait(paused + time, &mut course);
                    course.origin = course.origin.map(|origin| origin + paused.elapsed());
                    ended
                }
                Piece::Step(Step::Restart) => {
                    self.restart()?;
                    None
                }
                Piece::Step(_) => Some(Ending::AbortedForNext),
            };
            if let Some(why) = step {
                ending = why;
                break;
            }
        }
        drop(pieces); // ends the layout
        if ending != Ending::Sent && series.is_streamed {
            // a series that is ended before its time says so
            self.socket.send(&series.end(true));
        }
        self.socket.flush(self.settings.patience);
        self.report(course, &plan, seed, ending, thief)?;
        Ok(ending)
    }

    /// Waits until all is laid out that there is memory for.
    fn wait_until_laid_out(&mut self, ready: &Receiver<Ready>) -> anyhow::Result<()> {
        loop {
            match ready.recv_timeout(TICK) {
                Ok(Ready::Part) => {
                    return print(&format!(
                        "{} bytes of messages are laid out, the rest follows",
                        self.memory_bytes
                    ));
                }
                Ok(Ready::All) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
                Err(RecvTimeoutError::Timeout) if self.stop().is_raised() => return Ok(()),
                Err(RecvTimeoutError::Timeout) => self.socket.accept(),
            }
        }
    }

    /// Waits until a piece whose first frame is this one is released and due. Says if the series ended meanwhile.
    fn wait_until_due(&mut self, course: &mut Course<'_>, first: Option<u64>) -> Option<Ending> {
        if let Some(ending) = self.look_at_orders(course) {
            return Some(ending);
        }
        let first = first?;
        if course.first_sent.is_none()
            && let Some(ending) = self.wait(course.earliest, course)
        {
            return Some(ending);
        }
        if first >= course.released {
            self.shared.set_state(State::Ready);
            while first >= course.released {
                if let Some(ending) = self.wait(Instant::now() + BETWEEN_LOOKS, course) {
                    return Some(ending);
                }
            }
            course.origin = None;
        }
        let now = Instant::now();
        course.first_sent.get_or_insert(now);
        self.shared.set_state(State::Acquire);
        let since = course.series.due(course.place)?;
        let origin = *course.origin.get_or_insert_with(|| now.checked_sub(since).unwrap_or(now));
        let due = origin + since;
        if due > now { self.wait(due, course) } else { None }
    }

    /// Waits until a moment, letting readers in. Says if the series ended meanwhile.
    fn wait(&mut self, until: Instant, course: &mut Course<'_>) -> Option<Ending> {
        loop {
            if let Some(ending) = self.look_at_orders(course) {
                return Some(ending);
            }
            let now = Instant::now();
            if now >= until {
                return None;
            }
            std::thread::sleep((until - now).min(TICK));
        }
    }

    /// Takes orders, and lets readers in now and then. Says if the series is to end.
    fn look_at_orders(&mut self, course: &mut Course<'_>) -> Option<Ending> {
        if course.last_look.elapsed() >= BETWEEN_LOOKS {
            self.socket.accept();
            course.last_look = Instant::now();
        }
        if self.stop().is_raised() {
            return Some(Ending::Stopped);
        }
        loop {
            match self.orders.try_recv() {
                Ok(Order::Trigger) => {
                    let each = course.series.frames_per_trigger.unwrap_or(0);
                    course.released = course.released.saturating_add(each);
                }
                Ok(Order::Finish) => return Some(Ending::Finished),
                Ok(Order::Abort) => return Some(Ending::Aborted),
                Ok(order) => self.waiting.push_back(order),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return None,
            }
        }
    }

    /// Sends the messages of a piece; what nobody takes in time is dropped, message by message.
    fn send(&mut self, course: &mut Course<'_>, batch: &WireBatch, contents: &[Content]) -> Option<Ending> {
        let (mut at, mut waited) = (0, Duration::ZERO);
        while at < contents.len() {
            let patience = match course.is_impatient || !course.series.is_streamed {
                true => Duration::ZERO,
                false => self.settings.patience.saturating_sub(waited).min(TICK),
            };
            let taken = match course.series.is_streamed {
                true => self.socket.send_batch(batch, at, patience),
                false => contents.len(),
            };
            for content in contents.iter().skip(at).take(taken) {
                course.sent += u64::from(content.number().is_some());
                if let Content::Frame(number) = content {
                    course.delivered.add(*number);
                }
            }
            let shown = contents.iter().skip(at).take(taken).filter_map(|content| match content {
                Content::Frame(number) => Some(*number),
                _ => None,
            });
            self.shared.monitor.show(course.series.facts.id, shown);
            at += taken;
            if taken > 0 {
                (course.is_impatient, waited) = (false, Duration::ZERO);
                continue;
            }
            waited += patience;
            if waited >= self.settings.patience || course.is_impatient {
                course.is_impatient = true;
                course.num_dropped += 1;
                self.shared.dropped.fetch_add(1, SeqCst);
                if let Some(number) = contents[at].number() {
                    course.dropped.push(number);
                }
                at += 1;
            }
            if let Some(ending) = self.look_at_orders(course) {
                return Some(ending);
            }
        }
        course.place += contents.iter().filter(|content| content.number().is_some()).count() as u64;
        None
    }

    /// Says what was sent.
    fn report(
        &mut self,
        course: Course<'_>,
        plan: &Plan,
        seed: u64,
        ending: Ending,
        thief: Option<Thief>,
    ) -> anyhow::Result<()> {
        let secs = course.first_sent.map_or(0.0, |first| first.elapsed().as_secs_f64());
        let mut delivered = course.delivered;
        let mut stolen = Ranges::default();
        if let Some(thief) = thief {
            for number in thief.stop() {
                delivered.take(number);
                stolen.push(number);
            }
        }
        let facts = &course.series.facts;
        if let Some(log) = &mut self.log {
            log.add(&SeriesLog {
                series: facts.id,
                unique_id: &facts.unique_id,
                version: course.series.version.to_string(),
                frames: plan.num_frames(),
                seed,
                hits: plan.hits.iter().map(|(fault, numbers)| (fault.name(), numbers.as_slice())).collect(),
                absent: course.absent.into_inner(),
                dropped: course.dropped.into_inner(),
                stolen: stolen.into_inner(),
                holes: delivered.holes(),
                ending: ending.name(),
            })?;
        }
        let rate = if secs > 0.0 { course.sent as f64 / secs } else { 0.0 };
        print(&format!(
            "series {}: {} frames sent, {} messages dropped, {secs:.3} s, {rate:.0} frames/s, {}",
            facts.id,
            course.sent,
            course.num_dropped,
            ending.name()
        ))
    }
}

fn bind(address: SocketAddr, patience: Duration) -> anyhow::Result<PushSocket> {
    PushSocket::bind(address, patience).with_context(|| format!("the stream cannot listen on {address}"))
}
