//! What the expressions that a thread evaluates may hold: one count of bytes against one limit, and one bound of
//! nesting.
//!
//! An evaluation is a walk over the tree of the expression, so what it holds follows the stack of calls: while an
//! operator runs, it holds the values of its operands and what it has built of its result; when it returns, only the
//! result is left. [`Expression::evaluate`](super::Expression) therefore sets the count back at the end of each call to
//! what it was before, plus the result, and checks the result's nesting. An operator charges only what it allocates
//! beyond the values of its operands, before it allocates it; most do so by building with `ArrayMaker`. A loop that
//! drops a value before the operator returns releases it itself.
//!
//! # Invariants
//! 1. A value that an expression has computed and owns is counted with its bytes until the call that holds it returns.
//! 2. It has at most [`LEVELS_MAX`](crate::bson::depth::LEVELS_MAX) levels.
//! 3. Nothing is counted while no expression is evaluated: `Scope` sets the count back, on errors and panics too.
//!
//! # Concurrency
//! An evaluation never leaves its thread, so the count is one of the thread.

use std::cell::Cell;

use smallvec::SmallVec;

use super::value::Val;
use crate::base::interrupt;
use crate::base::num::u32_of;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::buf::{append_index, append_payload};
use crate::bson::depth::{self, check_levels};
use crate::bson::{Kind, Value, ValueBuf};

/// The most bytes that the evaluation of an expression for a document holds: MongoDB's limit of operators that cannot
/// spill.
pub const BYTES_MAX: usize = 100 << 20;

/// What a value and its name in an array take beyond the value's own bytes, at most.
const NAME_BYTES: usize = 24;

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
}

/// The bytes that the evaluation holds now.
#[inline]
pub(super) fn held() -> usize {
    HELD.get()
}

/// Takes note of bytes that are about to be allocated.
///
/// # Errors
/// `ExceededMemoryLimit` (146) when they and what is held exceed [`BYTES_MAX`].
#[inline]
pub(super) fn charge(bytes: usize) -> Result<()> {
    let held = HELD.get().saturating_add(bytes);
    if held > BYTES_MAX {
        return Err(exceeded(held));
    }
    HELD.set(held);
    interrupt::work(bytes / 64)
}

/// Takes note that no more than so many bytes are held any longer.
#[inline]
pub(super) fn release_to(bytes: usize) {
    HELD.set(bytes);
}

/// The most bytes of a document between two stages of a pipeline: those of a message. What is stored or answered has at
/// most 16 MiB.
pub const ROW_BYTES_MAX: usize = 48 << 20;

/// Checks the bytes of a document that is built.
///
/// # Errors
/// `BSONObjectTooLarge` (10334) for more than [`ROW_BYTES_MAX`].
#[inline]
pub fn check_row(bytes: usize) -> Result<()> {
    if bytes > ROW_BYTES_MAX { Err(too_large(bytes)) } else { Ok(()) }
}

#[cold]
fn too_large(bytes: usize) -> Error {
    let what = format!("a document of {bytes} bytes would be built, more than the limit of {ROW_BYTES_MAX}");
    Error::new(ErrorCode::BSON_OBJECT_TOO_LARGE, what)
}

#[cold]
fn exceeded(bytes: usize) -> Error {
    let what =
        format!("an expression would hold {bytes} bytes, more than the limit of {BYTES_MAX}: compute less at once");
    Error::new(ErrorCode::EXCEEDED_MEMORY_LIMIT, what)
}

/// An evaluation from outside of expressions: at its end its count is gone.
#[derive(Debug)]
pub(super) struct Scope(usize);

impl Scope {
    pub(super) fn new() -> Self {
        Self(HELD.get())
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        HELD.set(self.0);
    }
}

/// Ends a call that began when `before` bytes were held: what is left is its result.
///
/// # Errors
/// As [`charge`], and `Overflow` (15) for a result that is nested too deeply.
#[inline]
pub(super) fn settled<'a>(before: usize, made: Result<Val<'a>>) -> Result<Val<'a>> {
    HELD.set(before);
    interrupt::work(1)?;
    if let Ok(Val::Own(value)) = &made {
        let bytes = value.payload().len();
        if bytes > size_of::<ValueBuf>() {
            charge(bytes)?;
            if bytes > depth::SHALLOW_BYTES_MAX {
                check_levels(&value.view())?;
            }
        }
    }
    made
}

/// The bytes that are counted for a value.
pub(super) fn bytes_of(value: &Val<'_>) -> usize {
    match value {
        Val::Own(value) if value.payload().len() > size_of::<ValueBuf>() => value.payload().len(),
        _ => 0,
    }
}

/// The value, independent of where it came from; a copy is charged.
///
/// # Errors
/// As [`charge`].
pub(super) fn owned(value: Val<'_>) -> Result<Val<'static>> {
    if let Val::View(view) = &value {
        let bytes = payload_bytes(view);
        if bytes > size_of::<ValueBuf>() {
            charge(bytes)?;
        }
    }
    Ok(value.into_owned())
}

/// The bytes of a value in a document, without its name.
#[inline]
pub(super) fn payload_bytes(value: &Value<'_>) -> usize {
    match value {
        Value::Document(document) => document.as_bytes().len(),
        Value::Array(array) => array.as_bytes().len(),
        Value::String(text) | Value::Code(text) | Value::Symbol(text) => text.len() + 5,
        Value::Binary(_, bytes) => bytes.len() + 9,
        Value::Regex(regex) => regex.as_bytes().len(),
        Value::CodeWithScope(code) => code.as_bytes().len(),
        Value::DbPointer(pointer) => pointer.as_bytes().len(),
        _ => 16,
    }
}

/// The values of a sequence, charged.
///
/// # Errors
/// As [`charge`].
pub(super) fn collected<'v>(values: impl IntoIterator<Item = Value<'v>>) -> Result<Vec<Value<'v>>> {
    let mut all = Vec::new();
    for value in values {
        if all.len() == all.capacity() {
            // A sort takes half as much again.
            let more = all.capacity().max(4);
            charge(more * 3 * size_of::<Value<'_>>() / 2)?;
            all.reserve_exact(more);
        }
        all.push(value);
    }
    Ok(all)
}

/// Builds an array, and charges its bytes before they are allocated.
#[derive(Debug)]
pub(super) struct ArrayMaker {
    bytes: SmallVec<[u8; 16]>,
    next: usize,
    charged: usize,
}

impl ArrayMaker {
    pub(super) fn new() -> Self {
        Self { bytes: SmallVec::from_slice(&[0; 4]), next: 0, charged: 0 }
    }

    /// The bytes that are counted for the array so far.
    pub(super) const fn charged(&self) -> usize {
        self.charged
    }

    /// Appends a value.
    ///
    /// # Errors
    /// As [`charge`].
    #[inline]
    pub(super) fn push(&mut self, value: Value<'_>) -> Result<()> {
        let end = self.bytes.len() + payload_bytes(&value) + NAME_BYTES;
        if end > self.bytes.capacity() {
            self.grow(end)?;
        }
        self.bytes.push(value.kind().byte());
        append_index(&mut self.bytes, self.next);
        self.next += 1;
        self.bytes.push(0);
        append_payload(&mut self.bytes, value);
        Ok(())
    }

    fn grow(&mut self, end: usize) -> Result<()> {
        let capacity = end.max(self.bytes.capacity() * 2);
        charge(capacity - self.charged)?;
        self.charged = capacity;
        self.bytes.reserve_exact(capacity - self.bytes.len());
        Ok(())
    }

    pub(super) fn finish(mut self) -> ValueBuf {
        self.bytes.push(0);
        let len = u32_of(self.bytes.len()).to_le_bytes();
        self.bytes[..4].copy_from_slice(&len);
        ValueBuf::from_parts(Kind::Array, self.bytes)
    }
}

/// The array with these values.
///
/// # Errors
/// As [`charge`].
pub(super) fn array<'v>(values: impl IntoIterator<Item = Value<'v>>) -> Result<ValueBuf> {
    let mut array = ArrayMaker::new();
    for value in values {
        array.push(value)?;
    }
    Ok(array.finish())
}
