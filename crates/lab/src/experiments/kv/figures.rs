//! The columns of the experiment.

use crate::report::{Figure, Step};

/// A row of them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    /// Bytes of keys and values that were read or written.
    pub(super) bytes: Option<u64>,
    /// The share of the keys asked for that were there.
    pub(super) found: Option<f64>,
    /// The mean time of a put over that of a write to the raw device.
    pub(super) floors: Option<f64>,
}

impl Figures {
    pub(super) fn add_to(self, step: &mut Step) {
        let seconds = step.cost.map(|cost| cost.seconds).filter(|&seconds| seconds > 0.0);
        let rate = self.bytes.zip(seconds).map(|(bytes, seconds)| bytes as f64 / 1e6 / seconds);
        step.figures = vec![
            Figure::more("MB/s", "MB/s", rate),
            Figure::plain("found", "", self.found),
            Figure::less("x floor", "", self.floors),
        ];
    }
}
