//! What the detector says of itself while the daemon listens: asked once a second, never told anything.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kernels::types::{DetectorShape, ScanShape};
use serde_json::Value;

use crate::request::StopFlag;
use crate::simplon::Simplon;

/// From one question to the next.
const EVERY: Duration = Duration::from_secs(1);
/// How often the stop flag is looked at meanwhile.
const TICK: Duration = Duration::from_millis(50);

/// The last answers.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    /// `detector/status/state`.
    pub(super) state: Option<String>,
    /// `stream/status/dropped`: messages that nobody took.
    pub(super) dropped: Option<u64>,
    /// Images a trigger, triggers a series.
    pub(super) images: Option<(u64, u64)>,
    /// Its own mask, 0 is good, with its shape; asked whenever its state has changed.
    pub(super) pixel_mask: Option<Arc<([usize; 2], Vec<u32>)>>,
    /// The state in which the mask was asked for.
    mask_asked_in: Option<String>,
    /// Why there is no answer.
    pub(super) problem: Option<String>,
}

impl Said {
    /// Its mask, where it is of a detector of this shape.
    pub(super) fn mask_of(&self, detector: DetectorShape) -> Option<Vec<u32>> {
        let (shape, mask) = &**self.pixel_mask.as_ref()?;
        let DetectorShape { rows, cols } = detector;
        // told as [x, y] by some
        (*shape == [rows, cols] || *shape == [cols, rows]).then(|| mask.clone())
    }

    /// Lines x points a line, where the detector is set so: a trigger a line.
    pub(super) fn scan(&self) -> Option<ScanShape> {
        let (nimages, ntrigger) = self.images?;
        let more_than_one = |number: u64| usize::try_from(number).ok().filter(|&number| number > 1);
        Some(ScanShape { rows: more_than_one(ntrigger)?, cols: more_than_one(nimages)? })
    }
}

/// Asks the detector.
#[derive(Debug)]
pub(super) struct Watch {
    said: Mutex<Said>,
}

impl Watch {
    pub(super) fn new() -> Self {
        Self { said: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last answers.
    pub(super) fn said(&self) -> Said {
        self.lock().clone()
    }

    /// Asks until the stop flag is raised.
    pub(super) fn run(&self, detector: &Simplon, stop: &StopFlag) {
        while !stop.is_raised() {
            self.look(detector);
            for _ in 0..EVERY.as_millis() / TICK.as_millis() {
                if !stop.is_raised() {
                    std::thread::sleep(TICK);
                }
            }
        }
    }

    /// Asks when a series begins, for which the detector may just have been set otherwise: what it was set to before is not
    /// believed where it does not answer.
    pub(super) fn renew(&self, detector: &Simplon) {
        if !self.look(detector) {
            self.lock().images = None;
        }
    }

    /// Asks once; false where there is no answer.
    fn look(&self, detector: &Simplon) -> bool {
        let number = |module, kind, name| anyhow::Ok(detector.value(module, kind, name)?.as_u64());
        let asked = || {
            let state = detector.value("detector", "status", "state")?;
            let state = state.as_str().map(str::to_owned);
            let dropped = detector.value("stream", "status", "dropped")?;
            let dropped = number_dropped(&dropped);
            let nimages = number("detector", "config", "nimages")?;
            let ntrigger = number("detector", "config", "ntrigger")?;
            let before = self.said();
            let pixel_mask = match before.mask_asked_in.is_some() && before.mask_asked_in == state {
                true => before.pixel_mask,
                // one that does not tell its mask is no reason to know nothing of it
                false => detector.pixel_mask().ok().map(Arc::new),
            };
            let (images, mask_asked_in) = (nimages.zip(ntrigger), state.clone());
            anyhow::Ok(Said { state, dropped, images, pixel_mask, mask_asked_in, problem: None })
        };
        let answer = asked();
        let is_answered = answer.is_ok();
        match answer {
            Ok(said) => *self.lock() = said,
            Err(error) => {
                let mut said = self.lock();
                (said.state, said.problem) = (None, Some(format!("{error:#}")));
                said.mask_asked_in = None;
            }
        }
        is_answered
    }
}

/// How many were dropped: one number, or a list of them, one a channel, in some versions.
fn number_dropped(said: &Value) -> Option<u64> {
    match said {
        Value::Array(all) => Some(all.iter().filter_map(Value::as_u64).fold(0, u64::saturating_add)),
        one => one.as_u64(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use serde_json::json;

    use super::*;

    /// A unit that answers until it is asked for something it does not know; gives what it was asked.
    fn unit(listener: TcpListener) -> Vec<String> {
        let mut asked = Vec::new();
        loop {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).unwrap();
            let request = String::from_utf8_lossy(&request[..length]).into_owned();
            let path = request.split(' ').nth(1).unwrap_or_default();
            let name = path.rsplit('/').next().unwrap_or_default().to_owned();
            let value = match name.as_str() {
                "state" => "\"ready\"",
                "dropped" => "3",
                "nimages" | "ntrigger" => "64",
                "pixel_mask" => {
                    r#"{"__darray__":[1,0,0],"type":"|u1","shape":[1,3],"filters":["base64"],"data":"AAEC"}"#
                }
                _ => return asked,
            };
            asked.push(name);
            let body = format!("{{\"value\":{value}}}");
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        }
    }

    #[test]
    fn the_mask_is_asked_for_once_in_a_state_and_is_that_of_its_detector_alone() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let detector = Simplon::new(&listener.local_addr().unwrap().to_string());
        let unit = std::thread::spawn(move || unit(listener));
        let watch = Watch::new();
        watch.look(&detector);
        watch.look(&detector);
        let said = watch.said();
        assert_eq!((said.dropped, said.scan()), (Some(3), Some(ScanShape { rows: 64, cols: 64 })));
        assert_eq!(said.mask_of(DetectorShape { rows: 1, cols: 3 }), Some(vec![0, 1, 2]));
        assert_eq!(said.mask_of(DetectorShape { rows: 3, cols: 3 }), None);
        assert!(detector.value("detector", "config", "unknown").is_err());
        let asked = unit.join().unwrap();
        assert_eq!(asked.iter().filter(|name| *name == "pixel_mask").count(), 1);
        assert_eq!(asked.iter().filter(|name| *name == "dropped").count(), 2);
        // a series begins and the detector does not answer: it may be set otherwise by now
        watch.renew(&detector);
        assert_eq!(watch.said().scan(), None);
    }

    #[test]
    fn a_detector_that_says_nonsense_is_no_panic() {
        assert_eq!(number_dropped(&json!([3, 4, "x"])), Some(7));
        assert_eq!(number_dropped(&json!([u64::MAX, u64::MAX])), Some(u64::MAX));
        assert_eq!([number_dropped(&json!(-1)), number_dropped(&json!({}))], [None, None]);
        let scan = |images| Said { images: Some(images), ..Said::default() }.scan();
        assert_eq!(scan((1, 4096)), None);
        assert_eq!(scan((u64::MAX, u64::MAX)).unwrap().positions(), usize::MAX);
    }
}
