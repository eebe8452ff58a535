//! Numbers for Prometheus, in its text format.

use std::fmt::Write;

use super::hub::Hub;
use crate::doctor::peak_memory_bytes;

/// Every metric: `# HELP`, `# TYPE`, value.
pub(super) fn text(hub: &Hub) -> String {
    let receive = &hub.receive;
    let counts = hub.live_counts();
    let newest = hub.newest();
    let held = newest.as_ref().and_then(|series| series.held_bytes()).unwrap_or(0);
    let counters = [
        ("messages_total", "Messages received from the detector.", receive.messages.get()),
        ("bytes_total", "Bytes received from the detector.", receive.bytes.get()),
        ("connections_total", "Connections to the detector that were made.", receive.connections.get()),
        (
            "connection_failures_total",
            "Connections that ended or did not come about.",
            receive.failures.get(),
        ),
        (
            "ring_full_total",
            "Times the receiver waited because everything downstream was full.",
            receive.ring_full.get(),
        ),
        ("recorded_total", "Messages taken in by the recorder.", hub.recorded.received.get()),
        ("durable_total", "Messages that were synced to the disk.", hub.recorded.durable.get()),
        ("not_saved_total", "Messages that are not in the log, or may not be.", hub.not_saved()),
        (
            "removed_segments_total",
            "Segments of the log that were removed to keep within the quota.",
            hub.recorded.removed_segments.get(),
        ),
        ("garbage_total", "Messages that were not understood.", hub.garbage.get()),
    ];
    let gauges = [
        ("connected", "1 while there is a connection to the detector.", u64::from(receive.is_connected())),
        ("series_frames", "Frames of the newest series that came and are used.", counts.frames),
        ("series_doubled", "Frames of the newest series that came twice.", counts.doubled),
        ("series_late", "Frames of the newest series that came after they were given up.", counts.late),
        ("series_stale", "Messages of series that were over.", counts.stale),
        ("resident_bytes", "Bytes of the encoded resident.", held),
        ("peak_memory_bytes", "Most memory the process has taken.", peak_memory_bytes().unwrap_or(0)),
    ];
    let dropped = hub.watch.said().dropped;
    let dropped =
        dropped.map(|dropped| ("detector_dropped", "Messages the detector dropped, as it says.", dropped));
    let gauges: Vec<_> = gauges.into_iter().chain(dropped).collect();
    let mut text = String::new();
    for (kind, metrics) in [("counter", counters.as_slice()), ("gauge", gauges.as_slice())] {
        for (name, help, value) in metrics {
            // writing to a string does not fail
            let _ = write!(
                text,
                "# HELP sideband_{name} {help}\n# TYPE sideband_{name} {kind}\nsideband_{name} {value}\n"
            );
        }
    }
    let nanos = |nanos: u64| nanos as f64 * 1e-9;
    let part = |thousandths: u64| thousandths as f64 * 1e-3;
    let (waits, used) = (&receive.waits, &receive.ring_used);
    let distributions = [
        (
            "ingest_wait_p50_seconds",
            "Median of the time from a message in memory to its reader.",
            nanos(waits.quantile(0.5)),
        ),
        (
            "ingest_wait_p99_seconds",
            "What 99 in 100 messages do not exceed of it.",
            nanos(waits.quantile(0.99)),
        ),
        ("ingest_wait_max_seconds", "The longest of these times.", nanos(waits.most())),
        ("ring_used_p50", "Median of the part of the ring that is under way.", part(used.quantile(0.5))),
        (
            "ring_used_p99",
            "The part of the ring that is not exceeded 99 times in 100.",
            part(used.quantile(0.99)),
        ),
        ("ring_used_max", "The largest part of the ring that was under way.", part(used.most())),
    ];
    for (name, help, value) in distributions {
        let _ = write!(
            text,
            "# HELP sideband_{name} {help}\n# TYPE sideband_{name} gauge\nsideband_{name} {value}\n"
        );
    }
    text
}
