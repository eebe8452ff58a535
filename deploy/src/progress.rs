//! How a run tells a person where it is: a bar on a terminal, a line now and then elsewhere, nothing when quiet.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Time between two plain lines.
const LINE_EVERY: Duration = Duration::from_secs(3);

/// Time of the first plain line, if a frame has come by then: a person who waits knows early that it works.
const FIRST_LINE: Duration = Duration::from_millis(500);

/// Where words about the progress go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voice {
    /// Nowhere.
    Quiet,
    /// One line every few seconds: logs, pipes.
    Lines,
    /// A bar that is redrawn: a terminal.
    Bar,
}

impl Voice {
    /// A bar on a terminal, lines elsewhere, nothing when `quiet`.
    pub fn for_stderr(quiet: bool) -> Self {
        match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Self::Quiet,
            (false, true) => Self::Bar,
            (false, false) => Self::Lines,
        }
    }
}

/// The progress of one run over its frames. Every method may be called from any thread.
pub struct Progress {
    total: u64,
    received: AtomicU64,
    missing: AtomicU64,
    started: Instant,
    bar: Option<ProgressBar>,
    lines: Option<Lines>,
}

/// Plain lines, the first after [`FIRST_LINE`], then at most one every [`LINE_EVERY`].
struct Lines {
    out: Mutex<Box<dyn Write + Send>>,
    next_millis: AtomicU64,
}

impl Progress {
    /// A run over `total` frames, told on stderr.
    pub fn new(total: u64, voice: Voice) -> Self {
        Self::told_to(total, voice, Box::new(std::io::stderr()))
    }

    fn told_to(total: u64, voice: Voice, out: Box<dyn Write + Send>) -> Self {
        let bar = (voice == Voice::Bar).then(|| {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(10));
            let style = ProgressStyle::with_template("{bar:32} {percent:>3} %  {msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        let lines = (voice == Voice::Lines).then(|| Lines {
            out: Mutex::new(out),
            next_millis: AtomicU64::new(FIRST_LINE.as_millis() as u64),
        });
        Self {
            total,
            received: AtomicU64::new(0),
            missing: AtomicU64::new(0),
            started: Instant::now(),
            bar,
            lines,
        }
    }

    /// Counts frames that arrived whole.
    pub fn add_received(&self, frames: u64) {
        self.received.fetch_add(frames, Ordering::Relaxed);
        self.tell();
    }

    /// Counts frames that will not come.
    pub fn add_missing(&self, frames: u64) {
        self.missing.fetch_add(frames, Ordering::Relaxed);
        self.tell();
    }

    /// Says one sentence, without disturbing the bar.
    pub fn note(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.suspend(|| eprintln!("{text}"));
        }
        self.line(text);
    }

    /// Says that the frames are done and how it went.
    pub fn finish(&self) {
        let text = self.summary(self.started.elapsed());
        match &self.bar {
            Some(bar) => {
                bar.finish_and_clear();
                eprintln!("{text}");
            }
            None => self.line(&text),
        }
    }

    fn tell(&self) {
        let elapsed = self.started.elapsed();
        let counts = self.counts();
        if let Some(bar) = &self.bar {
            bar.set_position(counts.done());
            bar.set_message(counts.words(elapsed));
        }
        let Some(lines) = &self.lines else { return };
        let now = elapsed.as_millis() as u64;
        let due = lines.next_millis.load(Ordering::Relaxed);
        let next = now + LINE_EVERY.as_millis() as u64;
        // Of the threads that find a line due, the one that moves the clock writes it.
        if counts.done() > 0
            && now >= due
            && lines.next_millis.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            self.line(&format!("{} of {} frames, {}", counts.received, counts.total, counts.words(elapsed)));
        }
    }

    fn line(&self, text: &str) {
        if let Some(mut out) = self.lines.as_ref().and_then(|lines| lines.out.lock().ok()) {
            // A closed stderr is no reason to lose a reconstruction.
            let _ = writeln!(out, "{text}");
        }
    }

    fn counts(&self) -> Counts {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts { total: self.total, received: load(&self.received), missing: load(&self.missing) }
    }

    fn summary(&self, elapsed: Duration) -> String {
        let counts = self.counts();
        let secs = elapsed.as_secs_f64();
        let missing = match counts.missing {
            0 => "none missing".to_owned(),
            some => format!("{some} MISSING"),
        };
        format!("{} of {} frames in {secs:.1} s, {missing}", counts.received, counts.total)
    }
}

/// The counters at one moment.
#[derive(Clone, Copy)]
struct Counts {
    total: u64,
    received: u64,
    missing: u64,
}

impl Counts {
    fn done(self) -> u64 {
        self.received.saturating_add(self.missing)
    }

    /// Rate, frames missing, time left.
    fn words(self, elapsed: Duration) -> String {
        let secs = elapsed.as_secs_f64();
        let rate = if secs > 0.0 { self.received as f64 / secs } else { 0.0 };
        let done = self.done();
        let left = match done {
            0 => "?".to_owned(),
            some => clock(secs / some as f64 * self.total.saturating_sub(some) as f64),
        };
        format!("{rate:.0} frames/s, {} missing, {left} left", self.missing)
    }
}

/// Seconds as a person reads them: `42 s`, `3:07 min`, `1:02:03 h`.
fn clock(secs: f64) -> String {
    let whole = secs.ceil() as u64;
    match whole {
        0..60 => format!("{whole} s"),
        60..3600 => format!("{}:{:02} min", whole / 60, whole % 60),
        _ => format!("{}:{:02}:{:02} h", whole / 3600, whole / 60 % 60, whole % 60),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl Page {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    #[test]
    fn words_give_rate_missing_and_time_left() {
        let counts = Counts { total: 1000, received: 240, missing: 10 };
        assert_eq!(counts.words(Duration::from_secs(2)), "120 frames/s, 10 missing, 6 s left");
        let nothing = Counts { total: 1000, received: 0, missing: 0 };
        assert_eq!(nothing.words(Duration::ZERO), "0 frames/s, 0 missing, ? left");
    }

    #[test]
    fn time_is_read_at_a_glance() {
        assert_eq!([59.2, 60.5, 187.0, 3723.0].map(clock), ["1:00 min", "1:01 min", "3:07 min", "1:02:03 h"]);
        assert_eq!(clock(41.1), "42 s");
    }

    #[test]
    fn a_log_gets_notes_and_a_summary_but_not_a_line_a_frame() {
        let page = Page::default();
        let progress = Progress::told_to(100, Voice::Lines, Box::new(page.clone()));
        (0..98).for_each(|_| progress.add_received(1));
        progress.add_missing(2);
        progress.note("bright field found");
        progress.finish();
        let text = page.text();
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.starts_with("bright field found\n98 of 100 frames in "), "{text}");
        assert!(text.ends_with("2 MISSING\n"), "{text}");
    }

    /// Frames that will never come were once counted as arrived: a run without half of its files told of all frames.
    #[test]
    fn a_line_counts_what_arrived_apart_from_what_is_missing() {
        let page = Page::default();
        let progress = Progress::told_to(100, Voice::Lines, Box::new(page.clone()));
        progress.lines.as_ref().unwrap().next_millis.store(0, Ordering::Relaxed);
        progress.add_missing(60);
        assert!(page.text().starts_with("0 of 100 frames, 0 frames/s, 60 missing"), "{}", page.text());
    }

    #[test]
    fn quiet_says_nothing() {
        let page = Page::default();
        let progress = Progress::told_to(1, Voice::Quiet, Box::new(page.clone()));
        progress.add_received(1);
        progress.note("note");
        progress.finish();
        assert_eq!(page.text(), "");
    }
}
