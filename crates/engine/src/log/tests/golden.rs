//! The bytes of a small log, pinned: a change here is a change of the format.

use super::*;
use crate::base::num::u32_of;
use crate::log::buffer::pack::unpack;
use crate::log::pool::directory::segment_path;

/// What stands in the file, sixteen bytes a line, without lines of zeros.
fn dump(bytes: &[u8]) -> Vec<String> {
    let lines = bytes.chunks(16).enumerate().filter(|(_, line)| line.iter().any(|byte| *byte != 0));
    let hex = |line: &[u8]| line.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    lines.map(|(at, line)| format!("{:05x}  {}", at * 16, hex(line))).collect()
}

/// The lines of an expected dump without their comments.
fn lines(expected: &str) -> Vec<String> {
    let lines = expected.lines().map(|line| line.split('#').next().unwrap_or_default().trim().to_owned());
    lines.filter(|line| !line.is_empty()).collect()
}

const FIRST: &str = "
    00000  53 50 4e 59 20 4c 4f 47 02 00 00 00 02 00 00 00  # magic, version, seals
    00010  ed 5e 00 00 00 00 00 00 01 00 00 00 00 00 00 00  # database, number
    00020  00 00 01 00 00 00 00 00 00 10 00 00 00 00 00 00  # bytes, first; no segment before it
    00ff0  00 00 00 00 00 00 00 00 29 31 15 db a0 20 cc aa  # checksum
    01000  39 23 dd 1d 03 7b ab 6b 10 00 00 50 00 10 00 00  # group: checksum, length 16 and kind 5, durable
    01010  00 00 00 00 00 10 00 00 00 00 00 00 a7 90 52 f7  # previous end; full record: checksum
    01020  e0 db b2 dc 05 00 00 10 68 65 6c 6c 6f 00 00 00  # length 5 and kind 1, payload
    02000  d7 5b 81 9b db 62 be df 10 00 00 50 2d 10 00 00  # group: durable up to 0x102d
    02010  00 00 00 00 2d 10 00 00 00 00 00 00 58 82 6e 0f
    02020  60 ee 08 ef 08 00 00 10 72 65 64 6f 20 6c 6f 67
    02030  29 3a 72 65 91 b4 99 94 c4 df 00 20 00 00 00 00  # first piece of a payload, up to the end of the file
";

const SECOND: &str = "
    00000  53 50 4e 59 20 4c 4f 47 02 00 00 00 01 00 00 00  # continues
    00010  ed 5e 00 00 00 00 00 00 02 00 00 00 00 00 00 00
    00020  00 00 01 00 00 00 00 00 00 00 01 00 00 00 00 00  # first: 0x1000 + 0x10000 - 0x1000
    00030  01 00 00 00 00 00 00 00 00 00 01 00 00 00 00 00  # segment before it, its end
    00ff0  00 00 00 00 00 00 00 00 51 d3 85 be c7 28 db 0e
    01000  58 97 9c 40 ae 13 fd 13 10 00 00 50 2d 10 00 00  # group: still durable up to 0x102d
    01010  00 00 00 00 00 00 01 00 00 00 00 00 aa 16 70 c4  # previous end 0x10000
    01020  a8 11 ce 5a ac 31 00 40 00 00 00 00 00 00 00 00  # last piece of the payload
    05000  de ec f2 33 c3 06 94 5c 10 00 00 50 d4 31 01 00  # group: durable up to 0x131d4
    05010  00 00 00 00 d4 31 01 00 00 00 00 00 08 90 ac e7
    05020  d5 ff c0 11 00 00 00 60 00 00 00 00 00 00 00 00  # end mark
";

const THIRD: &str = "
    00000  53 50 4e 59 20 4c 4f 47 02 00 00 00 02 00 00 00  # seals
    00010  ed 5e 00 00 00 00 00 00 03 00 00 00 00 00 00 00
    00020  00 00 01 00 00 00 00 00 00 f0 01 00 01 00 00 00  # first: four GiB behind segment 2
    00030  02 00 00 00 00 00 00 00 d4 31 01 00 00 00 00 00  # the log before it ends in segment 2, at 0x131d4
    00ff0  00 00 00 00 00 00 00 00 76 2c 1e ac 6a 90 81 93
";

#[test]
fn the_bytes_of_a_small_log_stay_what_they_are() {
    let fixture = Fixture::new();
    let (_, log) = fixture.open(small());
    let end = log.append_parts(&[b"hello"]).unwrap();
    log.sync(end).unwrap();
    log.append_parts(&[b"redo ", b"log"]).unwrap();
    log.append_parts(&[&[0; 70_000]]).unwrap();
    log.close().unwrap();
    fixture.open(small());
    for (number, expected) in [(1, FIRST), (2, SECOND), (3, THIRD)] {
        let bytes = fs::read(segment_path(&fixture.path, number)).unwrap();
        let found = dump(&bytes);
        assert!(bytes.len() == 65536 && found == lines(expected), "segment {number}:\n{}", found.join("\n"));
    }
}

const PACKED: &str = "
    00000  53 50 4e 59 20 4c 4f 47 02 00 00 00 02 00 00 00
    00010  ed 5e 00 00 00 00 00 00 01 00 00 00 00 00 00 00
    00020  00 00 01 00 00 00 00 00 00 10 00 00 00 00 00 00
    00ff0  00 00 00 00 00 00 00 00 29 31 15 db a0 20 cc aa
    01000  39 23 dd 1d 03 7b ab 6b 10 00 00 50 00 10 00 00  # group
    01010  00 00 00 00 00 10 00 00 00 00 00 00 70 fe 9a 9a  # packed full record: checksum
    01020  da ed 75 78 3e 00 00 70 07 00 00 00 07 07 07 07  # length 62 and kind 7, head of 7 bytes
    01030  07 07 07 39 1f 00 00 2b 00 00 10 1f 07 01 00 ff  # block: 7993 bytes raw, 43 stored by LZ4
    01040  ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff
    01050  ff ff ff ff ff ff ff ff ff ff ff ff ff ff 3e 60
    01060  07 07 07 07 07 07 00 00 00 00 00 00 00 00 00 00
";

/// How such a log went on when groups were not padded.
const UNPADDED: &str = "
    01060  07 07 07 07 07 07 68 b7 a9 32 57 97 15 b6 10 00  # group right behind it
    01070  00 50 66 10 00 00 00 00 00 00 66 10 00 00 00 00  # durable up to 0x1066, which is its previous end
    01080  00 00 52 4c cc ac df 8f 99 8a 05 00 00 10 68 65  # full record
    01090  6c 6c 6f 00 00 00 00 00 00 00 00 00 00 00 00 00
";

#[test]
fn the_bytes_of_packed_payloads_stay_what_they_are() {
    let fixture = Fixture::new();
    let (_, log) = fixture.open(small_in(LogCompression::Lz4));
    log.sync(append(&log, &[7; 8000]).unwrap()).unwrap();
    drop(log);
    let found = dump(&fs::read(segment_path(&fixture.path, 1)).unwrap());
    assert!(found == lines(PACKED), "{}", found.join("\n"));
}

#[test]
fn a_group_within_a_sector_is_refused_and_not_taken_for_a_torn_tail() {
    let fixture = Fixture::new();
    let mut bytes = vec![0; 65536];
    let written = lines(PACKED).into_iter().chain(lines(UNPADDED));
    for line in written {
        let (at, hex) = line.split_once("  ").unwrap();
        let line = hex.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect::<Vec<_>>();
        bytes[usize::from_str_radix(at, 16).unwrap()..][..line.len()].copy_from_slice(&line);
    }
    fs::write(segment_path(&fixture.path, 1), bytes).unwrap();
    let error = fixture.read().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("0000000000000001.log: at offset 4198: written without padding"), "{error}");
}

#[test]
fn packed_payloads_of_each_compression_are_read_for_ever() {
    // A payload of one piece: the head `head`, then a block of LZ4, one of Zstandard, and one that is not compressed.
    let lz4 = b"\x1aa\x01\x00\x50aaaaa";
    let zstd = b"\x28\xb5\x2f\xfd\x00\x48\x45\x00\x00\x10bb\x01\x00\x1e\xc0\x02";
    let blocks: [(u32, u32, &[u8]); 3] = [(20, 1 << 28, lz4), (20, 2 << 28, zstd), (3, 0, b"end")];
    let mut packed = [&4u32.to_le_bytes()[..], b"head"].concat();
    for (raw, compression, stored) in blocks {
        packed.extend_from_slice(&raw.to_le_bytes());
        packed.extend_from_slice(&(compression | u32_of(stored.len())).to_le_bytes());
        packed.extend_from_slice(stored);
    }
    let mut out = Vec::new();
    unpack(&packed, &mut out).unwrap();
    assert_eq!(out, [&b"head"[..], &[b'a'; 20], &[b'b'; 20], b"end"].concat());
}
