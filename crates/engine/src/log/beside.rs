//! Reading a log beside the one who takes in what it holds: a worker finds, checks and unpacks the payloads, and hands them over in
//! batches. Taking in is most of a replay; the reading then costs no time of its own where there are two processors.
//!
//! # Invariants
//! 1. What is shown, in which order, and the error that ends it are those of a [`LogReader`] in the caller's thread.
//! 2. One batch is taken in while the next is filled, and each ends with the payload that makes it large: so memory is bounded by a few
//!    times the largest commit.

use super::chain::Found;
use super::reader::{LogReader, LogSummary};
use super::recover::Visit;
use crate::base::{Error, ErrorKind, Lsn, Result};
use crate::env::{Env, Next};
use std::mem;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// A batch is handed over when it has so many bytes.
const BATCH_BYTES: usize = 96 << 10;

/// What a reading came to: what was found, and where the last record ends.
type Outcome = Result<(LogSummary, Lsn)>;

/// What the worker hands over.
enum Step {
    Batch(Batch),
    End(Outcome),
}

/// Payloads one after the other.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// Where each payload's first record begins, the position after it, and where it ends in `bytes`.
    payloads: Vec<(Lsn, Lsn, usize)>,
}

/// Shows every whole payload of `log` that ends after `from` to `visit`, in this thread, while a worker reads on. Where there are no
/// threads, this thread does both.
pub(super) fn read(env: &Env, log: &[Found], from: Lsn, visit: &mut Visit<'_>) -> Outcome {
    if !env.threads.concurrent() {
        return read_here(log, from, visit);
    }
    let (sender, steps) = sync_channel(0);
    let log = log.to_vec();
    let work = move || {
        hand_over(&log, from, &sender);
        Next::Wait
    };
    let worker = env.threads.worker("replay", Box::new(work));
    let outcome = take(steps, visit);
    // With the receiver gone it does not wait for anybody.
    worker.stop();
    outcome
}

fn read_here(log: &[Found], from: Lsn, visit: &mut Visit<'_>) -> Outcome {
    let mut reader = LogReader::new(log, from);
    reader.read(visit)?;
    Ok((reader.summary, reader.record_end))
}

/// Reads for [`take`], until the end of the log or until nobody takes any more.
fn hand_over(log: &[Found], from: Lsn, sender: &SyncSender<Step>) {
    let mut batch = Batch::default();
    let outcome = read_here(log, from, &mut |start, end, payload| {
        batch.add(start, end, payload);
        if batch.bytes.len() < BATCH_BYTES {
            return Ok(());
        }
        let sent = sender.send(Step::Batch(mem::take(&mut batch)));
        sent.map_err(|_| Error::new(ErrorKind::Closed, "nobody takes what is read"))
    });
    // What stands before an error is shown before it.
    for step in [Step::Batch(batch), Step::End(outcome)] {
        drop(sender.send(step));
    }
}

/// Shows what [`hand_over`] read.
fn take(steps: Receiver<Step>, visit: &mut Visit<'_>) -> Outcome {
    loop {
        match steps.recv().expect("the worker says what it came to before it goes") {
            Step::Batch(batch) => batch.show(visit)?,
            Step::End(outcome) => return outcome,
        }
    }
}

impl Batch {
    fn add(&mut self, start: Lsn, end: Lsn, payload: &[u8]) {
        self.bytes.extend_from_slice(payload);
        self.payloads.push((start, end, self.bytes.len()));
    }

    fn show(&self, visit: &mut Visit<'_>) -> Result<()> {
        let mut at = 0;
        for (start, end, to) in &self.payloads {
            visit(*start, *end, &self.bytes[at..*to])?;
            at = *to;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::chain;
    use super::super::segment::Directory;
    use super::super::{LogOptions, LogWriter, recover};
    use super::*;
    use crate::base::num::{u64_of, usize_of};
    use crate::env::{Access, OpenOptions};
    use std::path::Path;

    /// Payloads of many sizes in three segments, with markers between them; the path of the first segment.
    fn fill(env: &Env, path: &Path) -> std::path::PathBuf {
        let recovered = recover(env, path, 1, Lsn(0), &mut |_, _, _| Ok(())).unwrap();
        let log = LogWriter::open(env, path, LogOptions::default(), recovered).unwrap();
        for number in 0..3000u64 {
            let bytes = [0, 1, 100, 160, 5000, 700][usize_of(number % 6)] + usize_of(number % 500 / 499) * 300_000;
            let end = log.append(&[&vec![u8::try_from(number % 256).unwrap(); bytes]]).unwrap();
            match number % 100 {
                0 => log.sync(end).unwrap(),
                1..50 => log.write(end).unwrap(),
                _ => {}
            }
        }
        log.close().unwrap();
        let directory = Directory { env: env.clone(), path: path.to_owned() };
        directory.list().unwrap().segments[0].1.clone()
    }

    /// What `read` shows, up to the payload of this number, and what ends it.
    fn history(stop: u64, read: impl FnOnce(&mut Visit<'_>) -> Outcome) -> (Vec<(Lsn, Lsn, Vec<u8>)>, String) {
        let mut shown = Vec::new();
        let outcome = read(&mut |start, end, payload| {
            if u64_of(shown.len()) == stop {
                return Err(Error::new(ErrorKind::Full, "enough"));
            }
            shown.push((start, end, payload.to_owned()));
            Ok(())
        });
        (shown, format!("{outcome:?}"))
    }

    #[test]
    fn a_worker_changes_nothing_of_what_is_shown() {
        let (env, dir) = (Env::os(), tempfile::tempdir().unwrap());
        let first = fill(&env, dir.path());
        let directory = Directory { env: env.clone(), path: dir.path().to_owned() };
        let file = env.fs.open(&first, OpenOptions { access: Access::Write, direct: false }).unwrap();
        let mut endings = Vec::new();
        // Whole; ended by whoever takes in; torn or damaged in many places.
        for round in 0..40u64 {
            let at = 5000 + round * 9973;
            let mut byte = [0];
            file.read_at(&mut byte, at).unwrap();
            if round >= 10 {
                file.write_at(&[byte[0] ^ 1], at).unwrap();
            }
            let (stop, from) = if round < 10 { (round * 370, Lsn(round * 7000)) } else { (u64::MAX, Lsn(0)) };
            let stop = if round == 9 { u64::MAX } else { stop };
            let chain = chain::find(&directory, &directory.list().unwrap(), Some(1), None, false).unwrap();
            let here = history(stop, |visit| read_here(&chain.log, from, visit));
            let beside = history(stop, |visit| read(&env, &chain.log, from, visit));
            assert!(here == beside, "{} and {} payloads, {} and {}", here.0.len(), beside.0.len(), here.1, beside.1);
            endings.push(here.1);
            file.write_at(&byte, at).unwrap();
        }
        let ended = |what: &str| endings.iter().filter(|ending| ending.contains(what)).count();
        assert!(ended("enough") >= 5 && ended("damaged") >= 5 && ended("closed: true") >= 1, "{endings:#?}");
    }
}
