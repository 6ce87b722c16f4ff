//! Crashes and damage: a torn tail ends the log, damage to what was durable is an error, and nothing is ever made up.

use super::*;
use crate::base::num::u32_of;
use crate::log::segment::segment_path;

/// A log of three groups in one segment, not closed: the payloads, and where in the file the last group begins and ends.
struct Small {
    fixture: Fixture,
    payloads: Vec<Vec<u8>>,
    last_group: std::ops::Range<usize>,
    file: PathBuf,
    bytes: Vec<u8>,
}

fn small_log() -> Small {
    let fixture = Fixture::new();
    let (_, log) = fixture.open(small());
    let mut payloads = Vec::new();
    for group in [&[5, 300, 0][..], &[6000, 20], &[40, 50, 60]] {
        for bytes in group {
            payloads.push(payload(payloads.len(), *bytes));
            log.append(&[payloads.last().unwrap()]).unwrap();
        }
        log.sync(log.tail()).unwrap();
    }
    let end = usize_of(log.tail().0);
    drop(log);
    let file = segment_path(&fixture.path, 1);
    let bytes = fs::read(&file).unwrap();
    // The first position is 4096, which is also where the content begins in the file.
    Small { fixture, payloads, last_group: end / 4096 * 4096..end, file, bytes }
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
    let log = small_log();
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

#[test]
fn a_file_cut_off_anywhere_is_corruption() {
    let log = small_log();
    for at in (0..log.bytes.len()).step_by(97) {
        let error = log.read_with(&log.bytes[..at]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        assert!(error.to_string().contains("0000000000000001.log"), "{error}");
    }
}

#[test]
fn a_flipped_bit_below_the_last_group_is_corruption_that_names_file_and_offset() {
    let log = small_log();
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
    let meant = 4096 + log.payloads.iter().map(|payload| payload.len() + 12).sum::<usize>() + 3 * 28;
    assert_eq!(harmless, log.last_group.end - meant);
    assert!(refused > 10_000, "{refused}");
}

#[test]
fn a_lost_or_foreign_sector_below_the_last_group_is_corruption() {
    let log = small_log();
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

#[test]
fn what_an_open_found_is_sealed() {
    let log = small_log();
    // A first crash tears the last group; the open after it seals what is left.
    let mut bytes = log.bytes.clone();
    bytes[log.last_group.start + 100] ^= 1;
    log.fixture.put(&log.file, &bytes);
    let (found, writer) = log.fixture.open(small());
    assert!(log.is_prefix(&found) && found.len() < log.payloads.len());
    let end = writer.append(&[b"later"]).unwrap();
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
    let log = small_log();
    fs::remove_file(&log.file).unwrap();
    let (_, writer) = log.fixture.open(small());
    for payload in &log.payloads {
        writer.append(&[payload]).unwrap();
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
        ends.push(log.append(&[&payload(ends.len(), 3000)]).unwrap());
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
        log.append(&[&payload(number, 3000)]).unwrap();
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
    // Its header has other fields, too: a flipped bit in the version alone is damage.
    newer[64] = 1;
    let error = log.read_with(&newer).unwrap_err();
    assert!(error.kind() == ErrorKind::Unsupported && error.to_string().contains("0000000000000001.log"), "{error}");
    log.fixture.put(&log.file, &log.bytes);
    let other = recover(&log.fixture.env, &log.fixture.path, DATABASE + 1, Lsn(0), &mut |_, _, _| Ok(()));
    let error = other.unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("another database"), "{error}");
}
