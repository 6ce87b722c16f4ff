//! The bytes of a simulated file: sparse, in chunks that copies share until one of them is written.
//!
//! # Invariants
//! 1. Bytes past the length are zero.
//! 2. A chunk past the end of the list is a hole.

use crate::base::num::{u64_of, usize_of};
use std::ops::Range;
use std::sync::Arc;

/// The unit of sharing and of space, in bytes.
pub(super) const CHUNK_BYTES: usize = 4096;

/// The bytes of a file. A copy costs nothing until one side is changed.
#[derive(Clone, Default)]
pub(super) struct Content {
    len: u64,
    chunks: Arc<Vec<Chunk>>,
}

#[derive(Clone)]
enum Chunk {
    /// Zeros that take no space.
    Hole,
    /// Zeros that take space.
    Reserved,
    Data(Arc<[u8; CHUNK_BYTES]>),
}

impl Chunk {
    fn bytes_mut(&mut self) -> &mut [u8; CHUNK_BYTES] {
        if !matches!(self, Self::Data(_)) {
            *self = Self::Data(Arc::new([0; CHUNK_BYTES]));
        }
        match self {
            Self::Data(bytes) => Arc::make_mut(bytes),
            Self::Hole | Self::Reserved => unreachable!("made data above"),
        }
    }
}

impl Content {
    /// The length in bytes.
    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    /// Reads until `buffer` is full or the content ends; says how many bytes.
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        let len = usize_of(self.len.saturating_sub(offset)).min(buffer.len());
        for (index, inside, outside) in pieces(offset, len) {
            let target = &mut buffer[outside];
            match self.chunks.get(index) {
                Some(Chunk::Data(bytes)) => target.copy_from_slice(&bytes[inside]),
                _ => target.fill(0),
            }
        }
        len
    }

    /// Writes `bytes` at `offset`.
    pub(super) fn write(&mut self, bytes: &[u8], offset: u64) {
        if bytes.is_empty() {
            return;
        }
        let end = offset + u64_of(bytes.len());
        let chunks = self.chunks_for(end);
        for (index, inside, outside) in pieces(offset, bytes.len()) {
            match <&[u8; CHUNK_BYTES]>::try_from(&bytes[outside.clone()]) {
                Ok(whole) => chunks[index] = Chunk::Data(Arc::new(*whole)),
                Err(_) => chunks[index].bytes_mut()[inside].copy_from_slice(&bytes[outside]),
            }
        }
        self.len = self.len.max(end);
    }

    /// Extends the content with zeros to `len` bytes, if it is shorter.
    pub(super) fn grow(&mut self, len: u64) {
        self.len = self.len.max(len);
    }

    /// Cuts or extends the content.
    pub(super) fn set_len(&mut self, len: u64) {
        if len < self.len {
            self.punch(len, self.len - len);
            let keep = chunks_in(len);
            if keep < self.chunks.len() {
                Arc::make_mut(&mut self.chunks).truncate(keep);
            }
        }
        self.len = len;
    }

    /// Takes space for the first `len` bytes and extends the content to them.
    pub(super) fn reserve(&mut self, len: u64) {
        for chunk in &mut self.chunks_for(len)[..chunks_in(len)] {
            if matches!(chunk, Chunk::Hole) {
                *chunk = Chunk::Reserved;
            }
        }
        self.grow(len);
    }

    /// Makes `len` bytes at `offset` zero, and gives back the space of the chunks that lie in them wholly.
    pub(super) fn punch(&mut self, offset: u64, len: u64) {
        let end = u64_of(self.chunks.len() * CHUNK_BYTES).min(offset.saturating_add(len));
        if offset >= end {
            return;
        }
        let chunks = Arc::make_mut(&mut self.chunks);
        for (index, inside, _) in pieces(offset, usize_of(end - offset)) {
            match &mut chunks[index] {
                chunk if inside.len() == CHUNK_BYTES => *chunk = Chunk::Hole,
                Chunk::Data(bytes) => Arc::make_mut(bytes)[inside].fill(0),
                Chunk::Hole | Chunk::Reserved => {}
            }
        }
    }

    /// The space that the content takes, in bytes.
    pub(super) fn space(&self) -> u64 {
        u64_of(self.chunks.iter().filter(|chunk| !matches!(chunk, Chunk::Hole)).count() * CHUNK_BYTES)
    }

    /// How many of `len` bytes at `offset` can be written before more than `room` bytes of new space are taken.
    pub(super) fn writable(&self, offset: u64, len: usize, mut room: u64) -> usize {
        for (index, _, outside) in pieces(offset, len) {
            if matches!(self.chunks.get(index), None | Some(Chunk::Hole)) {
                match room.checked_sub(u64_of(CHUNK_BYTES)) {
                    Some(rest) => room = rest,
                    None => return outside.start,
                }
            }
        }
        len
    }

    fn chunks_for(&mut self, len: u64) -> &mut Vec<Chunk> {
        let chunks = Arc::make_mut(&mut self.chunks);
        if chunks.len() < chunks_in(len) {
            chunks.resize(chunks_in(len), Chunk::Hole);
        }
        chunks
    }
}

fn chunks_in(len: u64) -> usize {
    usize_of(len.div_ceil(u64_of(CHUNK_BYTES)))
}

/// Splits `len` bytes at `offset` by chunks: the chunk's index, the range inside it, and the range of the `len` bytes.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (usize, Range<usize>, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let at = usize_of(offset) + done;
        let start = at % CHUNK_BYTES;
        let bytes = (CHUNK_BYTES - start).min(len - done);
        done += bytes;
        Some((at / CHUNK_BYTES, start..start + bytes, done - bytes..done))
    })
}

#[cfg(test)]
mod tests {
    use super::super::rng::Rng;
    use super::*;

    #[test]
    fn content_behaves_as_a_vector_of_bytes() {
        let mut rng = Rng::new(7);
        let (mut content, mut model) = (Content::default(), Vec::new());
        for round in 0..2000u32 {
            let offset = usize_of(rng.below(20_000));
            let len = usize_of(rng.below(9000));
            match rng.below(5) {
                0 => {
                    content.set_len(u64_of(offset));
                    model.resize(offset, 0);
                }
                1 => {
                    content.punch(u64_of(offset), u64_of(len));
                    let end = model.len().min(offset + len);
                    model[offset.min(end)..end].fill(0);
                }
                2 => {
                    content.reserve(u64_of(len));
                    model.resize(model.len().max(len), 0);
                }
                _ => {
                    let bytes = round.to_le_bytes().repeat(len / 4);
                    content.write(&bytes, u64_of(offset));
                    if !bytes.is_empty() {
                        model.resize(model.len().max(offset + bytes.len()), 0);
                        model[offset..offset + bytes.len()].copy_from_slice(&bytes);
                    }
                }
            }
            let mut read = vec![1; 40_000];
            let len = content.read(&mut read, 0);
            assert!(read[..len] == model, "round {round}");
            let middle = content.read(&mut read[..100], 5000);
            assert_eq!(read[..middle], model[5000.min(model.len())..5100.min(model.len())]);
        }
    }

    #[test]
    fn a_copy_keeps_its_bytes_when_the_original_changes() {
        let mut content = Content::default();
        content.write(&[1; 10_000], 0);
        let copy = content.clone();
        content.write(&[2; 10], 5000);
        content.punch(0, 4096);
        let mut bytes = [0; 10_000];
        assert_eq!(copy.read(&mut bytes, 0), 10_000);
        assert!(bytes.iter().all(|byte| *byte == 1));
        assert_eq!((content.space(), copy.space()), (8192, 12_288));
    }
}
