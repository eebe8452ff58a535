use std::path::PathBuf;

use super::*;

/// A real message of an EIGER2 Si 16M; nothing, said aloud, where the test data is not there.
fn real(name: &str) -> Option<Vec<u8>> {
    let Some(folder) = std::env::var_os("SIDEBAND_GOLDENS") else {
        eprintln!("not run: SIDEBAND_GOLDENS is not set");
        return None;
    };
    Some(std::fs::read(PathBuf::from(folder).join("tickit-eiger").join(name)).expect("a golden"))
}

fn parse_parts<'a>(parts: &[&'a [u8]]) -> Result<Message<'a>, MessageError> {
    parse(parts.iter().copied())
}

#[test]
fn real_messages_of_stream_v2_are_understood() {
    let (Some(start), Some(image), Some(end)) = (real("start.cbor"), real("image.cbor"), real("end.cbor"))
    else {
        return;
    };
    let Message::Image(image) = parse_parts(&[&image]).unwrap() else { panic!("no image") };
    let channels: Vec<_> = image.channels().collect();
    assert_eq!(channels.len(), 1);
    assert_eq!(channels[0].name, "threshold_1");
    assert_eq!(channels[0].detector, DetectorShape { rows: 4362, cols: 4148 });
    assert_eq!((channels[0].count_type, channels[0].packed.encoding), (CountType::U16, Encoding::Bslz4));
    let mut counts = vec![0_u16; channels[0].detector.pixels()];
    kernels::bslz4_decode::decode_frame(Encoding::Bslz4, channels[0].packed.bytes, &mut counts).unwrap();
    let Message::End(key) = parse_parts(&[&end]).unwrap() else { panic!("no end") };
    assert_eq!(key, image.series);
    assert_eq!(key.unique_id.map(str::len), Some(26));
    let Message::Start(start) = parse_parts(&[&start]).unwrap() else { panic!("no start") };
    assert_eq!(start.detector, Some(channels[0].detector));
    assert_eq!(start.channels, ["threshold_1"]);
    assert!(start.incident_energy_ev.is_some() && start.num_images.is_some());
}

#[test]
fn a_real_message_cut_at_any_length_or_changed_anywhere_is_an_error_or_a_message() {
    let Some(start) = real("start.cbor") else { return };
    for end in 0..start.len() {
        assert!(parse_parts(&[&start[..end]]).is_err(), "cut at {end}");
    }
    for at in 0..start.len() {
        for bit in 0..8 {
            let mut bytes = start.clone();
            bytes[at] ^= 1 << bit;
            // whatever it says: no panic
            let _ = parse_parts(&[&bytes]);
        }
    }
}

const IMAGE: &[u8] =
    br#"{"frame":7,"hash":"385db6946033c3d5d79ef6fe6fb01b69","htype":"dimage-1.0","series":14}"#;
const BLOB: &[u8] =
    br#"{"encoding":"bs16-lz4<","htype":"dimage_d-1.0","shape":[1030,1065],"size":3,"type":"uint16"}"#;
const TIMES: &[u8] = br#"{"htype":"dconfig-1.0","real_time":1,"start_time":2,"stop_time":3}"#;

#[test]
fn an_image_of_stream_v1_has_its_columns_first() {
    let Message::Image(image) = parse_parts(&[IMAGE, BLOB, b"abc", TIMES]).unwrap() else { panic!() };
    assert_eq!((image.series, image.number), (SeriesKey { id: 14, unique_id: None }, 7));
    let channel = image.channels().next().unwrap();
    assert_eq!(channel.detector, DetectorShape { rows: 1065, cols: 1030 });
    assert_eq!(channel.packed, Packed { encoding: Encoding::Bslz4, bytes: b"abc" });
    // with an appendix
    assert!(parse_parts(&[IMAGE, BLOB, b"abc", TIMES, b"anything"]).is_ok());
}

#[test]
fn what_is_wrong_with_an_image_of_stream_v1_is_named() {
    let error = |parts: &[&[u8]]| parse_parts(parts).unwrap_err().to_string();
    assert!(error(&[IMAGE, BLOB, b"abc"]).contains("got 3 parts"));
    assert!(error(&[IMAGE, BLOB, b"abcd", TIMES]).contains("4 bytes, expected the 3"));
    let with =
        |from: &str, to: &str| String::from_utf8(BLOB.to_vec()).unwrap().replace(from, to).into_bytes();
    for (from, to, says) in [
        ("bs16", "bs32", "bs32-lz4<"),
        ("lz4<", "lz4>", "bs16-lz4>"),
        ("uint16", "float32", "float32"),
        ("1030,1065", "0,1065", "[1065, 0]"),
        ("1030,1065", "1030,99999999", "99999999"),
        ("1030,1065", "1030", "part 2"),
    ] {
        assert!(error(&[IMAGE, &with(from, to), b"abc", TIMES]).contains(says), "{to}");
    }
    assert!(error(&[br#"{"htype":"dimage-1.0","series":1}"#, BLOB, b"abc", TIMES]).contains("no frame"));
    assert!(error(&[br#"{"htype":"dother-1.0","series":1}"#]).contains("dother"));
    assert!(error(&[b"{"]).contains("part 1"));
    assert!(error(&[]).contains("empty") && error(&[b""]).contains("empty"));
    assert!(error(&[b"\x00\x01garbage"]).contains("begins with"));
}

#[test]
fn encodings_of_stream_v1_are_told_apart() {
    for (encoding, expected) in [
        ("<", Encoding::Raw),
        ("lz4<", Encoding::Lz4Block),
        ("bs16-lz4<", Encoding::Bslz4),
        ("bs16lz4<", Encoding::Bslz4),
    ] {
        let blob = String::from_utf8(BLOB.to_vec()).unwrap().replace("bs16-lz4<", encoding);
        let blob = blob.into_bytes();
        let Message::Image(image) = parse_parts(&[IMAGE, &blob, b"abc", TIMES]).unwrap() else { panic!() };
        assert_eq!(image.channels().next().unwrap().packed.encoding, expected);
    }
}

#[test]
fn a_start_of_stream_v1_says_what_its_detail_allows() {
    let head = |detail: &str| format!(r#"{{"header_detail":"{detail}","htype":"dheader-1.0","series":14}}"#);
    let config = br#"{"nimages":3,"ntrigger":4,"photon_energy":300000.0,"x_pixels_in_detector":192,
        "y_pixels_in_detector":96,"beam_center_x":10.5,"beam_center_y":20,"unknown":[1,{}]}"#;
    let of = |parts: &[&[u8]]| match parse_parts(parts) {
        Ok(Message::Start(start)) => {
            (start.num_images, start.beam_centre, start.appendix.map(<[u8]>::to_vec))
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(of(&[head("none").as_bytes()]), (None, None, None));
    assert_eq!(of(&[head("none").as_bytes(), b"note"]), (None, None, Some(b"note".to_vec())));
    assert_eq!(of(&[head("basic").as_bytes(), config]), (Some(12), Some((20.0, 10.5)), None));
    let blob = br#"{"htype":"dpixelmask-1.0","shape":[2,1],"type":"uint32"}"#;
    let all: [&[u8]; 8] =
        [head("all").leak().as_bytes(), config, blob, b"flat", blob, b"maskmask", blob, b"table"];
    let Message::Start(start) = parse_parts(&all).unwrap() else { panic!() };
    assert_eq!(start.pixel_mask.map(|mask| mask.bytes), Some(b"maskmask".as_slice()));
    assert_eq!(start.detector, Some(DetectorShape { rows: 96, cols: 192 }));
    assert!(parse_parts(&all[..7]).unwrap_err().to_string().contains("8 or 9"));
}

#[test]
fn the_end_of_stream_v1_is_understood_with_and_without_its_d() {
    for htype in ["dseries_end-1.0", "series_end-1.0", "dseries_end-1.1"] {
        let end = format!(r#"{{"htype":"{htype}","series":14}}"#);
        assert_eq!(parse_parts(&[end.as_bytes()]), Ok(Message::End(SeriesKey { id: 14, unique_id: None })));
    }
}
