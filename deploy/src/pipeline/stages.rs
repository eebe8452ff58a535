//! The stages at work: a thread for each, a bounded channel between two.

use std::sync::Arc;
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::Instant;

use anyhow::Context;
use crossbeam_channel::{Receiver, Sender, bounded};
use encoder::{EncodeCounters, EncodeStage, Showing};
use ingest::counters::IngestCounters;
use ingest::decode::DecodeStage;
use ingest::raw::RawBatch;
use ingest::sequence::SequenceStage;
use kernels::reduce_frames::{ReduceFrames, ReducedBatch};
use kernels::types::Item;
use resident::{AppendStage, Event, Resident};

use super::Filled;
use super::ledger::Ledger;

/// Batches on their way between two stages.
const BATCHES_BETWEEN: usize = 4;

/// The stages at work, from the files to the consumer of the resident's events.
pub(super) struct Stages<'scope, E> {
    pub(super) counters: Arc<IngestCounters>,
    encode: Arc<EncodeCounters>,
    ledger: Arc<Ledger>,
    started: Instant,
    to_encode: Vec<ScopedJoinHandle<'scope, anyhow::Result<()>>>,
    append: ScopedJoinHandle<'scope, anyhow::Result<Instant>>,
    consumer: ScopedJoinHandle<'scope, E>,
}

/// Starts every stage, in the order in which data passes them. So many frames are expected, and shown before their block is
/// whole where that is wanted.
pub(super) fn start_stages<'scope, D, E: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    device: D,
    source: impl FnOnce(Sender<Item<RawBatch>>, Arc<IngestCounters>) + Send + 'scope,
    (frames_expected, showing): (u64, Option<Showing>),
    resident: &Arc<Resident>,
    consumer: impl FnOnce(Receiver<Event>) -> E + Send + 'scope,
) -> anyhow::Result<Stages<'scope, E>>
where
    D: ReduceFrames,
{
    let counters = Arc::new(IngestCounters::default());
    let ledger = Arc::new(Ledger::default());
    let (raw, raw_in) = bounded(BATCHES_BETWEEN);
    let (ordered, ordered_in) = bounded(BATCHES_BETWEEN);
    let (decoded, decoded_in) = bounded(BATCHES_BETWEEN);
    let (entered, entered_in) = bounded(1);
    let (blocks, blocks_in) = bounded(BATCHES_BETWEEN);
    // Events hold only a pointer to the resident; a consumer that lags must not hold up the encoder.
    let (events, events_in) = bounded(frames_expected.min(1 << 16) as usize + 8);

    let sequence = SequenceStage::new(frames_expected, counters.clone());
    let (spent, spent_in) = bounded(BATCHES_BETWEEN);
    let decode = DecodeStage::<ReducedBatch<D>>::new(device.clone(), counters.clone()).reusing(spent_in);
    let (book, source_counters) = (ledger.clone(), counters.clone());
    let encode = EncodeStage::new(device).with_positions(frames_expected).returning(spent);
    let encode = match showing {
        Some(showing) => encode.showing(showing),
        None => encode,
    };
    let encode_counters = encode.counters();
    let append = AppendStage::new(resident.clone());

    let named = |name: &str| Builder::new().name(name.to_owned());
    let no_thread = "no thread for a stage; is ulimit -v or ulimit -u too low?";
    let started = Instant::now();
    let to_encode = [
        named("ingest-source").spawn_scoped(scope, move || {
            source(raw, source_counters);
            Ok(())
        }),
        named("ingest-sequence").spawn_scoped(scope, move || {
            sequence.run(raw_in, ordered);
            Ok(())
        }),
        named("ingest-decode").spawn_scoped(scope, move || Ok(decode.run(ordered_in, decoded)?)),
        named("ledger").spawn_scoped(scope, move || {
            book.run(decoded_in, entered);
            Ok(())
        }),
        named("encode").spawn_scoped(scope, move || Ok(encode.run(entered_in, blocks)?)),
    ];
    let to_encode = to_encode.into_iter().collect::<Result<_, _>>().context(no_thread)?;
    let append = named("append").spawn_scoped(scope, move || {
        append.run(blocks_in, events)?;
        Ok(Instant::now())
    });
    let append = append.context(no_thread)?;
    let consumer = named("ssb-live").spawn_scoped(scope, move || consumer(events_in)).context(no_thread)?;
    Ok(Stages { counters, encode: encode_counters, ledger, started, to_encode, append, consumer })
}

impl<E> Stages<'_, E> {
    /// Waits for every stage.
    pub(super) fn finish(self) -> (anyhow::Result<Filled>, E) {
        let mut outcome = Ok(());
        for stage in self.to_encode {
            outcome = outcome.and(joined(stage));
        }
        let appended = joined(self.append);
        let consumed = match self.consumer.join() {
            Ok(consumed) => consumed,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        let filled = outcome.and(appended).map(|done| Filled {
            counters: self.counters,
            encode: self.encode,
            gaps: self.ledger.gaps(),
            elapsed: done.duration_since(self.started),
        });
        (filled, consumed)
    }
}

/// The result of a stage; a stage that panicked is our fault and ends the program as a panic.
fn joined<T>(stage: ScopedJoinHandle<'_, anyhow::Result<T>>) -> anyhow::Result<T> {
    match stage.join() {
        Ok(outcome) => outcome,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
