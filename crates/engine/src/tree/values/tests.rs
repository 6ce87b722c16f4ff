//! Tests of value files: what was written is read back, also together, and nothing else is.

use super::{ValueBuilder, ValueFile, ValueFiles, ValuePointer};
use crate::base::num::{u64_of, usize_of};
use crate::base::{ErrorKind, FileId};
use crate::block::{BlockPointer, Compression};
use crate::cache::{Cache, Fill};
use crate::env::sim::SimEnv;
use crate::store::StoreStats;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const IDENTITY: u64 = 0x5eed;

/// A machine with value files on it.
struct Bench {
    sim: SimEnv,
    cache: Arc<Cache>,
    stats: Arc<StoreStats>,
}

impl Bench {
    fn new() -> Self {
        Self { sim: SimEnv::new(1), cache: Arc::new(Cache::new(8 << 20)), stats: Arc::default() }
    }

    fn write(&self, id: u64, compression: Compression, values: &[Vec<u8>]) -> (PathBuf, Vec<ValuePointer>) {
        let (env, path) = (self.sim.env(), PathBuf::from(format!("/{id}.values")));
        let stats = Arc::clone(&self.stats);
        let mut builder =
            ValueBuilder::create(&env, &path, FileId(id), IDENTITY + id, compression, true, stats).unwrap();
        let pointers = values.iter().map(|value| builder.push(value).unwrap()).collect();
        let bytes = builder.bytes();
        assert_eq!(builder.finish().unwrap(), FileId(id));
        assert_eq!(u64_of(self.sim.read_file(&path).unwrap().len()), bytes);
        (path, pointers)
    }

    fn open(&self, path: &Path, id: u64) -> Arc<ValueFile> {
        let (cache, stats) = (Arc::clone(&self.cache), Arc::clone(&self.stats));
        ValueFile::open(&self.sim.env(), path, FileId(id), IDENTITY + id, true, cache, stats).unwrap()
    }
}

fn values() -> Vec<Vec<u8>> {
    let noise = |len: usize| (0..len).map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()[2]).collect();
    vec![noise(5000), vec![7; 100_000], Vec::new(), noise(300_000), noise(1), b"text ".repeat(900)]
}

#[test]
fn values_are_read_back_alone_and_together() {
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let bench = Bench::new();
        let (files, mut pointers): (Vec<_>, Vec<_>) = [3, 9]
            .map(|id| {
                let (path, pointers) = bench.write(id, compression, &values());
                (bench.open(&path, id), pointers)
            })
            .into_iter()
            .unzip();
        let files = ValueFiles::new(files.into_iter().rev().collect());
        assert_eq!(files.iter().map(|file| file.id().0).collect::<Vec<_>>(), [3, 9]);
        let (second, first) = (pointers.pop().unwrap(), pointers.pop().unwrap());
        // Mixed, so that small ones, large ones and files alternate.
        let mixed: Vec<_> = first.iter().zip(&second).flat_map(|(a, b)| [b, a]).map(ValuePointer::encode).collect();
        let expected: Vec<_> = values().into_iter().flat_map(|value| [value.clone(), value]).collect();
        let together = files.read_many(mixed.iter().map(<[u8; ValuePointer::BYTES]>::as_slice)).unwrap();
        assert_eq!(together.len(), expected.len());
        for ((pointer, value), read) in mixed.iter().zip(&expected).zip(&together) {
            assert_eq!(read, value);
            assert_eq!(&files.read(pointer, Fill::Keep).unwrap(), value);
        }
        assert!(files.read_many(std::iter::empty()).unwrap().is_empty());
    }
}

#[test]
fn a_value_outlives_its_file_and_leaves_the_cache_with_it() {
    let bench = Bench::new();
    let (path, pointers) = bench.write(4, Compression::Lz4, &values());
    let files = ValueFiles::new(vec![bench.open(&path, 4)]);
    let value = files.read(&pointers[0].encode(), Fill::Keep).unwrap();
    assert!(bench.cache.bytes() > 5000);
    bench.sim.env().fs.remove(&path).unwrap();
    assert_eq!(files.read(&pointers[5].encode(), Fill::Keep).unwrap(), values()[5]);
    drop(files);
    assert_eq!((bench.cache.bytes(), &*value), (0, values()[0].as_slice()));
}

#[test]
fn a_large_value_drives_nothing_out_of_the_cache() {
    let bench = Bench::new();
    let (path, pointers) = bench.write(4, Compression::None, &values());
    let files = ValueFiles::new(vec![bench.open(&path, 4)]);
    files.read(&pointers[0].encode(), Fill::Keep).unwrap();
    let kept = bench.cache.bytes();
    assert_eq!(files.read(&pointers[3].encode(), Fill::Keep).unwrap(), values()[3]);
    let together = [0, 3].map(|at: usize| pointers[at].encode());
    files.read_many(together.iter().map(<[u8; ValuePointer::BYTES]>::as_slice)).unwrap();
    assert_eq!(bench.cache.bytes(), kept);
}

#[test]
fn a_pointer_is_read_back_and_nothing_else_is_one() {
    let pointer = ValuePointer {
        file: FileId(77),
        block: BlockPointer { offset: 1 << 40, bytes: 123_456, checksum: 0xabcd_ef01 },
    };
    let bytes = pointer.encode();
    assert_eq!(ValuePointer::decode(&bytes).unwrap(), pointer);
    for other in [&bytes[..23], &[bytes.as_slice(), &[0]].concat(), &[], &[0xff; 24]] {
        assert_eq!(ValuePointer::decode(other).unwrap_err().kind(), ErrorKind::Corruption, "{other:?}");
    }
}

#[test]
fn a_wrong_pointer_is_corruption_and_names_file_and_offset() {
    let bench = Bench::new();
    let (path, pointers) = bench.write(4, Compression::None, &values());
    let files = ValueFiles::new(vec![bench.open(&path, 4)]);
    let right = pointers[0];
    let block = right.block;
    let wrong = [
        BlockPointer { offset: block.offset + 1, ..block },
        BlockPointer { bytes: block.bytes - 1, ..block },
        BlockPointer { bytes: u32::MAX, ..block },
        BlockPointer { offset: 1 << 50, ..block },
        BlockPointer { checksum: !block.checksum, ..block },
    ];
    for block in wrong {
        let error = files.read(&ValuePointer { block, ..right }.encode(), Fill::Keep).unwrap_err();
        assert_eq!((error.kind(), error.place()), (ErrorKind::Corruption, Some((&*path, block.offset))), "{block:?}");
    }
    let elsewhere = ValuePointer { file: FileId(5), ..right };
    let error = files.read(&elsewhere.encode(), Fill::Keep).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("value file 5"), "{error}");
}

#[test]
fn every_flipped_bit_of_a_value_is_found() {
    let bench = Bench::new();
    let (path, pointers) = bench.write(4, Compression::Lz4, &[values()[0][..200].to_vec(), vec![1; 900]]);
    for at in 0..bench.sim.read_file(&path).unwrap().len() {
        let sim = bench.sim.fork();
        sim.corrupt(&path, u64_of(at), 0x20).unwrap();
        let bench = Bench { sim, cache: Arc::new(Cache::new(0)), stats: Arc::default() };
        let files = ValueFiles::new(vec![bench.open(&path, 4)]);
        let damaged = usize::from(at >= usize_of(pointers[1].block.offset));
        for (number, pointer) in pointers.iter().enumerate() {
            let read = files.read(&pointer.encode(), Fill::Keep);
            assert_eq!(read.is_err(), number == damaged, "byte {at}");
        }
    }
}
