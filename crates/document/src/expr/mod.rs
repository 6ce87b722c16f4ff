//! Expressions: what `$expr`, projections, pipelines and updates compute from a document.
//!
//! An expression such as `{$add: ["$a", 1]}` is read once, strictly, to a tree of [`Expression`]s
//! (([`parse`])) and evaluated for each document ([`Expression::of`]), mostly without a copy: values are
//! borrowed from the document where they come from there.

pub mod allowance;
pub mod context;
mod ops;
pub mod parser;
mod table;
pub mod tree;
pub mod value;

use crate::base::Result;
use crate::bson::Value;

pub use context::Context;
pub use ops::accumulate::Deviation;
pub(crate) use ops::array::count_of;
pub use ops::logic::no_javascript;
pub(crate) use ops::percentile::{PercentileSpec, percentile, percentile_at};
pub use ops::summation::{RemovableSum, Sum, TwoDoubles};
pub use parser::Parser;
pub use tree::{Env, Expression, Local};
pub use value::Val;

/// The names of all operators.
#[must_use]
pub const fn operator_names() -> &'static [&'static str] {
    table::NAMES
}

/// A parser with all operators.
#[must_use]
pub const fn parser(context: &Context) -> Parser<'_> {
    Parser::new(context, table::operator)
}

/// A date some months later, in UTC; the last day of the month where it is shorter.
#[must_use]
pub fn add_months(millis: i64, months: i64) -> Option<i64> {
    use ops::date::arithmetic::{Unit, shifted};
    shifted(millis, Unit::Month, months, ops::date::zone::Zone::UTC)
}

/// The expression of `$rand`.
#[must_use]
pub fn random(context: &Context) -> Expression {
    Expression::Random(std::sync::Arc::new(std::sync::atomic::AtomicU64::new(context.seed)))
}

/// Reads an expression.
///
/// # Errors
/// MongoDB's: 168 for an operator that there is not, 16020 for a wrong number of arguments, and many more.
pub fn parse(value: Value<'_>, context: &Context) -> Result<Expression> {
    parser(context).parse(value)
}
