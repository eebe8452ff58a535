mod again;
mod channels;
mod strays;

use crossbeam_channel::bounded;
use kernels::bslz4_decode::Encoding;

use super::super::compose::{SeriesFacts, Version};
use super::super::push::{PushSocket, Sent, WireMessage};
use super::super::receive::{ReceiveCounters, ReceiveSettings, ReceiveStage};
use super::*;

fn facts(id: u64, num_images: u64) -> SeriesFacts {
    SeriesFacts {
        id,
        unique_id: format!("{id:026}"),
        num_images,
        detector: DetectorShape { rows: 96, cols: 192 },
        count_type: CountType::U16,
        encoding: Encoding::Bslz4,
        incident_energy_ev: 300_000.0,
        frame_time_s: 1e-5,
    }
}

fn bytes_of(id: u64, number: u64) -> Vec<u8> {
    (0..200 + number % 50).map(|at| (at * id + number) as u8).collect()
}

/// A channel as it came: its frames (nothing where missing), its end.
type Came = (Vec<Option<Vec<u8>>>, Option<SeriesEnd>);

/// Reads every channel of the next series; nothing where none comes.
fn next_with_all_channels(source: &mut StreamSource) -> Option<(Announced, Vec<Came>)> {
    let announced = source.next_series(|_| ())?;
    let (mut readings, mut frames_in) = (Vec::new(), Vec::new());
    for channel in &announced.channels {
        let (frames, came) = bounded(1000);
        let settings = announced.of_channel(channel).reading(announced.num_images.unwrap_or(100));
        let settings = SeriesSettings { silence: Duration::from_secs(2), ..settings };
        readings.push(ChannelReading { settings, frames, counts: Arc::default() });
        frames_in.push(came);
    }
    let ends = source.read_channels(readings);
    source.pass_over(announced.key.clone());
    let came = frames_in.into_iter().map(|items| items.into_iter().fold(Vec::new(), with_item));
    Some((announced, came.zip(ends).collect()))
}

/// Adds frames, or nothing for each that is missing.
fn with_item(mut came: Vec<Option<Vec<u8>>>, item: Item<RawBatch>) -> Vec<Option<Vec<u8>>> {
    match item {
        Item::Data(batch) => came.extend(batch.frames().map(|frame| Some(frame.to_vec()))),
        Item::Gap(gap) => came.resize(came.len() + gap.count as usize, None),
    }
    came
}

/// Sends messages over the loopback to a source; returns so many series, all of their channels, and what was said.
fn all_channels(messages: &[WireMessage], num_series: usize) -> (Vec<(Announced, Vec<Came>)>, Vec<Notice>) {
    let mut socket = PushSocket::bind("127.0.0.1:0", Duration::from_secs(5)).unwrap();
    let settings = ReceiveSettings::new(socket.address().unwrap().to_string());
    let stop = Arc::new(AtomicBool::new(false));
    let (stage, received) = ReceiveStage::new(settings, Arc::default(), stop.clone());
    let mut source = StreamSource::new(received, stop.clone());
    let said = Arc::new(std::sync::Mutex::new(Vec::new()));
    let told = said.clone();
    source.on_notice(move |notice| told.lock().unwrap().push(notice.clone()));
    let series = std::thread::scope(|scope| {
        scope.spawn(|| stage.run());
        scope.spawn(|| {
            while socket.num_readers() == 0 {
                socket.accept();
            }
            assert!(messages.iter().all(|message| socket.send(message) == Sent::Yes));
        });
        let series = (0..num_series).map(|_| next_with_all_channels(&mut source).unwrap()).collect();
        stop.store(true, Relaxed);
        series
    });
    let said = said.lock().unwrap().clone();
    (series, said)
}

/// What came of one series: its announcement, its frames (nothing where missing), its end.
type Series = (Announced, Vec<Option<Vec<u8>>>, SeriesEnd);

/// A detector and what listens to it; `detector` is given the socket once somebody listens.
fn listen(
    num_series: usize,
    settings: impl Fn(&mut ReceiveSettings) + Send,
    detector: impl FnOnce(&mut PushSocket) + Send,
) -> (Vec<Series>, Arc<ReceiveCounters>, u64) {
    let mut socket = PushSocket::bind("127.0.0.1:0", Duration::from_secs(5)).unwrap();
    let mut receive = ReceiveSettings::new(socket.address().unwrap().to_string());
    (receive.slabs, receive.slab_bytes) = (4, 10_000);
    settings(&mut receive);
    let (stop, counters) = (Arc::new(AtomicBool::new(false)), Arc::new(ReceiveCounters::default()));
    let (stage, received) = ReceiveStage::new(receive, counters.clone(), stop.clone());
    let mut source = StreamSource::new(received, stop.clone());
    let series = std::thread::scope(|scope| {
        scope.spawn(|| stage.run());
        scope.spawn(|| {
            while socket.num_readers() == 0 {
                socket.accept();
            }
            detector(&mut socket);
        });
        let series = (0..num_series)
            .map(|_| {
                let announced = source.next_series(|_| ()).unwrap();
                let num_frames = announced.num_images.unwrap_or(1000);
                let (frames, frames_in) = bounded(1000);
                let settings =
                    SeriesSettings { silence: Duration::from_secs(2), ..announced.reading(num_frames) };
                let end = source.read_series(settings, &frames).unwrap();
                drop(frames);
                let mut came = Vec::new();
                for item in frames_in {
                    match item {
                        Item::Data(batch) => came.extend(batch.frames().map(|frame| Some(frame.to_vec()))),
                        Item::Gap(gap) => came.resize(came.len() + gap.count as usize, None),
                    }
                }
                (announced, came, end)
            })
            .collect();
        stop.store(true, Relaxed);
        series
    });
    let garbage = source.garbage().get();
    (series, counters, garbage)
}

#[test]
fn series_after_series_comes_over_the_wire_in_both_versions() {
    for version in [Version::V1, Version::V2] {
        let (series, counters, garbage) = listen(
            3,
            |_| (),
            |socket| {
                for id in 1..=3 {
                    let facts = facts(id, 700);
                    socket.send(&facts.start(version));
                    for number in 0..700 {
                        assert_eq!(
                            socket.send(&facts.image(version, number, &bytes_of(id, number))),
                            Sent::Yes
                        );
                    }
                    socket.send(&facts.end(version));
                }
            },
        );
        for (id, (announced, came, end)) in (1..).zip(&series) {
            assert_eq!((announced.key.id, announced.num_images), (id, Some(700)));
            assert_eq!(end.ending, Ending::Complete);
            let expected: Vec<_> = (0..700).map(|number| Some(bytes_of(id, number))).collect();
            assert!(*came == expected, "series {id}, {version:?}");
        }
        assert_eq!((counters.messages.get(), garbage), (3 * 702, 0));
    }
}

#[test]
fn a_sender_that_goes_and_comes_back_loses_only_what_it_sent_to_nobody() {
    let (series, counters, _) = listen(
        1,
        |_| (),
        |socket| {
            let facts = facts(4, 300);
            socket.send(&facts.start(Version::V2));
            for number in 0..300 {
                if number == 100 || number == 200 {
                    // what was written is read before the connection is cut
                    std::thread::sleep(Duration::from_millis(200));
                    socket.disconnect();
                }
                assert_eq!(socket.send(&facts.image(Version::V2, number, &bytes_of(4, number))), Sent::Yes);
            }
        },
    );
    let (_, came, end) = &series[0];
    assert_eq!(end.ending, Ending::Complete);
    assert!(came.iter().zip(0..).all(|(came, number)| *came == Some(bytes_of(4, number))));
    assert_eq!(counters.connections.get(), 3);
}

#[test]
fn garbage_between_frames_is_counted_and_harms_nothing() {
    let (series, _, garbage) = listen(
        1,
        |_| (),
        |socket| {
            let facts = facts(5, 100);
            for number in 0..100 {
                socket.send(&facts.image(Version::V1, number, &bytes_of(5, number)));
                let garbage: [&[&[u8]]; 4] =
                    [&[b"{\"htype\":"], &[&[0xd9, 0xd9, 0xf7, 0xa9]], &[&[0; 5000], b"x"], &[b""]];
                socket.send(&WireMessage::new(garbage[number as usize % 4]));
            }
            socket.send(&facts.end(Version::V1));
        },
    );
    let (announced, came, end) = &series[0];
    // joined late: no start was seen
    assert_eq!((announced.num_images, announced.count_type), (None, Some(CountType::U16)));
    assert_eq!(end.ending, Ending::EndOfSeries);
    assert_eq!((came.iter().flatten().count(), end.counts.frames, garbage), (100, 100, 100));
}

#[test]
fn a_message_longer_than_a_slab_comes_through() {
    let long = vec![7; 100_000];
    let (series, _, _) = listen(
        1,
        |_| (),
        |socket| {
            let facts = facts(6, 3);
            socket.send(&facts.image(Version::V2, 0, &bytes_of(6, 0)));
            socket.send(&facts.image(Version::V2, 1, &vec![7; 100_000]));
            socket.send(&facts.image(Version::V2, 2, &bytes_of(6, 2)));
            socket.send(&facts.end(Version::V2));
        },
    );
    let (_, came, _) = &series[0];
    assert_eq!(came[..3], [Some(bytes_of(6, 0)), Some(long), Some(bytes_of(6, 2))]);
}

#[test]
fn a_series_that_was_armed_and_cancelled_is_heard_and_passed_over() {
    let mut socket = PushSocket::bind("127.0.0.1:0", Duration::from_secs(5)).unwrap();
    let settings = ReceiveSettings::new(socket.address().unwrap().to_string());
    let stop = Arc::new(AtomicBool::new(false));
    let (stage, received) = ReceiveStage::new(settings, Arc::default(), stop.clone());
    let mut source = StreamSource::new(received, stop.clone());
    std::thread::scope(|scope| {
        scope.spawn(|| stage.run());
        scope.spawn(|| {
            while socket.num_readers() == 0 {
                socket.accept();
            }
            socket.send(&facts(7, 10).start(Version::V2));
            socket.send(&facts(7, 10).end(Version::V2));
            socket.send(&facts(8, 20).start(Version::V2));
            // of the series before, overtaken by the end
            socket.send(&facts(7, 10).image(Version::V2, 0, &bytes_of(7, 0)));
            socket.send(&facts(8, 20).image(Version::V2, 3, &bytes_of(8, 3)));
        });
        let mut heard = Vec::new();
        let announced = source.next_series(|armed| heard.push(armed.key.id)).unwrap();
        assert_eq!(heard, [7, 8]);
        assert_eq!((announced.key.id, announced.num_images), (8, Some(20)));
        assert_eq!((announced.count_type, announced.incident_energy_ev), (Some(CountType::U16), None));
        stop.store(true, Relaxed);
    });
}

#[test]
fn frames_that_overtook_a_missing_one_are_not_lost_when_nothing_more_can_come() {
    let messages: Vec<WireMessage> =
        [0, 1, 3, 4].map(|number| facts(9, 6).image(Version::V2, number, &bytes_of(9, number))).into();
    let (slabs, slabs_in) = bounded(1);
    let (spent, _spent_in) = bounded(1);
    slabs.send(super::super::zmtp::tests::listed(&messages)).unwrap();
    drop(slabs);
    let mut source = StreamSource::new(Received { slabs: slabs_in, spent }, Arc::default());
    assert_eq!(source.next_series(|_| ()).unwrap().key.id, 9);
    let (frames, frames_in) = bounded(10);
    let end = source.read_series(SeriesSettings::new(6), &frames).unwrap();
    drop(frames);
    assert_eq!((end.ending, end.counts.frames), (Ending::Closed, 4));
    let mut came = Vec::new();
    for item in frames_in {
        match item {
            Item::Data(batch) => came.extend(batch.first..batch.end()),
            Item::Gap(gap) => assert!([2, 5].contains(&gap.first) && gap.count == 1, "{gap:?}"),
        }
    }
    assert_eq!(came, [0, 1, 3, 4]);
}

#[test]
fn a_detector_that_restarts_and_counts_from_one_again_is_not_passed_over() {
    let (series, _, _) = listen(
        3,
        |_| (),
        |socket| {
            let facts = facts(1, 50);
            // complete; broken off; complete: the same number each time
            for frames in [0..50, 0..30, 0..50] {
                socket.send(&facts.start(Version::V1));
                socket.send(&facts.start(Version::V1));
                for number in frames.clone() {
                    socket.send(&facts.image(Version::V1, number, &bytes_of(1, number)));
                }
                if frames.end == 50 {
                    socket.send(&facts.end(Version::V1));
                }
            }
        },
    );
    let ends: Vec<_> = series.iter().map(|(_, _, end)| (end.ending.clone(), end.counts.frames)).collect();
    assert_eq!(ends, [(Ending::Complete, 50), (Ending::NextSeries, 30), (Ending::Complete, 50)]);
}

#[test]
fn a_first_frame_of_another_shape_than_the_start_said_decides_nothing() {
    let (series, _, _) = listen(
        1,
        |_| (),
        |socket| {
            let facts = facts(3, 40);
            let odd = SeriesFacts { detector: DetectorShape { rows: 97, cols: 192 }, ..facts.clone() };
            socket.send(&facts.start(Version::V2));
            socket.send(&odd.image(Version::V2, 0, &bytes_of(3, 0)));
            for number in 1..40 {
                socket.send(&facts.image(Version::V2, number, &bytes_of(3, number)));
            }
            socket.send(&facts.end(Version::V2));
        },
    );
    let (announced, came, _) = &series[0];
    assert_eq!(announced.detector, Some(DetectorShape { rows: 96, cols: 192 }));
    assert!(came[0].is_none() && came[1..].iter().all(Option::is_some));
}

#[test]
fn a_first_frame_of_another_type_decides_nothing_whether_the_start_came_or_not() {
    for has_start in [true, false] {
        for version in [Version::V1, Version::V2] {
            let (series, _, _) = listen(
                1,
                |_| (),
                |socket| {
                    let facts = facts(3, 40);
                    let odd = SeriesFacts { count_type: CountType::U32, ..facts.clone() };
                    if has_start {
                        socket.send(&facts.start(version));
                    }
                    socket.send(&odd.image(version, 0, &bytes_of(3, 0)));
                    for number in 1..40 {
                        socket.send(&facts.image(version, number, &bytes_of(3, number)));
                    }
                    socket.send(&facts.end(version));
                },
            );
            let (announced, came, end) = &series[0];
            assert_eq!(announced.count_type, Some(CountType::U16), "{version:?}, {has_start}");
            assert!(came[0].is_none() && came[1..40].iter().all(Option::is_some), "{version:?}, {has_start}");
            assert_eq!(end.counts.unlike, 1);
        }
    }
}
