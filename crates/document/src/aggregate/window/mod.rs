//! `$setWindowFields`: values computed from the documents around each document.
//!
//! The documents of a partition are in memory, and the stage passes them on one by one. An output with a window has a
//! [`Windowed`], to which each document is added once as the window reaches it and from which it is removed once as the
//! window leaves it: n documents take n steps, each constant or of the logarithm of the window, and the size of the
//! values that come out. The other outputs are computed for the whole partition at once.

mod bounds;
mod covariance;
mod deviation;
mod moments;
mod moving;
pub(super) mod parse;
mod points;
mod ranked;
mod spec;
mod stage;
mod whole;
