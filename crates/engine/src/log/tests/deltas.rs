//! Payloads that repeat parts of an earlier one.

use super::*;
use crate::log::format::{FRAGMENT_HEADER_BYTES, FragmentKind, MARKER_BYTES, claim};
use crate::log::inspect_on;
use crate::log::pool::directory::segment_path;

/// The kind of the fragment at an offset of a file.
fn kind(bytes: &[u8], offset: usize) -> FragmentKind {
    claim(&bytes[offset..]).unwrap().0
}

/// A base, and payloads that repeat it, in the first segment of a log; with where the base and its repetitions begin.
fn fill(log: &LogWriter, count: usize) -> (Vec<Vec<u8>>, Vec<Range<Lsn>>) {
    let base = payload(1, 3000);
    let mut places = vec![append_repeating(log, &base, None).unwrap()];
    let mut payloads = vec![base.clone()];
    for number in 0..count {
        let mut repeating = payload(2 + number, 20);
        let parts = repeat(places[0].start, &base, [number, 1000, 1100, 2900], &mut repeating);
        places.push(append_repeating(log, &repeating, Some(&parts)).unwrap());
        payloads.push(repeating);
    }
    log.sync(places[count].end).unwrap();
    (payloads, places)
}

#[test]
fn what_is_repeated_is_in_the_log_once_and_read_everywhere() {
    for compression in FORMS {
        let fixture = Fixture::new();
        let (_, log) = fixture.open(small_in(compression));
        let mut cursor = log.cursor(log.oldest(), u64::MAX).unwrap();
        let (mut payloads, places) = fill(&log, 10);
        assert!(places[10].end.0 - places[1].start.0 < 10 * 100, "{places:?}");
        // Of a later group, whose reader begins in the middle.
        assert!(log.read_ahead(&mut cursor).unwrap());
        let mut shown: Vec<_> = std::iter::from_fn(|| cursor.take()).map(|logged| logged.payload).collect();
        let mut late = payload(50, 10);
        let parts = repeat(places[0].start, &payloads[0], [0, 2000, 2500, 3000], &mut late);
        let place = append_repeating(&log, &late, Some(&parts)).unwrap();
        log.sync(place.end).unwrap();
        payloads.push(late);
        assert!(log.read_ahead(&mut cursor).unwrap());
        shown.extend(std::iter::from_fn(|| cursor.take()).map(|logged| logged.payload));
        assert!(shown == payloads);
        log.end_cursor(&cursor);
        assert!(fixture.read().unwrap() == payloads);
        let from = |from| collect(|visit| inspect(&fixture.env, &fixture.path, from, visit)).unwrap().0;
        assert!(from(places[0].end) == payloads[1..], "the base is not shown, but read");
        assert!(from(places[10].end) == payloads[11..]);
        let on = collect(|visit| inspect_on(&fixture.env, &fixture.path, places[10].end, visit)).unwrap().0;
        assert!(on == payloads[11..]);
        drop(log);
        let (found, _) = fixture.open(small());
        assert!(found == payloads);
    }
}

#[test]
fn a_payload_of_a_later_segment_is_written_whole() {
    let fixture = Fixture::new();
    let (_, log) = fixture.open(small());
    let (mut payloads, places) = fill(&log, 1);
    append(&log, &[9; 60_000]).unwrap();
    payloads.push(vec![9; 60_000]);
    let mut later = payload(50, 10);
    let parts = repeat(places[0].start, &payloads[0], [0, 1000, 2000, 3000], &mut later);
    let place = append_repeating(&log, &later, Some(&parts)).unwrap();
    assert!(place.end.0 - place.start.0 > 2000);
    log.sync(place.end).unwrap();
    payloads.push(later);
    assert!(fixture.read().unwrap() == payloads);
    // It needs nothing of the segment before.
    log.release(place.start).unwrap();
    assert_eq!(log.oldest(), places[0].start.max(Lsn(1 << 16)));
    assert!(fixture.read().unwrap() == payloads[3..]);
}

#[test]
fn a_base_that_spans_two_segments_is_not_repeated() {
    let fixture = Fixture::new();
    let (_, log) = fixture.open(small());
    let base = payload(1, 80_000);
    let place = append_repeating(&log, &base, None).unwrap();
    let mut repeating = payload(2, 20);
    let parts = repeat(place.start, &base, [0, 20_000, 30_000, 40_000], &mut repeating);
    let repeated = append_repeating(&log, &repeating, Some(&parts)).unwrap();
    assert!(repeated.end.0 - repeated.start.0 > 30_000);
    log.sync(repeated.end).unwrap();
    assert!(fixture.read().unwrap() == [base, repeating]);
}

#[test]
fn a_damaged_base_costs_what_repeats_it_and_nothing_else() {
    let fixture = Fixture::new();
    let (_, log) = fixture.open(small());
    let (payloads, places) = fill(&log, 2);
    let other = payload(60, 300);
    let end = append(&log, &other).unwrap();
    log.sync(end).unwrap();
    log.sync(append(&log, b"the last group proves what was durable").unwrap()).unwrap();
    drop(log);
    let file = segment_path(&fixture.path, 1);
    let mut bytes = fs::read(&file).unwrap();
    let base = 4096 + MARKER_BYTES;
    let delta = usize_of(places[1].start.0);
    assert_eq!((kind(&bytes, base), kind(&bytes, delta)), (FragmentKind::Full, FragmentKind::DeltaFull));
    bytes[base + FRAGMENT_HEADER_BYTES + 100] ^= 1;
    fixture.put(&file, &bytes);
    // Who reads on behind the base meets the damage where it needs it.
    let inspected = collect(|visit| inspect_on(&fixture.env, &fixture.path, places[0].end, visit));
    let error = inspected.unwrap_err();
    let at = format!("offset {delta}");
    assert!(error.kind() == ErrorKind::Corruption && error.to_string().contains("cannot be read"), "{error}");
    assert!(error.to_string().contains(&at), "{error}");
    let last = collect(|visit| inspect_on(&fixture.env, &fixture.path, places[2].end, visit)).unwrap().0;
    assert_eq!(last[0], other);
    drop(payloads);
}

#[test]
fn the_bytes_of_a_delta_stay_what_they_are() {
    let fixture = Fixture::new();
    let (_, log) = fixture.open(small());
    let place = log.append(b"head", &mut log.prepare(b"0123456789abcdef").unwrap()).unwrap();
    let copy = |at, from, len| CopyRange { at, from, len };
    let base = Base { position: place.start, copies: vec![copy(1, 6, 5), copy(7, 14, 6)] };
    // The base is `head0123456789abcdef`.
    log.append(b"HEAD", &mut log.prepare_delta(b"x23456yabcdefz", &base).unwrap()).unwrap();
    log.sync(log.tail()).unwrap();
    drop(log);
    let bytes = fs::read(segment_path(&fixture.path, 1)).unwrap();
    let start = 4096 + MARKER_BYTES + FRAGMENT_HEADER_BYTES + 20;
    assert_eq!(bytes[start + 8..start + 12], [20, 0, 0, 0x90], "length and kind 9");
    let stored = &bytes[start + FRAGMENT_HEADER_BYTES..][..20];
    // The base's position 4096; then, behind the checksum, a literal, 6 bytes passed over and 5 copied, and so on.
    assert_eq!((&stored[..2], &stored[6..]), (&b"\x80\x20"[..], &b"\x05HEADx\x06\x05\x01y\x03\x06\x01z"[..]));
    assert_eq!(fixture.read().unwrap()[1], b"HEADx23456yabcdefz");
}
