//! Blocks: any image is refused, or searched and walked without surprises.

use spinney::base::num::usize_of;
use spinney::base::{Entry, Kind, SeqNum};
use spinney::block::{Block, BlockBuilder, BlockKind, BlockPointer, Compression, frame, raw_image};

pub(super) fn run(input: &[u8]) -> bool {
    let framed = read_frame(input);
    let Ok(block) = Block::parse(input.into()) else { return framed };
    block.prefetch_search();
    let mut key = Vec::new();
    for i in 0..block.count() {
        let slot = block.slot(i);
        block.key_into(i, &mut key);
        assert_eq!(key, [block.prefix(), slot.suffix].concat());
        assert_eq!((slot.suffix, slot.seqnum, slot.kind), (block.suffix(i), block.seqnum(i), block.entry_kind(i)));
        assert_eq!(block.value(i).len(), slot.value_len);
        assert!(block.compare_key(i, &key).is_eq());
        let (low, high) = (block.lower_bound(&key), block.upper_bound(&key));
        assert!(low <= i && i < high, "entry {i} lies in {low}..{high}, where its key is");
        assert_eq!(block.find(&key), Some(low));
        let bound = block.bound(&key);
        block.prefetch_entries(bound);
        assert!(bound.at <= low && !bound.sure, "the heads cannot tell that no entry before {i} has its key");
        assert_eq!(block.lower_bound_from(bound, &key), low);
        // A key beside it.
        key.push(0);
        assert!(block.lower_bound(&key) >= high);
    }
    for probe in [&b""[..], &[0], b"key", &[0xff; 9], input.get(..20).unwrap_or_default()] {
        let (low, high) = (block.lower_bound(probe), block.upper_bound(probe));
        assert!(low <= high && high <= block.count());
        assert_eq!(block.find(probe), (low < high).then_some(low));
        let bound = block.bound(probe);
        assert_eq!(block.lower_bound_from(bound, probe), low);
        assert!(bound.at == low || bound.at < low && !bound.sure);
    }
    assert!(block.bytes().len() <= input.len() && block.memory_bytes() >= input.len());
    true
}

/// Takes the input as a frame whose checksum is right.
fn read_frame(input: &[u8]) -> bool {
    if input.len() < frame::FRAME_HEADER_BYTES {
        return false;
    }
    let mut bytes = input.to_vec();
    let pointer = frame::seal(&mut bytes, 1, 2);
    let other = BlockPointer { checksum: !pointer.checksum, ..pointer };
    assert!(frame::decode(&bytes, 1, other).is_err() && frame::decode(&bytes, 2, pointer).is_err());
    frame::decode(&bytes, 1, pointer).is_ok_and(|image| Block::parse(image).is_ok())
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let build = |kind, count: u64, entry: fn(u64) -> (SeqNum, Kind)| {
        let mut block = BlockBuilder::new(kind);
        for number in 0..count {
            let key = format!("prefix{:03}", if kind == BlockKind::Leaf { number / 2 } else { number });
            let (seqnum, kind) = entry(number);
            let value = if kind == Kind::Put { &b"0123456789abcdef"[..usize_of(number % 17)] } else { b"" };
            block.push(&Entry { key: key.as_bytes(), seqnum, kind, value });
        }
        block.finish()
    };
    let versioned = |number| {
        let kind = if number % 3 == 0 { Kind::Delete } else { Kind::Put };
        (SeqNum(100 - number), kind)
    };
    let mut raw = raw_image(40);
    raw[70..80].fill(7);
    let leaf = build(BlockKind::Leaf, 12, versioned);
    let mut seeds = vec![
        build(BlockKind::Branch, 9, |_| (SeqNum::ZERO, Kind::Put)),
        build(BlockKind::Branch, 9, |number| (SeqNum(number % 2), Kind::Put)),
        build(BlockKind::Leaf, 1, |_| (SeqNum::ZERO, Kind::Put)),
        // Of each key a put, and behind it a single-delete, which may have the same seqnum.
        build(BlockKind::Leaf, 6, |number| {
            (SeqNum::ZERO, if number % 2 == 0 { Kind::Put } else { Kind::SingleDelete })
        }),
        leaf.clone(),
        raw,
    ];
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let mut bytes = Vec::new();
        frame::encode(&leaf, compression, 1, 2, &mut bytes);
        seeds.push(bytes);
    }
    seeds
}
