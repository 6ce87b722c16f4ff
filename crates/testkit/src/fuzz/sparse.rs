//! Files in inputs: mostly zeros on disk, so only the rest of them is written down.

use spinney::base::codec::{Decoder, put_varint};

/// No file of an input is longer, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// So many zeros are worth being left out.
const ZEROS: usize = 16;

/// Appends a file.
pub(super) fn put_file(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, count(bytes.len()));
    let mut at = 0;
    let (mut parts, mut number) = (Vec::new(), 0);
    while at < bytes.len() {
        let zeros = bytes[at..].iter().take_while(|byte| **byte == 0).count();
        let start = at + zeros;
        let end = bytes[start..].windows(ZEROS).position(|window| window.iter().all(|byte| *byte == 0));
        let end = end.map_or(bytes.len(), |end| start + end);
        put_varint(&mut parts, count(zeros));
        put_varint(&mut parts, count(end - start));
        parts.extend_from_slice(&bytes[start..end]);
        (at, number) = (end, number + 1);
    }
    put_varint(out, number);
    out.extend(parts);
}

/// Reads a file. What is wrong with it is bent to something that is none: shorter parts, or none at all.
pub(super) fn file(decoder: &mut Decoder<'_>) -> Option<Vec<u8>> {
    let len = usize::try_from(decoder.varint().ok()?.min(FILE_BYTES_MAX)).ok()?;
    let (mut bytes, mut at) = (vec![0; len], 0_usize);
    for _ in 0..decoder.varint().ok()? {
        let Ok(zeros) = decoder.varint() else { break };
        let Ok(part) = decoder.varint() else { break };
        at = at.saturating_add(usize::try_from(zeros).ok()?).min(len);
        let part = usize::try_from(part).ok()?.min(decoder.rest().len());
        let part = decoder.bytes(part).ok()?;
        let fits = part.len().min(len - at);
        bytes[at..at + fits].copy_from_slice(&part[..fits]);
        at += fits;
    }
    Some(bytes)
}

fn count(number: usize) -> u64 {
    u64::try_from(number).expect("usize has at most 64 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_comes_back_and_its_zeros_take_no_room() {
        let bytes = [&[0; 5000][..], b"some", &[0; 3], b"words", &[0; 100_000]].concat();
        let mut out = Vec::new();
        put_file(&mut out, &bytes);
        assert!(out.len() < 40);
        let mut decoder = Decoder::new(&out);
        assert!(file(&mut decoder) == Some(bytes) && decoder.is_empty());
    }
}
