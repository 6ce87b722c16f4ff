//! WiredTiger's connection, session and cursor.
//!
//! # Concurrency
//! A connection may be used by many threads, a session and its cursors by one at a time.

use super::library::Library;
use anyhow::Result;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::Arc;

/// Another transaction wrote first, or this one was in the way of eviction.
pub(super) const ROLLBACK: c_int = -31_800;
/// There is no such key, or no further one.
pub(super) const NOT_FOUND: c_int = -31_803;

type Handle = *mut c_void;
type Plain = unsafe extern "C" fn(Handle) -> c_int;
type Configured = unsafe extern "C" fn(Handle, *const c_char) -> c_int;
type Named = unsafe extern "C" fn(Handle, *const c_char, *const c_char) -> c_int;
type OpenSession = unsafe extern "C" fn(Handle, Handle, *const c_char, *mut Handle) -> c_int;
type OpenCursor = unsafe extern "C" fn(Handle, *const c_char, Handle, *const c_char, *mut Handle) -> c_int;
type Get = unsafe extern "C" fn(Handle, ...) -> c_int;
type Set = unsafe extern "C" fn(Handle, ...);
type SearchNear = unsafe extern "C" fn(Handle, *mut c_int) -> c_int;

/// The method at a place of a handle.
///
/// # Safety
/// `handle` is an open handle and `F` the type of the method that the header has at `place`.
unsafe fn method<F: Copy>(handle: Handle, place: usize) -> F {
    const { assert!(size_of::<F>() == size_of::<usize>()) };
    // SAFETY: the caller's promise.
    unsafe { handle.cast::<F>().add(place).read() }
}

/// `WT_ITEM`, the same in all versions.
#[repr(C)]
struct Item {
    data: *const c_void,
    size: usize,
    mem: *mut c_void,
    mem_size: usize,
    flags: u32,
}

impl Item {
    fn of(bytes: &[u8]) -> Self {
        Self { data: bytes.as_ptr().cast(), size: bytes.len(), mem: std::ptr::null_mut(), mem_size: 0, flags: 0 }
    }
}

/// An open database.
#[derive(Debug)]
pub(super) struct Connection {
    library: Arc<Library>,
    handle: Handle,
}

// SAFETY: WiredTiger's connections are for use by many threads.
unsafe impl Send for Connection {}
// SAFETY: as above.
unsafe impl Sync for Connection {}

impl Connection {
    pub(super) fn open(library: Arc<Library>, home: &CStr, config: &str) -> Result<Self> {
        let handle = library.open(home, &CString::new(config)?)?;
        Ok(Self { library, handle })
    }

    pub(super) fn library(&self) -> &Library {
        &self.library
    }

    /// A session whose reads outside transactions each see one moment.
    pub(super) fn session(&self) -> Result<Session<'_>> {
        let mut session = std::ptr::null_mut();
        // SAFETY: the connection is open; the place is that of `open_session`.
        let code = unsafe {
            let open: OpenSession = method(self.handle, self.library.layout.connection.open_session);
            open(self.handle, std::ptr::null_mut(), c"isolation=snapshot".as_ptr(), &raw mut session)
        };
        self.library.check(code)?;
        Ok(Session { library: &self.library, handle: session })
    }

    /// Closes it; no session is left, since each borrows it.
    pub(super) fn close(mut self) -> Result<()> {
        let code = self.close_handle();
        self.library.check(code)
    }

    fn close_handle(&mut self) -> c_int {
        let handle = std::mem::replace(&mut self.handle, std::ptr::null_mut());
        if handle.is_null() {
            return 0;
        }
        // SAFETY: the connection is open and forgotten above; the place is that of `close`.
        unsafe {
            let close: Configured = method(handle, self.library.layout.connection.close);
            close(handle, std::ptr::null())
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.close_handle();
    }
}

/// A thread's session.
#[derive(Debug)]
pub(super) struct Session<'c> {
    library: &'c Library,
    handle: Handle,
}

impl<'c> Session<'c> {
    pub(super) fn create(&self, uri: &CStr, config: &str) -> Result<()> {
        let code = self.named(self.library.layout.session.create, uri, &CString::new(config)?);
        self.library.check(code)
    }

    pub(super) fn compact(&self, uri: &CStr) -> Result<()> {
        let code = self.named(self.library.layout.session.compact, uri, c"timeout=0");
        self.library.check(code)
    }

    pub(super) fn checkpoint(&self) -> Result<()> {
        self.library.check(self.configured(self.library.layout.session.checkpoint, c""))
    }

    /// Writes and forces the log.
    pub(super) fn log_flush(&self) -> Result<()> {
        self.library.check(self.configured(self.library.layout.session.log_flush, c"sync=on"))
    }

    pub(super) fn begin(&self) -> Result<()> {
        let place = self.library.layout.session.begin_transaction;
        self.library.check(self.configured(place, c"isolation=snapshot"))
    }

    /// The code: 0 or [`ROLLBACK`] or another error.
    pub(super) fn commit(&self) -> c_int {
        self.configured(self.library.layout.session.commit_transaction, c"")
    }

    pub(super) fn rollback(&self) -> Result<()> {
        self.library.check(self.configured(self.library.layout.session.rollback_transaction, c""))
    }

    /// A cursor, which lives as long as its session at most.
    pub(super) fn cursor(&self, uri: &CStr, config: &CStr) -> Result<Cursor<'c>> {
        let mut cursor = std::ptr::null_mut();
        // SAFETY: the session is open; the place is that of `open_cursor`; the strings end in zero.
        let code = unsafe {
            let open: OpenCursor = method(self.handle, self.library.layout.session.open_cursor);
            open(self.handle, uri.as_ptr(), std::ptr::null_mut(), config.as_ptr(), &raw mut cursor)
        };
        self.library.check(code)?;
        Ok(Cursor { library: self.library, handle: cursor })
    }

    fn configured(&self, place: usize, config: &CStr) -> c_int {
        // SAFETY: the session is open, and all callers give places of methods of this type.
        unsafe { method::<Configured>(self.handle, place)(self.handle, config.as_ptr()) }
    }

    fn named(&self, place: usize, uri: &CStr, config: &CStr) -> c_int {
        // SAFETY: as above.
        unsafe { method::<Named>(self.handle, place)(self.handle, uri.as_ptr(), config.as_ptr()) }
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        let place = self.library.layout.session.close;
        // A session that is closed rolls its transaction back and closes its cursors; an error leaves nothing to do.
        self.configured(place, c"");
    }
}

/// A cursor of a table with plain keys and values. Methods return WiredTiger's code.
///
/// It is closed with its session: whoever keeps it keeps the session longer, in one struct.
#[derive(Debug)]
pub(super) struct Cursor<'c> {
    library: &'c Library,
    handle: Handle,
}

impl Cursor<'_> {
    pub(super) fn set_key(&self, key: &[u8], then: impl FnOnce(&Self) -> c_int) -> c_int {
        let item = Item::of(key);
        // SAFETY: the cursor is open and its keys are plain items; WiredTiger keeps the address of the bytes, not of
        // the item, and only until `then` has made its call.
        unsafe { method::<Set>(self.handle, self.library.layout.cursor.set_key)(self.handle, &raw const item) };
        then(self)
    }

    pub(super) fn insert(&self, key: &[u8], value: &[u8]) -> c_int {
        self.set_key(key, |cursor| {
            let item = Item::of(value);
            let place = cursor.library.layout.cursor.set_value;
            // SAFETY: as in `set_key`; the insert below is the only user of the bytes.
            unsafe { method::<Set>(cursor.handle, place)(cursor.handle, &raw const item) };
            cursor.plain(cursor.library.layout.cursor.insert)
        })
    }

    pub(super) fn remove(&self, key: &[u8]) -> c_int {
        self.set_key(key, |cursor| cursor.plain(cursor.library.layout.cursor.remove))
    }

    pub(super) fn search(&self, key: &[u8]) -> c_int {
        self.set_key(key, |cursor| cursor.plain(cursor.library.layout.cursor.search))
    }

    pub(super) fn reserve(&self, key: &[u8]) -> c_int {
        self.set_key(key, |cursor| cursor.plain(cursor.library.layout.cursor.reserve))
    }

    /// The code, and how the key that it is on compares with `key`.
    pub(super) fn search_near(&self, key: &[u8]) -> (c_int, c_int) {
        let mut exact = 0;
        let code = self.set_key(key, |cursor| {
            let place = cursor.library.layout.cursor.search_near;
            // SAFETY: the cursor is open; the place is that of `search_near`.
            unsafe { method::<SearchNear>(cursor.handle, place)(cursor.handle, &raw mut exact) }
        });
        (code, exact)
    }

    pub(super) fn next(&self) -> c_int {
        self.plain(self.library.layout.cursor.next)
    }

    pub(super) fn prev(&self) -> c_int {
        self.plain(self.library.layout.cursor.prev)
    }

    pub(super) fn reset(&self) -> c_int {
        self.plain(self.library.layout.cursor.reset)
    }

    /// The key that it is on, until the next call.
    pub(super) fn key(&self) -> Result<&[u8]> {
        self.item(self.library.layout.cursor.get_key)
    }

    /// The value that it is on, until the next call.
    pub(super) fn value(&self) -> Result<&[u8]> {
        self.item(self.library.layout.cursor.get_value)
    }

    fn item(&self, place: usize) -> Result<&[u8]> {
        let mut item = Item::of(&[]);
        // SAFETY: the cursor is open, on an entry, and of a table with plain items.
        let code = unsafe { method::<Get>(self.handle, place)(self.handle, &raw mut item) };
        self.library.check(code)?;
        if item.size == 0 {
            return Ok(&[]);
        }
        // SAFETY: WiredTiger gave the bytes, which stay until the cursor's next call. All calls that move it are ours,
        // and no caller makes one while it holds the slice.
        Ok(unsafe { std::slice::from_raw_parts(item.data.cast(), item.size) })
    }

    /// The number with this key in a statistics cursor.
    pub(super) fn statistic(&self, key: c_int) -> Result<u64> {
        let (mut description, mut text, mut value) = (std::ptr::null::<c_char>(), std::ptr::null::<c_char>(), 0_i64);
        let cursor = &self.library.layout.cursor;
        // SAFETY: keys of a statistics cursor are an int; its values are two strings and a 64-bit number.
        let code = unsafe {
            method::<Set>(self.handle, cursor.set_key)(self.handle, key);
            let found = self.plain(cursor.search);
            self.library.check(found)?;
            let get: Get = method(self.handle, cursor.get_value);
            get(self.handle, &raw mut description, &raw mut text, &raw mut value)
        };
        self.library.check(code)?;
        Ok(u64::try_from(value).unwrap_or(0))
    }

    /// The text with this key in a metadata cursor.
    pub(super) fn text(&self, key: &CStr) -> Result<String> {
        let mut text = std::ptr::null::<c_char>();
        let cursor = &self.library.layout.cursor;
        // SAFETY: keys and values of a metadata cursor are strings; the value is copied before the cursor moves.
        unsafe {
            method::<Set>(self.handle, cursor.set_key)(self.handle, key.as_ptr());
            let found = self.plain(cursor.search);
            self.library.check(found)?;
            let get: Get = method(self.handle, cursor.get_value);
            let code = get(self.handle, &raw mut text);
            self.library.check(code)?;
            Ok(CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    }

    fn plain(&self, place: usize) -> c_int {
        // SAFETY: the cursor is open, and all callers give places of methods of this type.
        unsafe { method::<Plain>(self.handle, place)(self.handle) }
    }
}
