//! Tests of the block format: against sorted vectors, byte by byte, and with bytes that are wrong.

use super::format::RAW_PAYLOAD_AT;
use super::strip::{rebuild, strip};
use super::{Block, BlockBuilder, BlockKind, BlockPointer, Compression, FrameError, frame, raw_image};
use crate::base::checksum::checksum;
use crate::base::{Entry, Kind, SeqNum};
use proptest::prelude::*;
use std::fmt::Write as _;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Owned {
    key: Vec<u8>,
    seqnum: u64,
    kind: Kind,
    value: Vec<u8>,
}

impl Owned {
    fn put(key: &[u8], seqnum: u64, value: &[u8]) -> Self {
        Self { key: key.to_vec(), seqnum, kind: Kind::Put, value: value.to_vec() }
    }

    fn entry(&self) -> Entry<'_> {
        Entry { key: &self.key, seqnum: SeqNum(self.seqnum), kind: self.kind, value: &self.value }
    }
}

fn image_of(kind: BlockKind, entries: &[Owned]) -> Vec<u8> {
    let mut builder = BlockBuilder::new(kind);
    for entry in entries {
        builder.push(&entry.entry());
    }
    builder.finish()
}

fn leaf(entries: &[Owned]) -> Block {
    Block::parse(image_of(BlockKind::Leaf, entries).into()).unwrap()
}

fn entries_of(block: &Block) -> Vec<Owned> {
    let entry = |i| {
        let mut key = Vec::new();
        block.key_into(i, &mut key);
        Owned { key, seqnum: block.seqnum(i).0, kind: block.entry_kind(i), value: block.value(i).to_vec() }
    };
    (0..block.count()).map(entry).collect()
}

/// Keys with long shared prefixes, tied heads and any bytes at all.
fn keys() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "[ab]{0,6}".prop_map(String::into_bytes),
        "user-00[0-3]{4}".prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 0..12),
        (0..300usize, "[xy]{0,2}").prop_map(|(len, tail)| [vec![b'p'; len], tail.into_bytes()].concat()),
    ]
}

/// Entries in stored order, sometimes all of them plain, or all with seqnum zero.
fn sorted_entries() -> impl Strategy<Value = Vec<Owned>> {
    let versions = (keys(), 0u64..6, any::<bool>(), proptest::collection::vec(any::<u8>(), 0..40));
    (proptest::collection::vec(versions, 0..120), 0..3).prop_map(|(versions, meta)| {
        let mut entries = Vec::new();
        for (key, seqnum, delete, value) in versions {
            let (seqnum, delete) = (if meta < 2 { 0 } else { seqnum }, delete && meta > 0);
            let kind = if delete { Kind::Delete } else { Kind::Put };
            entries.push(Owned { key, seqnum, kind, value: if delete { Vec::new() } else { value } });
        }
        entries.sort_by(|a, b| a.key.cmp(&b.key).then(b.seqnum.cmp(&a.seqnum)));
        entries.dedup_by(|a, b| a.key == b.key && a.seqnum == b.seqnum);
        entries
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_block_answers_as_a_sorted_vector(entries in sorted_entries(), probes in proptest::collection::vec(keys(), 1..40)) {
        let mut builder = BlockBuilder::new(BlockKind::Leaf);
        let mut last: Option<&Owned> = None;
        for entry in &entries {
            let with = builder.image_bytes_with(&entry.entry());
            prop_assert_eq!(builder.push(&entry.entry()), last.is_none_or(|last| last.key != entry.key));
            prop_assert_eq!(builder.image_bytes(), with);
            prop_assert_eq!(builder.last_key(), &entry.key[..]);
            last = Some(entry);
        }
        let expected_bytes = builder.image_bytes();
        let image = builder.finish();
        prop_assert!(image.len() <= expected_bytes && expected_bytes <= image.len() + 2 * entries.len());
        prop_assert!(builder.is_empty());
        let block = Block::parse(image.into()).unwrap();
        prop_assert_eq!(&entries_of(&block), &entries);

        for key in probes.iter().chain(entries.iter().map(|entry| &entry.key)) {
            let lower = entries.partition_point(|entry| entry.key < *key);
            let upper = entries.partition_point(|entry| entry.key <= *key);
            prop_assert_eq!(block.lower_bound(key), lower);
            prop_assert_eq!(block.upper_bound(key), upper);
            prop_assert_eq!(block.find(key), (lower < upper).then_some(lower));
            if lower < entries.len() {
                prop_assert_eq!(block.compare_key(lower, key), entries[lower].key.cmp(key));
            }
        }
    }

    #[test]
    fn a_wrong_byte_in_an_image_never_panics(entries in sorted_entries(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut image = image_of(BlockKind::Leaf, &entries);
        let at = at.index(image.len());
        image[at] ^= byte;
        if let Ok(block) = Block::parse(image.into()) {
            let read = entries_of(&block);
            for entry in &read {
                let _ = (block.find(&entry.key), block.upper_bound(&entry.key));
            }
            assert!(block.bytes().is_empty() || block.count() == 0);
        }
    }

    #[test]
    fn bytes_at_random_never_panic(mut image in proptest::collection::vec(any::<u8>(), 0..200), kind in 0u8..4, count in 0u8..9) {
        for (at, byte) in [(0, kind), (1, 0), (2, 0), (3, 0), (4, count), (5, 0), (6, 0), (7, 0), (9, 0), (10, 0)] {
            if let Some(place) = image.get_mut(at) {
                *place = byte;
            }
        }
        if let Ok(block) = Block::parse(image.into()) {
            let _ = (entries_of(&block), block.bytes().len());
        }
    }

    #[test]
    fn a_frame_gives_its_image_back(image in proptest::collection::vec(0u8..3, 0..4000), offset in any::<u32>()) {
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
            let mut out = vec![9; 3];
            let pointer = frame::encode(&image, compression, 7, offset.into(), &mut out);
            prop_assert_eq!(pointer.bytes as usize, out.len() - 3);
            prop_assert_eq!(&*frame::decode(&out[3..], 7, pointer).unwrap(), &image[..]);
        }
    }

    #[test]
    fn a_slimmed_image_is_given_back_also_where_it_is_wrong(
        entries in sorted_entries(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let image = image_of(BlockKind::Leaf, &entries);
        let mut stripped = strip(&image).expect("an image with entries can be stripped");
        prop_assert_eq!(stripped.len(), image.len());
        let mut wrong = image.clone();
        wrong[at.index(image.len())] = byte;
        if let Some(mut stripped) = strip(&wrong) {
            rebuild(&mut stripped).unwrap();
            prop_assert_eq!(stripped, wrong);
        }
        let mut damaged = stripped.clone();
        damaged[at.index(image.len())] = byte;
        if rebuild(&mut damaged).is_ok() {
            drop(Block::parse(damaged.into()));
        }
        rebuild(&mut stripped).unwrap();
        prop_assert_eq!(stripped, image);
    }
}

#[test]
fn what_a_search_needs_takes_next_to_nothing_on_disk() {
    // Values that do not shrink: what is left is keys, heads and offsets.
    let noise = |i: u64| (0..16).flat_map(|part| checksum(i, part, b"").to_le_bytes()).collect::<Vec<u8>>();
    let entry = |i: u64| Owned::put(&(i * 977).to_be_bytes(), 0, &noise(i)[..20 + usize::from(i.is_multiple_of(3))]);
    let image = image_of(BlockKind::Leaf, &(0..64).map(entry).collect::<Vec<_>>());
    let values = 64 * 20 + 22;
    for compression in [Compression::Lz4, Compression::Zstd] {
        let mut out = Vec::new();
        frame::encode(&image, compression, 1, 0, &mut out);
        // Three bytes of each key differ, with one for its length and one for the entry's; not compressed it would be
        // 17 of each.
        assert!(out.len() < values + 64 * 5 + 150, "{compression:?}: {} of {}", out.len(), image.len());
    }
}

#[test]
fn a_branch_may_repeat_a_key_and_a_leaf_may_not() {
    let entries = [Owned::put(b"k", 0, b"1"), Owned::put(b"k", 0, b"2"), Owned::put(b"m", 0, b"3")];
    let mut image = image_of(BlockKind::Branch, &entries);
    let branch = Block::parse(image.clone().into()).unwrap();
    assert_eq!((branch.lower_bound(b"k"), branch.upper_bound(b"k"), branch.kind()), (0, 2, BlockKind::Branch));
    image[0] = BlockKind::Leaf as u8;
    assert!(Block::parse(image.into()).is_err());
}

#[test]
#[should_panic(expected = "keys must ascend")]
fn the_builder_refuses_keys_out_of_order() {
    image_of(BlockKind::Leaf, &[Owned::put(b"b", 0, b""), Owned::put(b"a", 0, b"")]);
}

#[test]
#[should_panic(expected = "descending seqnums")]
fn the_builder_refuses_versions_out_of_order() {
    image_of(BlockKind::Leaf, &[Owned::put(b"a", 1, b""), Owned::put(b"a", 1, b"")]);
}

#[test]
fn only_a_single_delete_may_stand_behind_a_version_of_its_own_seqnum_and_only_of_zero() {
    let version = |seqnum, kind| Owned { kind, ..Owned::put(b"k", seqnum, b"") };
    let tie = [Kind::Put, Kind::SingleDelete].map(|kind| version(0, kind));
    let block = leaf(&tie);
    assert_eq!((block.find(b"k"), block.entry_kind(0), block.entry_kind(1)), (Some(0), Kind::Put, Kind::SingleDelete));
    let image = image_of(BlockKind::Leaf, &[version(1, Kind::Put), version(0, Kind::SingleDelete)]);
    let meta_at = |kind: Kind, seqnum: u64| {
        let meta = (seqnum << 8 | kind as u64).to_le_bytes();
        image.windows(8).position(|bytes| bytes == meta).unwrap()
    };
    let (put, single) = (meta_at(Kind::Put, 1), meta_at(Kind::SingleDelete, 0));
    let parses = |changes: &[(usize, u8)]| {
        let mut image = image.clone();
        changes.iter().for_each(|(at, byte)| image[*at] = *byte);
        Block::parse(image.into()).is_ok()
    };
    assert!(parses(&[]) && parses(&[(put + 1, 0)]), "of seqnum one and of seqnum zero");
    assert!(!parses(&[(put + 1, 0), (single, Kind::Delete as u8)]), "a delete must be older");
    assert!(!parses(&[(single + 1, 1)]), "the tie is of seqnum zero only");
}

#[test]
fn many_keys_with_one_head_are_found() {
    let entries: Vec<_> = (0..3000u32).map(|i| Owned::put(format!("same{i:08}").as_bytes(), 0, b"v")).collect();
    // The first key keeps the shared prefix short, so that all other heads tie.
    let entries = [vec![Owned::put(b"a", 0, b"")], entries].concat();
    let block = leaf(&entries);
    for (i, entry) in entries.iter().enumerate() {
        assert_eq!((block.find(&entry.key), block.upper_bound(&entry.key)), (Some(i), i + 1));
    }
    assert_eq!(block.lower_bound(b"same"), 1);
    assert_eq!(block.lower_bound(b"samf"), 3001);
}

#[test]
fn the_longest_keys_and_large_values_fit() {
    let long = vec![b'k'; crate::base::key::KEY_BYTES_MAX];
    let entries = [Owned::put(&long[1..], 3, &vec![1; 5 << 20]), Owned::put(&long, 2, b"")];
    assert_eq!(entries_of(&leaf(&entries)), entries);
    assert_eq!(entries_of(&leaf(&entries[1..])), entries[1..]);
}

#[test]
fn a_value_is_read_in_place() {
    let block = leaf(&[Owned::put(b"key", 5, b"value")]);
    let (at, len) = block.value_at(0);
    assert_eq!(block.bytes_at(at, len), b"value");
    assert!(block.memory_bytes() > 20);
}

#[test]
fn a_raw_block_holds_its_payload_at_a_cache_line() {
    for len in [0, 1, 64, 1000] {
        let mut image = raw_image(len);
        for (i, byte) in image[RAW_PAYLOAD_AT..].iter_mut().enumerate() {
            *byte = u8::try_from(i % 251).unwrap();
        }
        let payload = image[RAW_PAYLOAD_AT..].to_vec();
        let block = Block::parse(image.into()).unwrap();
        assert_eq!((block.kind(), block.count(), block.bytes()), (BlockKind::Raw, 0, &payload[..]));
        assert!(block.bytes().as_ptr().addr().is_multiple_of(64));
        assert!(block.prefix().is_empty());
        assert_eq!((block.find(b"x"), block.lower_bound(b"x")), (None, 0));
    }
    assert!(Block::parse(raw_image(0)[..RAW_PAYLOAD_AT - 1].into()).is_err());
}

#[test]
fn every_truncation_of_an_image_is_malformed() {
    let entries: Vec<_> = (0..20u8).map(|i| Owned::put(&[b'k', i], i.into(), &[i; 9])).collect();
    let image = image_of(BlockKind::Leaf, &entries);
    for len in 0..image.len() {
        assert!(Block::parse(image[..len].into()).is_err(), "{len} of {} bytes", image.len());
    }
    let longer = [&image[..], &[0]].concat();
    assert!(Block::parse(longer.into()).is_err());
}

#[test]
fn an_image_without_entries_is_a_block() {
    let block = leaf(&[]);
    assert_eq!((block.count(), block.lower_bound(b"a"), block.find(b"a")), (0, 0, None));
}

#[test]
fn every_wrong_byte_of_a_frame_is_found() {
    let image = image_of(BlockKind::Leaf, &[Owned::put(b"key", 1, &[7; 100])]);
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let mut bytes = Vec::new();
        let pointer = frame::encode(&image, compression, 1, 4096, &mut bytes);
        for at in 0..bytes.len() {
            bytes[at] ^= 1;
            assert!(matches!(frame::decode(&bytes, 1, pointer), Err(FrameError::Checksum { .. })), "byte {at}");
            bytes[at] ^= 1;
        }
        for len in 0..bytes.len() {
            assert!(matches!(frame::decode(&bytes[..len], 1, pointer), Err(FrameError::Length { .. })));
        }
    }
}

#[test]
fn a_frame_of_another_file_place_or_time_is_found() {
    let mut bytes = Vec::new();
    let pointer = frame::encode(b"image", Compression::None, 1, 4096, &mut bytes);
    assert!(matches!(frame::decode(&bytes, 2, pointer), Err(FrameError::Checksum { .. })));
    let elsewhere = BlockPointer { offset: 8192, ..pointer };
    assert!(matches!(frame::decode(&bytes, 1, elsewhere), Err(FrameError::Checksum { .. })));
    let later = BlockPointer { checksum: pointer.checksum ^ 1, ..pointer };
    let error = frame::decode(&bytes, 1, later).unwrap_err();
    assert!(matches!(error, FrameError::Stale { .. }));
    assert!(error.to_string().starts_with("another block is here"));
}

#[test]
fn what_does_not_shrink_is_stored_as_it_is() {
    let noise: Vec<u8> = (0..1000u64).map(|i| checksum(i, 0, b"").to_le_bytes()[0]).collect();
    let zeros = vec![0; 3 << 20];
    for compression in [Compression::Lz4, Compression::Zstd] {
        let mut out = Vec::new();
        let pointer = frame::encode(&noise, compression, 0, 0, &mut out);
        assert_eq!(out.len(), frame::FRAME_HEADER_BYTES + noise.len());
        assert_eq!(*frame::decode(&out, 0, pointer).unwrap(), *noise);
        out.clear();
        let pointer = frame::encode(&zeros, compression, 0, 0, &mut out);
        assert!(out.len() < zeros.len() / 100);
        assert_eq!(*frame::decode(&out, 0, pointer).unwrap(), *zeros);
    }
}

/// Bytes as `offset: hex ...` lines of sixteen.
fn hex_dump(bytes: &[u8]) -> String {
    let mut out = String::new();
    for (line, chunk) in bytes.chunks(16).enumerate() {
        let hex: Vec<_> = chunk.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(out, "{:04x}: {}", line * 16, hex.join(" ")).unwrap();
    }
    out
}

#[test]
fn the_bytes_of_a_plain_leaf_are_pinned() {
    let image = image_of(BlockKind::Leaf, &[Owned::put(b"spinney", 0, b"wood"), Owned::put(b"spinning", 0, b"wheel")]);
    // kind leaf, no flags, 2 entries, prefix of 5 bytes "spinn", 3 bytes of padding; heads "ey\0\0" and "ing\0" as
    // numbers; offsets 0x28, 0x2f and the end; then (suffix length, suffix, value) twice.
    let expected = "\
0000: 01 00 00 00 02 00 00 00 05 00 00 00 73 70 69 6e
0010: 6e 00 00 00 00 00 79 65 00 67 6e 69 28 00 00 00
0020: 2f 00 00 00 38 00 00 00 02 65 79 77 6f 6f 64 03
0030: 69 6e 67 77 68 65 65 6c
";
    assert_eq!(hex_dump(&image), expected);
}

#[test]
fn the_bytes_of_a_leaf_that_all_see_are_pinned() {
    let delete = Owned { key: b"ka".to_vec(), seqnum: 0, kind: Kind::Delete, value: Vec::new() };
    let image = image_of(BlockKind::Leaf, &[delete, Owned::put(b"kb", 0, b"v")]);
    // kind leaf, with kinds, 2 entries, prefix "k", 3 bytes of padding; heads "a" and "b"; offsets 0x24, 0x27, 0x2b;
    // then (kind, suffix length, suffix, value) twice.
    let expected = "\
0000: 01 02 00 00 02 00 00 00 01 00 00 00 6b 00 00 00
0010: 00 00 00 61 00 00 00 62 24 00 00 00 27 00 00 00
0020: 2b 00 00 00 02 01 61 01 01 62 76
";
    assert_eq!(hex_dump(&image), expected);
    let mut both = image;
    both[1] = 3;
    assert!(Block::parse(both.into()).is_err(), "an entry has its kind once");
}

#[test]
fn the_bytes_of_a_versioned_leaf_and_its_frame_are_pinned() {
    let delete = Owned { key: b"k".to_vec(), seqnum: 0x0102, kind: Kind::Delete, value: Vec::new() };
    let image = image_of(BlockKind::Leaf, &[delete, Owned::put(b"k", 1, b"v")]);
    // kind leaf, versioned, 2 entries, prefix "k", 3 bytes of padding; two heads of empty suffixes; offsets 0x24, 0x2d,
    // 0x37; then (seqnum << 8 | kind, suffix length zero, value) twice.
    let expected = "\
0000: 01 01 00 00 02 00 00 00 01 00 00 00 6b 00 00 00
0010: 00 00 00 00 00 00 00 00 24 00 00 00 2d 00 00 00
0020: 37 00 00 00 02 02 01 00 00 00 00 00 00 01 01 00
0030: 00 00 00 00 00 00 76
";
    assert_eq!(hex_dump(&image), expected);

    let mut framed = Vec::new();
    let pointer = frame::encode(&image, Compression::None, 0x1122, 4096, &mut framed);
    // checksum, 0x37 bytes of payload, 0x37 bytes of image, not compressed.
    let expected = "\
0000: 24 63 c9 ac 0e 74 7a fc 37 00 00 00 37 00 00 00
0010: 00 00 00 00
";
    assert_eq!(hex_dump(&framed[..20]), expected);
    assert_eq!(hex_dump(&pointer.encode()), "0000: 00 10 00 00 00 00 00 00 4b 00 00 00 24 63 c9 ac\n");
}

#[test]
fn the_bytes_of_a_slimmed_leaf_are_pinned() {
    let image = image_of(BlockKind::Leaf, &[Owned::put(b"ka", 0, b"v"), Owned::put(b"kb", 0, &[7; 300])]);
    let stripped = strip(&image).unwrap();
    // As an image, with zeros for the two heads; then 0x24, 3 and 0x12e, byte by byte; then the entries.
    let expected = "\
0000: 01 00 00 00 02 00 00 00 01 00 00 00 6b 00 00 00
0010: 00 00 00 00 00 00 00 00 24 03 2e 00 00 01 00 00
0020: 00 00 00 00 01 61 76 01 62 07
";
    assert_eq!(hex_dump(&stripped[..0x2a]), expected);
    assert!(strip(&raw_image(9)).is_none() && strip(b"").is_none());
    let mut framed = Vec::new();
    frame::encode(&image, Compression::Lz4, 0x1122, 4096, &mut framed);
    assert_eq!(framed[16..20], [1, 1, 0, 0]);
}

#[test]
fn a_frame_that_was_compressed_without_being_slimmed_is_read() {
    let image = vec![7; 8000];
    let mut frame = Vec::new();
    frame::encode(&image, Compression::Lz4, 1, 0, &mut frame);
    assert_eq!(frame[16..20], [1, 0, 0, 0]);
    let pointer = frame::seal(&mut frame, 1, 0);
    assert_eq!(*frame::decode(&frame, 1, pointer).unwrap(), *image);
    // It is none that could have been stripped.
    for byte in [1, 2] {
        frame[17] = byte;
        let pointer = frame::seal(&mut frame, 1, 0);
        assert!(matches!(frame::decode(&frame, 1, pointer), Err(FrameError::Malformed)));
    }
}

/// Whatever an earlier image left in memory is nobody's: a payload must fill the image that it is said to be.
#[test]
fn a_payload_that_fills_less_than_its_image_is_refused() {
    for compression in [Compression::Lz4, Compression::Zstd] {
        for missing in [1, 100] {
            let image = vec![7; 8000];
            let mut frame = Vec::new();
            let pointer = frame::encode(&image, compression, 1, 0, &mut frame);
            assert_eq!(*frame::decode(&frame, 1, pointer).unwrap(), *image);
            frame[12..16].copy_from_slice(&(8000_u32 + missing).to_le_bytes());
            let pointer = frame::seal(&mut frame, 1, 0);
            assert!(matches!(frame::decode(&frame, 1, pointer), Err(FrameError::Malformed)), "{compression:?}");
        }
    }
}
