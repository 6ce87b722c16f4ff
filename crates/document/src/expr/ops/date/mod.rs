//! Dates and time zones.

pub(in crate::expr) mod arithmetic;
pub(in crate::expr) mod calendar;
pub(in crate::expr) mod format;
pub(in crate::expr) mod parse;
pub(in crate::expr) mod parts;
pub(in crate::expr) mod zone;
