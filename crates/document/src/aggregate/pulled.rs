//! The rows of a stage as the stage behind it pulls them: their nesting, and that of the calls, is bounded.
//!
//! # Invariants
//! 1. Each call of a stage has [`RESERVE_BYTES`](crate::base::stack::RESERVE_BYTES) of stack, however many stages pull
//!    from one another, and so has each drop.
//! 2. No more than [`NESTED_MAX`] stages pull from one another at a time on a thread, those of pipelines within stages
//!    and of views included: their stack stays below some 30 MB.
//! 3. A document that a stage builds has at most [`LEVELS_MAX`](crate::bson::depth::LEVELS_MAX) levels and
//!    [`ROW_BYTES_MAX`](crate::expr::allowance::ROW_BYTES_MAX) bytes.

use std::cell::Cell;

use crate::base::stack::with_reserve;
use crate::base::{Result, interrupt};
use crate::bson::depth::check_levels;
use crate::bson::{DocumentBuf, Value};
use crate::expr::allowance::check_row;
use crate::expr::value::error;

/// The documents that a stage gives. They own what they need, so that a cursor may keep them between commands.
pub type Rows = Box<dyn Iterator<Item = Result<DocumentBuf>> + Send>;

/// The most stages that pull from one another: those of ten full pipelines.
const NESTED_MAX: usize = 10_000;

thread_local! {
    static NESTED: Cell<usize> = const { Cell::new(0) };
}

/// What a row counts for as work of the operation.
const ROW_WORK: usize = 4;

/// The rows of a stage.
pub(super) struct Pulled {
    /// Gone only while this is dropped.
    rows: Option<Rows>,
    /// Whether the stage builds documents.
    builds: bool,
}

impl Pulled {
    pub(super) const fn new(rows: Rows, builds: bool) -> Self {
        Self { rows: Some(rows), builds }
    }

    fn pull(&mut self) -> Option<Result<DocumentBuf>> {
        let _nested = match Nested::enter() {
            Ok(nested) => nested,
            Err(wrong) => return Some(Err(wrong)),
        };
        let rows = self.rows.as_mut()?;
        if let Err(ended) = interrupt::work(ROW_WORK) {
            return Some(Err(ended));
        }
        let row = with_reserve(|| rows.next())?;
        Some(if self.builds { row.and_then(bounded) } else { row })
    }
}

impl Iterator for Pulled {
    type Item = Result<DocumentBuf>;

    // No other method is passed on, so that each step takes this way; a size hint would recurse over all stages.
    fn next(&mut self) -> Option<Self::Item> {
        self.pull()
    }
}

impl Drop for Pulled {
    fn drop(&mut self) {
        let rows = self.rows.take();
        with_reserve(|| drop(rows));
    }
}

/// A pull that is under way.
struct Nested;

impl Nested {
    fn enter() -> Result<Self> {
        let nested = NESTED.get();
        if nested >= NESTED_MAX {
            let what = format!("more than {NESTED_MAX} stages would run within one another: nest fewer pipelines");
            return Err(error(5_054_701, what));
        }
        NESTED.set(nested + 1);
        Ok(Self)
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        NESTED.set(NESTED.get() - 1);
    }
}

fn bounded(row: DocumentBuf) -> Result<DocumentBuf> {
    check_row(row.as_bytes().len())?;
    check_levels(&Value::Document(row.view())).map(|()| row)
}
