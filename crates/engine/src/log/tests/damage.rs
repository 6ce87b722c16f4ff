//! Crashes and damage: a torn tail ends the log, damage to what was durable is an error, and nothing is ever made up.

use super::*;
use crate::base::checksum::checksum;
use crate::base::num::u32_of;
use crate::log::format::{FRAGMENT_HEADER_BYTES, FragmentKind, MARKER_BYTES, SegmentHeader, claim, seal};
use crate::log::inspect_on;
use crate::log::pool::directory::segment_path;

/// A log of three groups in one segment, not closed: the payloads, and where in the file the last group begins and
/// ends.
struct Small {
    fixture: Fixture,
    payloads: Vec<Vec<u8>>,
    last_group: Range<usize>,
    /// Bytes of all records.
    meant: usize,
    file: PathBuf,
    bytes: Vec<u8>,
}

fn small_log() -> Small {
    small_log_in(FORMS[0])
}

fn small_log_in(form: LogCompression) -> Small {
    let fixture = Fixture::new();
    let (_, log) = fixture.open(small_in(form));
    let mut payloads = Vec::new();
    let mut start = 0;
    for group in [&[5, 300, 0][..], &[6000, 20], &[40, 50, 60]] {
        start = log.tail().0;
        for bytes in group {
            payloads.push(payload(payloads.len(), *bytes));
            append(&log, payloads.last().unwrap()).unwrap();
        }
        log.sync(log.tail()).unwrap();
    }
    start = start.next_multiple_of(4096);
    let end = usize_of(log.tail().0);
    let meant = usize_of(log.stats().packed_bytes) + payloads.len() * 12 + 3 * 28;
    drop(log);
    let file = segment_path(&fixture.path, 1);
    let bytes = fs::read(&file).unwrap();
    // The first position is 4096, which is also where the content begins in the file.
    Small { fixture, payloads, last_group: usize_of(start)..end, meant, file, bytes }
}

impl Small {
    /// What a recovery finds when the file holds `bytes`.
    fn read_with(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.fixture.put(&self.file, bytes);
        self.fixture.read()
    }

    fn is_prefix(&self, found: &[Vec<u8>]) -> bool {
        self.payloads.starts_with(found)
    }
}

#[test]
fn a_tail_lost_at_any_byte_gives_a_prefix() {
    FORMS.map(small_log_in).iter().for_each(tails_are_prefixes);
}

fn tails_are_prefixes(log: &Small) {
    let mut most = 0;
    for at in 4096..log.last_group.end {
        let mut bytes = log.bytes.clone();
        bytes[at..].fill(0);
        let found = log.read_with(&bytes).unwrap();
        assert!(log.is_prefix(&found) && found.len() >= most, "zeros from {at}");
        most = found.len();
    }
    assert_eq!(most, log.payloads.len() - 1);
}

/// A segment that was cut off behind all that it held was refused, and a salvage gave up all of it.
#[test]
fn a_file_cut_off_is_corruption_unless_it_is_certain_that_nothing_stood_there() {
    for form in FORMS {
        let log = small_log_in(form);
        // The next record would have stood behind the last one, or the next group at the next sector.
        let certain = log.last_group.end.next_multiple_of(4096) + MARKER_BYTES;
        for at in (0..log.bytes.len()).step_by(97).chain([certain - 1, certain]) {
            match log.read_with(&log.bytes[..at]) {
                Ok(found) => assert!(at >= certain && found == log.payloads, "cut at {at}"),
                Err(error) => {
                    assert!(at < certain && error.kind() == ErrorKind::Corruption, "cut at {at}: {error}");
                    assert!(error.to_string().contains("0000000000000001.log"), "{error}");
                }
            }
        }
    }
}

#[test]
fn a_flipped_bit_below_the_last_group_is_corruption_that_names_file_and_offset() {
    FORMS.map(small_log_in).iter().for_each(flips_are_found);
}

fn flips_are_found(log: &Small) {
    let (mut refused, mut harmless) = (0, 0);
    for at in 0..log.last_group.end {
        let mut bytes = log.bytes.clone();
        bytes[at] ^= 1 << (at % 8);
        match log.read_with(&bytes) {
            Ok(found) if found == log.payloads => harmless += 1,
            Ok(found) => assert!(log.last_group.contains(&at) && log.is_prefix(&found), "flip at {at} was not noticed"),
            Err(error) => {
                assert_eq!(error.kind(), if (8..12).contains(&at) { error.kind() } else { ErrorKind::Corruption });
                assert!(error.to_string().contains("0000000000000001.log"), "{error}");
                refused += 1;
            }
        }
    }
    // Harmless are only the bytes between groups, which mean nothing.
    assert_eq!(harmless, log.last_group.end - 4096 - log.meant);
    assert!(refused > 4096 + log.meant - log.last_group.len() - 1, "{refused}");
}

#[test]
fn a_lost_or_foreign_sector_below_the_last_group_is_corruption() {
    FORMS.map(small_log_in).iter().for_each(lost_sectors_are_found);
}

fn lost_sectors_are_found(log: &Small) {
    for sector in 8..log.last_group.start / 512 {
        let range = sector * 512..(sector + 1) * 512;
        if log.bytes[range.clone()].iter().all(|byte| *byte == 0) {
            continue;
        }
        for with in [vec![0; 512], log.bytes[range.start - 512..range.start].to_vec(), vec![0xff; 512]] {
            let mut bytes = log.bytes.clone();
            bytes[range.clone()].copy_from_slice(&with);
            match log.read_with(&bytes) {
                Ok(found) => assert!(found == log.payloads, "sector {sector}"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Corruption),
            }
        }
    }
}

/// A log over several segments, closed.
struct Large {
    fixture: Fixture,
    payloads: Vec<Vec<u8>>,
    /// Its segments, each with its bytes.
    files: Vec<(PathBuf, Vec<u8>)>,
}

/// A log with records of every kind in it.
fn log_of_every_kind(form: LogCompression) -> Large {
    let fixture = Fixture::new();
    let (_, log) = fixture.open(small_in(form));
    let mut random = Random(5);
    // Some of it compresses, and yet it is longer than two segments.
    let mut large = payload(0, 400_000);
    large[..200_000].fill_with(|| u8::try_from(random.below(256)).unwrap());
    let mut payloads = Vec::new();
    for payload in [payload(1, 50), payload(2, 9000), large, payload(3, 30), payload(4, 5000), payload(5, 200)] {
        let end = append(&log, &payload).unwrap();
        payloads.push(payload);
        log.sync(end).unwrap();
    }
    log.close().unwrap();
    let files = fixture
        .names()
        .into_iter()
        .map(|name| fixture.path.join(name))
        .map(|path| (path.clone(), fs::read(path).unwrap()));
    let files = files.collect();
    Large { fixture, payloads, files }
}

#[test]
fn a_flip_in_a_record_of_any_kind_is_noticed() {
    for form in FORMS {
        let Large { fixture, payloads, files } = log_of_every_kind(form);
        assert!(fixture.read().unwrap() == payloads && files.len() > 3);
        let (mut refused, mut harmless) = (0, 0);
        for (path, bytes) in &files {
            let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
            // Checksums cover payloads alike at all their bytes; the ends are where headers are.
            let dense = |at: &usize| {
                (4096..4160).contains(at) || *at > bytes.len() - 60 || *at + 120 > last || at.is_multiple_of(331)
            };
            for at in (0..=last).filter(dense) {
                let file = fixture.env.fs.open(path, OpenOptions { access: Access::Write, direct: false }).unwrap();
                file.write_at(&[bytes[at] ^ (1 << (at % 8))], u64_of(at)).unwrap();
                match fixture.read() {
                    Ok(found) => {
                        assert!(found == payloads, "{form:?}: a flip at {at} of {} was not noticed", path.display());
                        let is_end_mark = at + MARKER_BYTES + FRAGMENT_HEADER_BYTES > last;
                        assert!(bytes[at] == 0 || is_end_mark, "only padding and the end mark's group hold no payload");
                        harmless += 1;
                    }
                    Err(error) => {
                        assert!(error.to_string().contains(".log"), "{error}");
                        refused += 1;
                    }
                }
                file.write_at(&bytes[at..=at], u64_of(at)).unwrap();
            }
        }
        assert!(
            refused > 1000 && harmless < refused / 5 + 2 * (MARKER_BYTES + FRAGMENT_HEADER_BYTES),
            "{form:?}: {refused} refused, {harmless} harmless"
        );
    }
}

#[test]
fn a_valid_record_that_cannot_be_unpacked_is_corruption_that_names_file_and_offset() {
    let fixture = Fixture::new();
    let (_, log) = fixture.open(small_in(LogCompression::Lz4));
    log.sync(append(&log, &payload(1, 9000)).unwrap()).unwrap();
    drop(log);
    let file = segment_path(&fixture.path, 1);
    let mut bytes = fs::read(&file).unwrap();
    let start = 4096 + MARKER_BYTES;
    let (kind, length) = claim(&bytes[start..]).unwrap();
    assert_eq!(kind, FragmentKind::PackedFull);
    // The raw length of the first block, behind the length of the head and the head.
    let raw = start + FRAGMENT_HEADER_BYTES + 4 + 7;
    assert_eq!(bytes[raw..raw + 4], 8993u32.to_le_bytes());
    for wrong in [8992, 8994, 0, u32::MAX] {
        bytes[raw..raw + 4].copy_from_slice(&u32::to_le_bytes(wrong));
        let identity = SegmentHeader::decode(&bytes[..4096]).unwrap().identity();
        seal(identity, Lsn(u64_of(start)), kind, &mut bytes[start..start + FRAGMENT_HEADER_BYTES + length]);
        fixture.put(&file, &bytes);
        let error = fixture.read().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(
            error.to_string().contains("0000000000000001.log") && error.to_string().contains("unpacked"),
            "{error}"
        );
        assert!(error.to_string().contains(&start.to_string()), "{error}");
    }
}

#[test]
fn what_an_open_found_is_sealed() {
    let log = small_log();
    // A first crash tears the last group; the open after it seals what is left.
    let mut bytes = log.bytes.clone();
    bytes[log.last_group.start + 100] ^= 1;
    log.fixture.put(&log.file, &bytes);
    let (found, writer) = log.fixture.open(small());
    assert!(log.is_prefix(&found) && found.len() < log.payloads.len());
    let end = writer.append_parts(&[b"later"]).unwrap();
    writer.sync(end).unwrap();
    drop(writer);
    let expected = [&found[..], &[b"later".to_vec()]].concat();
    assert_eq!(log.read_with(&bytes).unwrap(), expected);
    // What comes to light behind the seal does not count.
    assert_eq!(log.read_with(&log.bytes).unwrap(), expected);
    // But anything less than what was sealed is an error, also in its last group.
    for at in [4096 + 20, log.last_group.start - 4096, log.last_group.start + 30] {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1;
        let error = log.read_with(&bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{at}: {error}");
    }
}

#[test]
fn an_end_mark_makes_damage_to_the_last_group_an_error() {
    FORMS.into_iter().for_each(damage_before_an_end_mark_is_found);
}

fn damage_before_an_end_mark_is_found(form: LogCompression) {
    let log = small_log();
    fs::remove_file(&log.file).unwrap();
    let (_, writer) = log.fixture.open(small_in(form));
    for payload in &log.payloads {
        append(&writer, payload).unwrap();
    }
    let end = usize_of(writer.tail().0);
    writer.close().unwrap();
    let file = segment_path(&log.fixture.path, 1);
    let bytes = fs::read(&file).unwrap();
    for at in (4096..end).step_by(13) {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0x10;
        log.fixture.put(&file, &bytes);
        assert_eq!(log.fixture.read().unwrap_err().kind(), ErrorKind::Corruption, "{at}");
    }
}

#[test]
fn a_missing_segment_is_corruption_and_an_unneeded_one_is_not() {
    let fixture = Fixture::new();
    let (_, log) = fixture.open(small());
    let mut ends = Vec::new();
    while ends.len() < 100 {
        ends.push(log.append_parts(&[&payload(ends.len(), 3000)]).unwrap());
        log.sync(log.tail()).unwrap();
    }
    drop(log);
    let names = fixture.names();
    assert!(names.len() > 5, "{names:?}");
    let middle = fixture.path.join(&names[2]);
    let bytes = fs::read(&middle).unwrap();
    fs::remove_file(&middle).unwrap();
    let error = read(&fixture.env, &fixture.path, Lsn(0)).unwrap_err();
    assert!(fixture.read().is_ok(), "what is left can be inspected");
    assert!(error.kind() == ErrorKind::Corruption && error.to_string().contains(&names[2]), "{error}");
    let (found, _) = read(&fixture.env, &fixture.path, ends[90]).unwrap();
    assert_eq!(found.len(), 9);
    // A segment's header damaged is like a segment missing.
    fs::write(&middle, [&[0; 100], &bytes[100..]].concat()).unwrap();
    assert_eq!(fixture.read().unwrap_err().kind(), ErrorKind::Corruption);
    assert!(read(&fixture.env, &fixture.path, ends[90]).is_ok());
    for name in fixture.names() {
        fs::remove_file(fixture.path.join(name)).unwrap();
    }
    assert_eq!(read(&fixture.env, &fixture.path, ends[90]).unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn a_segment_under_another_name_is_not_taken_for_it() {
    let fixture = Fixture::new();
    let (_, log) = fixture.open(small());
    for number in 0..60 {
        log.append_parts(&[&payload(number, 3000)]).unwrap();
    }
    log.sync(log.tail()).unwrap();
    drop(log);
    fs::copy(segment_path(&fixture.path, 1), segment_path(&fixture.path, 2)).unwrap();
    assert_eq!(fixture.read().unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn a_newer_format_and_another_database_are_refused_by_name() {
    let log = small_log();
    let mut newer = log.bytes.clone();
    newer[8..12].copy_from_slice(&u32_of(9).to_le_bytes());
    newer[64] = 1;
    let error = log.read_with(&newer).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption, "without its checksum a version is damage: {error}");
    let sum = checksum(0, 0, &newer[..4088]);
    newer[4088..4096].copy_from_slice(&sum.to_le_bytes());
    let error = log.read_with(&newer).unwrap_err();
    assert!(error.to_string().contains("use a newer spinney"), "{error}");
    assert!(error.kind() == ErrorKind::Unsupported && error.to_string().contains("0000000000000001.log"), "{error}");
    log.fixture.put(&log.file, &log.bytes);
    let other = recover(&log.fixture.env, &log.fixture.path, DATABASE + 1, Lsn(0), &mut |_, _, _| Ok(()));
    let error = other.unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("another database"), "{error}");
}

/// Fuzzing found that a follower's position that the log does not reach any more, because a salvage cut it off or
/// another log was put in its place, made the reader subtract below zero.
#[test]
fn a_position_behind_all_that_there_is_is_gone() {
    let Small { fixture, .. } = small_log();
    let nothing = &mut |_, _, _: &[u8]| -> Result<()> { panic!("nothing is there") };
    for position in [Lsn(70_000), Lsn::MAX, Lsn(u64::MAX)] {
        let error = inspect_on(&fixture.env, &fixture.path, position, nothing).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Gone, "{error}");
    }
}

/// Fuzzing found that a header whose checksum is right and whose positions are near the end of all numbers made the
/// recovery add beyond it.
#[test]
fn positions_that_leave_no_room_behind_them_are_refused() {
    let Small { fixture, file, mut bytes, .. } = small_log();
    bytes[40..48].copy_from_slice(&(Lsn::MAX.0 - 4096).to_le_bytes());
    bytes[56..64].copy_from_slice(&[0; 8]);
    let sum = checksum(0, 0, &bytes[..4088]);
    bytes[4088..4096].copy_from_slice(&sum.to_le_bytes());
    fixture.put(&file, &bytes);
    assert_eq!(fixture.read().unwrap_err().kind(), ErrorKind::Corruption);
}
