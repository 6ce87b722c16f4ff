//! The operators of expressions, a file a family.

pub(super) mod accumulate;
pub(super) mod arithmetic;
pub(super) mod array;
pub(super) mod convert;
pub(super) mod date;
mod fixed;
pub(super) mod logic;
pub(super) mod object;
pub(super) mod percentile;
pub(super) mod regex;
pub(super) mod set;
pub(super) mod string;
pub(super) mod summation;
pub(super) mod transcendental;
pub(super) mod trigonometry;
