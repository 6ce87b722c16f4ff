//! What `$setWindowFields` and `$fill` compute, and of which documents.

use crate::aggregate::accumulator::Accumulator;
use crate::bson::ValueBuf;
use crate::collation::Collated;
use crate::expr::Expression;
use crate::path::{Path, Sort};

/// `$setWindowFields`, and `$fill`, which computes in the same way.
#[derive(Debug)]
pub(super) struct WindowFields {
    pub(super) name: &'static str,
    pub(super) partition: Option<Expression>,
    pub(super) sort: Option<Sort>,
    pub(super) outputs: Vec<Output>,
    /// How partitions are compared.
    pub(super) collation: Collated,
}

/// A field and how it is computed.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) path: Path,
    pub(super) function: Function,
    pub(super) window: Window,
}

/// What is computed.
#[derive(Debug)]
pub(super) enum Function {
    Accumulate(Accumulator),
    Rank {
        dense: bool,
    },
    Number,
    Shift {
        output: Expression,
        by: i64,
        default: ValueBuf,
    },
    /// The input, and the milliseconds of the unit for dates.
    Derivative {
        input: Expression,
        unit: Option<i64>,
    },
    Integral {
        input: Expression,
        unit: Option<i64>,
    },
    MovingAverage {
        input: Expression,
        alpha: f64,
    },
    Covariance {
        x: Expression,
        y: Expression,
        sample: bool,
    },
    LinearFill(Expression),
    CarriedForward(Expression),
}

/// The documents that a function sees.
#[derive(Clone, Copy, Debug)]
pub(super) enum Window {
    All,
    Documents(Bound, Bound),
    /// By the value of the sort field; the milliseconds of the unit for dates.
    Range(Bound, Bound, Option<i64>),
}

impl Window {
    /// Whether documents leave the window as it moves on.
    pub(super) const fn moves(self) -> bool {
        matches!(self, Self::Documents(Bound::Offset(_), _) | Self::Range(Bound::Offset(_), ..))
    }

    /// Whether it is the same for all documents.
    pub(super) const fn is_whole(self) -> bool {
        matches!(
            self,
            Self::All
                | Self::Documents(Bound::Unbounded, Bound::Unbounded)
                | Self::Range(Bound::Unbounded, Bound::Unbounded, _)
        )
    }
}

/// An end of a window.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bound {
    Unbounded,
    Offset(f64),
}
