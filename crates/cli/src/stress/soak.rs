//! What must not grow while the data does not: resident memory, file descriptors, space on disk; and how fast it does.

use anyhow::{Context as _, Result};
use serde::Serialize;
use spinney_lab::measure::{MemoryPeak, directory_size};
use spinney_lab::text::{bytes, digits};
use std::fs;
use std::path::PathBuf;

/// The part of its mean by which a figure may have grown over the soak, by the line through its samples, in percent.
const TOLERANCE_PERCENT: f64 = 5.0;
const HOUR: f64 = 3600.0;

/// The figures of one moment.
#[derive(Clone, Copy, Debug)]
struct Sample {
    seconds: f64,
    figures: [u64; 3],
}

/// What the figures are, whether they are bytes, and by how much each may grow besides, because it comes and goes in
/// steps: what an allocator keeps, the files of a few runs, a B-tree's file in which a merge of all of it has left half
/// free.
const FIGURES: [(&str, bool, f64); 3] =
    [("resident memory", true, 4194304.0), ("file descriptors", false, 32.0), ("space on disk", true, 16777216.0)];

/// Watches this process and directories of a database.
#[derive(Debug)]
pub(super) struct Soak {
    memory: MemoryPeak,
    dirs: Vec<PathBuf>,
    samples: Vec<Sample>,
}

/// How one figure went.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Slope {
    figure: &'static str,
    mean: f64,
    growth_per_hour: f64,
    tolerance_per_hour: f64,
    #[serde(skip)]
    is_bytes: bool,
}

impl Soak {
    pub(super) fn new(dirs: Vec<PathBuf>) -> Result<Self> {
        Ok(Self { memory: MemoryPeak::watch(&[])?, dirs, samples: Vec::new() })
    }

    /// Takes a sample.
    pub(super) fn sample(&mut self, seconds: f64) -> Result<()> {
        let descriptors = fs::read_dir("/proc/self/fd").context("cannot count file descriptors")?.count();
        let space = self.dirs.iter().map(|dir| Ok(directory_size(dir, &|_| false)?.allocated_bytes));
        let figures = [self.memory.now_bytes()?, descriptors as u64, space.sum::<Result<u64>>()?];
        self.samples.push(Sample { seconds, figures });
        Ok(())
    }

    /// The slope of each figure; none of too few samples.
    pub(super) fn slopes(&self) -> Option<Vec<Slope>> {
        let (first, last) = (self.samples.first()?, self.samples.last()?);
        let span = last.seconds - first.seconds;
        let slope = |(at, (figure, is_bytes, slack)): (usize, &(&'static str, bool, f64))| {
            let points: Vec<_> = self.samples.iter().map(|one| (one.seconds, one.figures[at] as f64)).collect();
            let mean = points.iter().map(|point| point.1).sum::<f64>() / points.len() as f64;
            let allowed = mean * TOLERANCE_PERCENT / 100.0 + slack;
            Slope {
                figure,
                mean,
                growth_per_hour: slope_of(&points) * HOUR,
                tolerance_per_hour: allowed / span * HOUR,
                is_bytes: *is_bytes,
            }
        };
        (span > 0.0).then(|| FIGURES.iter().enumerate().map(slope).collect())
    }
}

impl Slope {
    pub(super) fn is_steep(&self) -> bool {
        self.growth_per_hour > self.tolerance_per_hour
    }

    /// A line of the report.
    pub(super) fn line(&self) -> String {
        let shown = |value: f64| {
            let sign = if value < 0.0 { "-" } else { "" };
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a figure to be shown")]
            let text = if self.is_bytes { bytes(value.abs().round() as u64) } else { digits(value.abs()) };
            format!("{sign}{text}")
        };
        let (mean, growth, most) = (shown(self.mean), shown(self.growth_per_hour), shown(self.tolerance_per_hour));
        let verdict = if self.is_steep() { "  GROWS" } else { "" };
        format!("{:<17} {mean:>10}  {growth:>11}/h of at most {most:>10}/h{verdict}", self.figure)
    }
}

/// The slope of the line with the least squares of distances.
fn slope_of(points: &[(f64, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let (up, along) = points
        .iter()
        .fold((0.0, 0.0), |(up, along), point| (up + (point.0 - x) * (point.1 - y), along + (point.0 - x).powi(2)));
    if along > 0.0 { up / along } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soak(descriptors: impl Fn(u32) -> u64) -> Soak {
        let sample =
            |second: u32| Sample { seconds: f64::from(second), figures: [50 << 20, descriptors(second), 1 << 20] };
        Soak { memory: MemoryPeak::watch(&[]).unwrap(), dirs: Vec::new(), samples: (0..100).map(sample).collect() }
    }

    fn steep(soak: &Soak) -> Vec<&'static str> {
        soak.slopes().unwrap().iter().filter(|slope| slope.is_steep()).map(|slope| slope.figure).collect()
    }

    #[test]
    fn only_what_grows_is_steep() {
        assert!(steep(&soak(|second| 50 + u64::from(second % 7))).is_empty());
        assert_eq!(steep(&soak(|second| 50 + u64::from(second))), ["file descriptors"]);
        assert!(steep(&soak(|second| 150 - u64::from(second))).is_empty());
    }

    #[test]
    fn a_slope_is_that_of_the_line() {
        assert!((slope_of(&[(0.0, 5.0), (1.0, 7.0), (2.0, 9.0)]) - 2.0).abs() < 1e-9);
        assert!(soak(|_| 1).slopes().unwrap()[0].line().starts_with("resident memory"));
    }

    #[test]
    fn a_sample_counts_this_process() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), [1; 10_000]).unwrap();
        let mut soak = Soak::new(vec![dir.path().to_owned()]).unwrap();
        soak.sample(0.0).unwrap();
        let [memory, descriptors, _] = soak.samples[0].figures;
        assert!(memory > 1 << 20 && descriptors >= 3, "{:?}", soak.samples);
        assert!(soak.slopes().is_none());
    }
}
