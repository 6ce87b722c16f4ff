//! Ranges.

use std::mem::MaybeUninit;

use crate::bytes::Bytes;
use crate::status::{Given as _, Status, call, done};

/// Entries in key order, or against it, as of when the range was begun. For one thread at a time.
#[derive(Debug)]
pub struct Range(spinney::Range);

/// In which direction a range goes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub enum RangeDirection {
    /// From the first key to the last.
    Ascending = 0,
    /// From the last key to the first.
    Descending = 1,
}

pub(crate) fn give_range(out: Option<&mut MaybeUninit<Box<Range>>>, range: spinney::Range) -> spinney::Result<()> {
    out.given("range")?.write(Box::new(Range(range)));
    Ok(())
}

/// Gives the next entry; `SPINNEY_STATUS_NONE` when there is no more. The bytes are valid until the next call with this
/// range.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_range_next(
    range: Option<&mut Range>,
    key: Option<&mut MaybeUninit<Bytes>>,
    value: Option<&mut MaybeUninit<Bytes>>,
) -> Status {
    call(|| {
        let (key_out, value_out) = (key.given("key")?, value.given("value")?);
        let Some((key, value)) = range.given("range")?.0.advance()? else { return Ok(Status::None) };
        key_out.write(Bytes::of(key));
        value_out.write(Bytes::of(value));
        Ok(Status::Ok)
    })
}

/// Gives the next key, without its value; `SPINNEY_STATUS_NONE` when there is no more.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_range_next_key(range: Option<&mut Range>, key: Option<&mut MaybeUninit<Bytes>>) -> Status {
    call(|| {
        let out = key.given("key")?;
        let Some(key) = range.given("range")?.0.advance_key()? else { return Ok(Status::None) };
        out.write(Bytes::of(key));
        Ok(Status::Ok)
    })
}

/// Goes on from `key`: the next entry is the first one of the range at it or, in the range's direction, behind it.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_range_seek(range: Option<&mut Range>, key: Bytes) -> Status {
    done(|| {
        range.given("range")?.0.seek(key.get()?);
        Ok(())
    })
}

/// Frees a range. `NULL` is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_range_free(range: Option<Box<Range>>) {
    drop(range);
}
