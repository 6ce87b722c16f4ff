//! Bulk loads.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;

use spinney::Error;

use crate::bytes::Bytes;
use crate::status::{Given as _, Status, done};
use crate::table::Table;

/// Gives the next entry of a load: returns 1 and sets `key` and `value`, or 0 at the end, or a negative number to give
/// the load up. The bytes must be valid until it is called again.
pub type NextEntry = Option<extern "C" fn(context: *mut c_void, key: &mut Bytes, value: &mut Bytes) -> i32>;

/// Loads entries whose keys ascend, as one commit that is not logged: the fastest way to fill a table. `next` is called
/// by this thread, within this call, with `context`. `count`, which may be `NULL`, is how many entries were loaded.
#[unsafe(no_mangle)]
pub extern "C" fn spinney_load(
    table: Option<&Table>,
    next: NextEntry,
    context: *mut c_void,
    count: Option<&mut MaybeUninit<u64>>,
) -> Status {
    done(|| {
        let next = next.given("next")?;
        let mut load = table.given("table")?.0.bulk_load()?;
        loop {
            let (mut key, mut value) = (Bytes { data: ptr::null(), size: 0 }, Bytes { data: ptr::null(), size: 0 });
            match next(context, &mut key, &mut value) {
                0 => break,
                1 => load.push(key.get()?, value.get()?)?,
                stopped => return Err(Error::invalid(format!("the load was given up: next returned {stopped}"))),
            }
        }
        let entries = load.entries();
        load.finish()?;
        if let Some(count) = count {
            count.write(entries);
        }
        Ok(())
    })
}
