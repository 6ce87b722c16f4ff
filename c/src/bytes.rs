//! Bytes and text that come from a caller or go to one.

use std::ffi::{CStr, c_char};
use std::mem::{MaybeUninit, size_of};
use std::ops::Bound;
use std::{ptr, slice};

use spinney::{Error, Result};

use crate::status::{Status, missing};

/// Bytes that belong to somebody else: a key, a value, a note. `data` may be `NULL` when `size` is 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    /// The first of them.
    pub data: *const u8,
    /// How many.
    pub size: usize,
}

impl Bytes {
    /// What it names, for the length of the call that it came with.
    #[inline]
    pub(crate) fn get<'a>(self) -> Result<&'a [u8]> {
        if self.size == 0 {
            return Ok(&[]);
        }
        if self.data.is_null() {
            return Err(missing("data"));
        }
        // SAFETY: the caller says that `size` bytes at `data` are there while the call lasts, and the result is not
        // kept beyond it.
        Ok(unsafe { slice::from_raw_parts(self.data, self.size) })
    }

    pub(crate) const fn of(bytes: &[u8]) -> Self {
        Self { data: bytes.as_ptr(), size: bytes.len() }
    }
}

/// A text that ends with a NUL.
pub(crate) fn text<'a>(text: *const c_char, argument: &str) -> Result<&'a str> {
    if text.is_null() {
        return Err(missing(argument));
    }
    // SAFETY: the caller says that it is a text that ends with a NUL while the call lasts, and the result is not kept
    // beyond it.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| Error::invalid(format!("argument {argument} is not UTF-8")))
}

const _: () = assert!(size_of::<spinney::Value>() <= size_of::<Value>() - 2 * size_of::<usize>(), "`owner` holds one");
const _: () = assert!(align_of::<spinney::Value>() <= align_of::<usize>(), "it is aligned there");

/// Bytes that a call gave. `data` and `size` are valid until `spinney_value_free`, also after the database is closed.
/// Do not copy or change the struct itself.
#[repr(C)]
#[derive(Debug)]
pub struct Value {
    /// The first of the bytes; `NULL` when the value was freed or never given.
    pub data: *const u8,
    /// How many.
    pub size: usize,
    /// The library's own.
    pub owner: [usize; 6],
}

/// Gives a value to a caller.
#[inline]
pub(crate) fn give_value(out: &mut MaybeUninit<Value>, value: spinney::Value) {
    let mut owner = [0; 6];
    let Bytes { data, size } = Bytes::of(&value);
    // SAFETY: `owner` is large enough for a value and aligned for one, as is asserted above. A value's bytes stay where
    // they are when the value is moved.
    unsafe { ptr::write(owner.as_mut_ptr().cast::<spinney::Value>(), value) };
    out.write(Value { data, size, owner });
}

/// Frees a value. Does nothing with one that was freed, or that is all zeros.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_value_free(value: Option<&mut Value>) {
    let Some(value) = value else { return };
    if !value.data.is_null() {
        // SAFETY: `give_value` wrote a value there, which is dropped once: `data` is null from now on.
        unsafe { ptr::drop_in_place(value.owner.as_mut_ptr().cast::<spinney::Value>()) };
        *value = Value { data: ptr::null(), size: 0, owner: [0; 6] };
    }
}

/// Gives what was found, or says that there is nothing. `out` is then all zeros.
#[inline]
pub(crate) fn found(out: &mut MaybeUninit<Value>, found: Option<spinney::Value>) -> Status {
    match found {
        Some(value) => {
            give_value(out, value);
            Status::Ok
        }
        None => {
            out.write(Value { data: ptr::null(), size: 0, owner: [0; 6] });
            Status::None
        }
    }
}

/// The ends of a range of keys.
type Ends<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// From `from` on and before `to`, where `NULL` is no limit.
pub(crate) fn ends<'a>(from: Option<&'a Bytes>, to: Option<&'a Bytes>) -> Result<Ends<'a>> {
    let low = from.map_or(Ok(Bound::Unbounded), |from| from.get().map(Bound::Included))?;
    let high = to.map_or(Ok(Bound::Unbounded), |to| to.get().map(Bound::Excluded))?;
    Ok((low, high))
}
