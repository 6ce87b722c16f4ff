//! The redo log: any segments side by side are refused, or recovered up to somewhere; a salvage finds its way through
//! them.

use super::seal::both;
use super::{record, seal, small, sparse};
use spinney::LogCompression;
use spinney::base::Lsn;
use spinney::base::codec::{Decoder, put_varint};
use spinney::env::sim::SimEnv;
use spinney::log::{Wanted, examine, inspect, inspect_on, recover};
use std::path::Path;

const DIR: &str = "/log";
const SEGMENTS_MAX: usize = 6;

/// Numbers and contents of segments.
type Segments = Vec<(u64, Vec<u8>)>;

pub(super) fn run(input: &[u8]) -> bool {
    let mut decoder = Decoder::new(input);
    let mut segments = Vec::new();
    while segments.len() < SEGMENTS_MAX
        && let Ok(number) = decoder.varint()
    {
        let Some(file) = sparse::file(&mut decoder) else { break };
        segments.push((number, file));
    }
    let sealed = |segments: &mut Segments| segments.iter_mut().for_each(|(_, file)| seal::segment(file));
    both(segments, sealed, read)
}

fn read(segments: &Segments) -> bool {
    let sim = SimEnv::new(1);
    let (env, dir) = (sim.env(), Path::new(DIR));
    env.fs.create_dir_all(dir).expect("an empty machine");
    for (number, file) in segments {
        sim.write_file(dir.join(format!("{number:016}.log")), file).expect("the directory is there");
    }
    let field = |at: usize| segments.first().and_then(|(_, file)| Decoder::new(file.get(at..)?).u64().ok());
    let (database, first) = (field(16).unwrap_or_default(), Lsn(field(40).unwrap_or_default()));
    let mut ends = Vec::new();
    let mut visit = |start, end, payload: &[u8]| {
        assert!(start < end && ends.last().is_none_or(|last| *last <= start), "payloads come one after the other");
        ends.push(end);
        record::read(payload);
        Ok(())
    };
    let recovered = recover(&env, dir, database, Lsn(0), &mut visit);
    for from in ends.iter().copied().chain([first.min(Lsn::MAX), Lsn::MAX]).take(5) {
        let mut visit = |_, end, _: &[u8]| {
            assert!(end > from, "what ends before is not shown");
            Ok(())
        };
        drop(recover(&env, dir, database, from, &mut visit));
        drop(inspect(&env, dir, from, &mut visit));
        drop(inspect_on(&env, dir, from, &mut visit));
    }
    let wanted = Wanted {
        directory: dir,
        database,
        from: Lsn(0),
        durable: Lsn(0),
        highest: first.min(Lsn::MAX),
        writable: true,
    };
    let damaged = examine(&env, wanted, &mut |_, _, _| Ok(()), &mut |_, _, _| Ok(()), &mut |_, _, _| Ok(()));
    assert!(recovered.is_err() || matches!(damaged, Ok(None)), "a log that is recovered is not damaged");
    recovered.is_ok() && !ends.is_empty()
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let seed = |compression| {
        let (sim, mut out) = (small::log(compression), Vec::new());
        let dir = Path::new(small::DIR).join("log");
        let mut names: Vec<_> =
            sim.env().fs.list(&dir).expect("it is there").into_iter().map(|entry| entry.name).collect();
        names.sort();
        for name in names {
            if let Some(number) = name.strip_suffix(".log") {
                put_varint(&mut out, number.parse().expect("a segment's name is a number"));
                sparse::put_file(&mut out, &sim.read_file(dir.join(&name)).expect("it is there"));
            }
        }
        out
    };
    [LogCompression::Off, LogCompression::Zstd, LogCompression::Lz4].into_iter().map(seed).collect()
}
