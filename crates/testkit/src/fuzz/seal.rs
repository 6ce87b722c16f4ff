//! Checksums made right again after bytes were changed, so that what lies behind them is reached.

use spinney::base::checksum::checksum;
use spinney::base::codec::Decoder;
use spinney::base::num::{u64_of, usize_of, usize_of32};
use spinney::block::format::RAW_PAYLOAD_AT;
use spinney::block::frame::{FRAME_HEADER_BYTES, seal};
use spinney::block::{Block, BlockKind, BlockPointer};

/// Reads an input as it is and sealed; says whether one of the two was decoded.
pub(super) fn both<T: Clone>(input: T, seal: impl FnOnce(&mut T), read: impl Fn(&T) -> bool) -> bool {
    let mut sealed = input.clone();
    seal(&mut sealed);
    let as_it_is = read(&input);
    read(&sealed) || as_it_is
}

/// So many blocks are sealed at most: damaged pointers may lead in circles.
pub(super) const BLOCKS_MAX: usize = 200;

/// Seals the frame that `pointer` names in `file` and, before it, all that it leads to. Says what its pointer is then.
pub(super) fn block(file: &mut [u8], identity: u64, pointer: BlockPointer, left: &mut usize) -> BlockPointer {
    let (start, end) = (usize_of(pointer.offset), usize_of(pointer.end()));
    let is_frame = end.saturating_sub(start) >= FRAME_HEADER_BYTES && end <= file.len();
    if !is_frame || *left == 0 {
        return pointer;
    }
    *left -= 1;
    let image_at = start + FRAME_HEADER_BYTES;
    for at in children(&file[image_at..end]) {
        let at = image_at + at..image_at + at + BlockPointer::BYTES;
        let Ok(child) = BlockPointer::decode(&mut Decoder::new(&file[at.clone()])) else { continue };
        let child = block(file, identity, child, left);
        file[at].copy_from_slice(&child.encode());
    }
    seal(&mut file[start..end], identity, pointer.offset)
}

/// Where the pointers of a branch stand in its image. Compressed images are left alone.
fn children(image: &[u8]) -> Vec<usize> {
    let Ok(block) = Block::parse(image.into()) else { return Vec::new() };
    let values = (0..block.count()).filter(|_| block.kind() == BlockKind::Branch).map(|i| block.value_at(i));
    values.filter(|(_, len)| *len == BlockPointer::BYTES).map(|(at, _)| at).collect()
}

/// Seals the blocks whose pointers stand side by side in the raw block that `pointer` names, and it.
pub(super) fn table(file: &mut [u8], identity: u64, pointer: BlockPointer, left: &mut usize) -> BlockPointer {
    let (start, end) = (usize_of(pointer.offset) + FRAME_HEADER_BYTES + RAW_PAYLOAD_AT, usize_of(pointer.end()));
    if start <= end && end <= file.len() {
        for at in (start..end).step_by(BlockPointer::BYTES) {
            let Ok(child) = BlockPointer::decode(&mut Decoder::new(&file[at..end])) else { break };
            let child = block(file, identity, child, left);
            file[at..at + BlockPointer::BYTES].copy_from_slice(&child.encode());
        }
    }
    block(file, identity, pointer, left)
}

/// Makes the third line of `CURRENT` the checksum of the two before it, if there are two.
pub(super) fn current(text: &mut Vec<u8>) {
    let mut ends = (0..text.len()).filter(|at| text[*at] == b'\n').skip(1);
    if let Some(end) = ends.next() {
        text.truncate(end);
        let sum = checksum(0, 0, text);
        text.extend_from_slice(format!("\n{sum:016x}\n").as_bytes());
    }
}

/// Makes the last 8 of `bytes` the checksum of those before them.
pub(super) fn sum(bytes: &mut [u8], identity: u64, offset: u64) {
    let Some(at) = bytes.len().checked_sub(8) else { return };
    let sum = checksum(identity, offset, &bytes[..at]);
    bytes[at..].copy_from_slice(&sum.to_le_bytes());
}

/// Seals the records of a log segment that follow each other, each at once or at the next sector, and its header.
pub(super) fn segment(file: &mut [u8]) {
    const SECTOR: usize = 4096;
    let Some(header) = file.get_mut(..SECTOR) else { return };
    sum(header, 0, 0);
    let field = |at: usize| Decoder::new(&header[at..]).u64().expect("a header has its fields");
    let (identity, first) = (checksum(field(16), field(24), b"segment"), field(40));
    let mut at = SECTOR;
    while let Some(word) = file.get(at + 8..).and_then(|rest| Decoder::new(rest).u32().ok()) {
        let end = at + 12 + usize_of32(word & 0x0fff_ffff);
        let is_record = (1..=8).contains(&(word >> 28)) && end <= file.len();
        if !is_record {
            at = (at + 1).next_multiple_of(SECTOR);
            continue;
        }
        let lsn = first.wrapping_add(u64_of(at - SECTOR));
        let sum = checksum(identity, lsn, &file[at + 8..end]);
        file[at..at + 8].copy_from_slice(&sum.to_le_bytes());
        at = end;
    }
}

/// Seals header and frames of a manifest, which becomes that of the database that its first frame names.
pub(super) fn manifest(file: &mut [u8], id: u64) {
    const HEADER: usize = 32;
    const FRAME_HEADER: usize = 16;
    if let Some(database) = file.get(HEADER + FRAME_HEADER..HEADER + FRAME_HEADER + 8).map(<[u8]>::to_vec) {
        file[16..24].copy_from_slice(&database);
    }
    let Some(header) = file.get_mut(..HEADER) else { return };
    sum(header, 0, 0);
    let identity = Decoder::new(&header[16..]).u64().expect("a header has its fields") ^ id.rotate_left(32);
    let mut at = HEADER;
    while let Some(len) = file.get(at + 8..).and_then(|rest| Decoder::new(rest).u32().ok()) {
        let end = (at + FRAME_HEADER).saturating_add(usize_of32(len));
        let Some(frame) = file.get_mut(at..end) else { return };
        let length_sum = checksum(identity, u64_of(at), &frame[8..12]).to_le_bytes();
        frame[12..16].copy_from_slice(&length_sum[..4]);
        let sum = checksum(identity, u64_of(at), &frame[8..]);
        frame[..8].copy_from_slice(&sum.to_le_bytes());
        at = end;
    }
}
