//! The append stage: blocks and gaps in, what has become possible out.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender};
use encoder::Encoded;
use kernels::types::Item;

use crate::error::ResidentError;
use crate::resident::Resident;
use crate::snapshot::Snapshot;
use crate::trigger::{Signal, Trigger};

/// Something has become possible, with the data as it stood at that moment.
#[derive(Clone, Debug)]
pub struct Event {
    /// What.
    pub signal: Signal,
    /// Everything that had arrived then; for [`Signal::Geometry`] its totals are those to measure.
    pub snapshot: Snapshot,
}

/// Keeps every block that comes, shows those that are still filling, and tells the reconstruction what it may start.
#[derive(Debug)]
pub struct AppendStage {
    resident: Arc<Resident>,
    trigger: Trigger,
}

impl AppendStage {
    /// A stage that fills `resident`, in which nothing is held yet.
    pub fn new(resident: Arc<Resident>) -> Self {
        let trigger = Trigger::new(resident.snapshot().geometry());
        Self { resident, trigger }
    }

    /// Appends until the input ends, then signals what is still to be signalled; ends early, in good order, when nobody
    /// listens any more.
    ///
    /// # Errors
    /// [`ResidentError`] from [`Resident::append`] and [`Resident::show`]. No completion is signalled then; what was held before stays, for
    /// everyone who has the resident.
    pub fn run(
        mut self,
        blocks: Receiver<Item<Encoded>>,
        events: Sender<Event>,
    ) -> Result<(), ResidentError> {
        for item in blocks {
            let arrival = match item {
                Item::Data(Encoded::Whole(block)) => self.resident.append(block)?,
                Item::Data(Encoded::SoFar(block)) => self.resident.show(block)?,
                Item::Gap(gap) => self.resident.mark_missing(&gap),
            };
            let signals = self.trigger.arrived(&arrival);
            if !self.send(signals, &events) {
                return Ok(());
            }
        }
        let snapshot = self.resident.snapshot();
        let signals = self.trigger.ended(snapshot.totals().frames, |row| {
            snapshot.coverage(snapshot.row(row)).map_or(0, |coverage| coverage.num_missing())
        });
        self.send(signals, &events);
        Ok(())
    }

    /// False when nobody listens.
    fn send(&self, signals: Vec<Signal>, events: &Sender<Event>) -> bool {
        if signals.is_empty() {
            return true;
        }
        let snapshot = self.resident.snapshot();
        signals.into_iter().all(|signal| events.send(Event { signal, snapshot: snapshot.clone() }).is_ok())
    }
}
