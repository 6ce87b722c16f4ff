//! The bytes of a block in memory.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::num::NonZero;
use std::ops::Deref;
use std::process::abort;
use std::ptr::NonNull;
use std::slice;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use parking_lot::Mutex;

use super::pages::HUGE_PAGE_BYTES;
use super::slabs::{Slabs, piece_for, pieces_of};
use crate::base::debug::debug_by;
use crate::base::num::{u32_of, usize_of32};

/// Bytes that many share, the image of a block: an `Arc<[u8]>` that is one pointer, and lies on huge pages if it is as
/// long as most blocks are. In front of the bytes is the count of their holders, so that a reader fetches both at once.
pub struct Image(NonNull<Head>);

#[repr(C)]
pub(super) struct Head {
    holders: AtomicUsize,
    len: u32,
    /// Where the memory is from: [`ALLOCATOR`] is no slab.
    slab: u32,
}

// SAFETY: holders of an image only read it, and the count is atomic.
unsafe impl Send for Image {}
// SAFETY: as above.
unsafe impl Sync for Image {}

/// Bytes from the start of an image's memory to its first byte.
pub const HEAD_BYTES: usize = size_of::<Head>();

const _: () =
    assert!(HEAD_BYTES == 16, "a head has no bytes between its fields, so a piece that had one is initialised");

const ALLOCATOR: u32 = u32::MAX;

/// The memory of all images, but for the shortest and longest, in parts with a latch each: a thread that finds the
/// latch of its part held goes on to another part and stays there, as threads do with the arenas of the C library's
/// allocator. (Not latches of [`crate::base::sync`]: no thread waits for anything while it holds one.)
///
/// One more part holds the images that trees pin: elsewhere they would keep drained regions from getting empty.
static SLABS: [Mutex<Slabs>; PARTS_MAX + 1] = [const { Mutex::new(Slabs::new()) }; PARTS_MAX + 1];
const PARTS_MAX: usize = 16;
const PINNED_PART: usize = PARTS_MAX;

/// As many parts are used as there are processors, since no more threads take memory at a time: each part keeps memory
/// that the others cannot use, and threads would wander over all of them in time.
fn parts() -> usize {
    static PARTS: OnceLock<usize> = OnceLock::new();
    *PARTS.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get).min(PARTS_MAX))
}

thread_local! {
    /// The part of this thread.
    static PART: Cell<usize> = const { Cell::new(0) };
}

/// Bits of the number of a slab in its part; those above are the number of the part.
const SLAB_BITS: u32 = 27;
const _: () = assert!(PINNED_PART << SLAB_BITS < (ALLOCATOR >> SLAB_BITS << SLAB_BITS) as usize);

/// Where a piece is from: its part, and its slab there.
fn source(part: usize, slab: u32) -> u32 {
    assert!(slab < 1 << SLAB_BITS, "all memory is smaller than so many slabs");
    u32_of(part) << SLAB_BITS | slab
}

/// Takes one of `pieces` pieces of a slab, of any part but that of pinned images; returns where it is from.
fn take(pieces: usize) -> (NonNull<u8>, u32) {
    let (first, count) = (PART.get(), parts());
    let free = (0..count).map(|step| (first + step) % count).find_map(|part| Some((part, SLABS[part].try_lock()?)));
    let (part, mut slabs) = free.unwrap_or_else(|| (first, SLABS[first].lock()));
    let (start, slab) = slabs.take(pieces);
    drop(slabs);
    PART.set(part);
    (start, source(part, slab))
}

/// As [`take`], for an image that a tree pins.
fn take_pinned(pieces: usize) -> (NonNull<u8>, u32) {
    let (start, slab) = SLABS[PINNED_PART].lock().take(pieces);
    (start, source(PINNED_PART, slab))
}

/// Miri and sanitizers watch what the allocator gives and takes.
const IS_WATCHED: bool = cfg!(any(miri, sanitized));

impl Image {
    /// An image of `len` bytes, which are whatever an earlier image left there: the caller writes all of them before
    /// any thread reads.
    ///
    /// # Panics
    /// When `len` is 4 GiB or more.
    #[must_use]
    pub fn of_len(len: usize) -> Self {
        Self::taken_by(take, len)
    }

    /// As [`Self::of_len`], in the memory of images that trees pin.
    ///
    /// # Panics
    /// When `len` is 4 GiB or more.
    #[must_use]
    pub fn pinned_of_len(len: usize) -> Self {
        Self::taken_by(take_pinned, len)
    }

    /// The same bytes for a tree that pins them: the image itself, if it lies in memory that is never drained, or else
    /// a copy in such memory.
    #[must_use]
    pub fn pinned(&self) -> Self {
        if self.head().slab >> SLAB_BITS >= u32_of(PINNED_PART) {
            return self.clone();
        }
        let mut pinned = Self::pinned_of_len(self.len());
        pinned.make_mut().copy_from_slice(self);
        pinned
    }

    fn taken_by(take: fn(usize) -> (NonNull<u8>, u32), len: usize) -> Self {
        let stored_len = u32_of(len);
        let pieces = pieces_of(HEAD_BYTES + len).filter(|_| !IS_WATCHED);
        let piece = pieces.map(take);
        let (start, slab) = piece.unwrap_or_else(|| (allocate(layout(len)), ALLOCATOR));
        let head = Head { holders: AtomicUsize::new(1), len: stored_len, slab };
        let start = start.cast::<Head>();
        // SAFETY: the memory is as long as a head and `len` bytes, at least as strictly aligned as a head, and no other
        // code uses it.
        unsafe { start.write(head) };
        let mut image = Self(start);
        if cfg!(test) || IS_WATCHED {
            // So that tests see reads of bytes that were never written.
            image.make_mut().fill(0xa5);
        }
        image
    }

    /// The bytes, to be written: a copy of them, if others hold them as well.
    #[must_use]
    pub fn make_mut(&mut self) -> &mut [u8] {
        // Acquire: after the last look of each holder that let go of them.
        if self.head().holders.load(Ordering::Acquire) != 1 {
            *self = Self::from(&**self);
        }
        // SAFETY: initialised, since the memory came as zeros and only heads and bytes were written to it; and their
        // only holder is borrowed.
        unsafe { slice::from_raw_parts_mut(self.start().as_ptr(), self.len()) }
    }

    /// Bytes of memory that the image takes.
    #[inline]
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let bytes = HEAD_BYTES + self.len();
        if self.head().slab == ALLOCATOR { bytes } else { piece_for(bytes).unwrap_or(bytes) }
    }

    /// Gives up the name of a holder, but not the hold.
    pub(super) fn into_raw(self) -> NonNull<Head> {
        ManuallyDrop::new(self).0
    }

    /// The holder that was [`Self::into_raw`].
    ///
    /// # Safety
    /// There is a hold that belongs to no other holder.
    #[inline]
    pub(super) unsafe fn from_raw(head: NonNull<Head>) -> Self {
        Self(head)
    }

    #[inline]
    fn head(&self) -> &Head {
        // SAFETY: it was written when the image was made, and lives until the last holder is gone.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    fn start(&self) -> NonNull<u8> {
        // SAFETY: the bytes are behind the head.
        unsafe { self.0.add(1) }.cast()
    }

    /// Gives the memory back.
    ///
    /// # Safety
    /// No handle to the image is left, and this is done once.
    #[cold]
    unsafe fn free(&self) {
        let (start, &Head { slab, .. }) = (self.0.cast::<u8>(), self.head());
        if slab == ALLOCATOR {
            // SAFETY: it was allocated with this layout.
            unsafe { dealloc(start.as_ptr(), layout(self.len())) };
            return;
        }
        let (part, slab) = (usize_of32(slab >> SLAB_BITS), slab & ((1 << SLAB_BITS) - 1));
        // SAFETY: it was taken from that slab of that part; the rest is the caller's promise.
        let region = unsafe { SLABS[part].lock().give(start, slab) };
        // If it is not wanted any more, it is unmapped after the latch is let go.
        drop(region);
    }
}

/// The layout of an image of `len` bytes that is no piece of a slab. (Stricter than a head's, zeros would be written
/// where the system has them.)
fn layout(len: usize) -> Layout {
    Layout::from_size_align(HEAD_BYTES + len, align_of::<Head>()).expect("an image is smaller than the address space")
}

/// Zeroed memory of this layout.
fn allocate(layout: Layout) -> NonNull<u8> {
    // SAFETY: no layout of an image is empty.
    NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

impl Deref for Image {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: initialised, and shared bytes are not written.
        unsafe { slice::from_raw_parts(self.start().as_ptr(), usize_of32(self.head().len)) }
    }
}

impl Clone for Image {
    #[inline]
    fn clone(&self) -> Self {
        // Relaxed: a thread that has one holder can make others without telling other threads.
        if self.head().holders.fetch_add(1, Ordering::Relaxed) > usize::MAX / 2 {
            abort();
        }
        Self(self.0)
    }
}

impl Drop for Image {
    #[inline]
    fn drop(&mut self) {
        // Release: all looks at the bytes come before.
        if self.head().holders.fetch_sub(1, Ordering::Release) == 1 {
            // And this comes after all of them. (A load, because the thread sanitizer knows no fences.)
            self.head().holders.load(Ordering::Acquire);
            // SAFETY: this was the last holder.
            unsafe { self.free() };
        }
    }
}

impl From<&[u8]> for Image {
    fn from(bytes: &[u8]) -> Self {
        let mut image = Self::of_len(bytes.len());
        image.make_mut().copy_from_slice(bytes);
        image
    }
}

impl From<Vec<u8>> for Image {
    fn from(bytes: Vec<u8>) -> Self {
        Self::from(&*bytes)
    }
}

debug_by!(Image, self => len: self.len());

/// The regions of memory that were being drained at a moment. A region goes back to the system when the holders of the
/// images in it have let go of them, and go on with copies.
#[derive(Debug)]
pub struct Draining {
    /// Sorted.
    addresses: Vec<usize>,
}

impl Draining {
    /// Begins to drain the regions with the fewest bytes of images, while more memory is mapped than images and spare
    /// regions explain. Returns all regions that are being drained.
    #[must_use]
    pub fn begin() -> Self {
        let mut addresses = Vec::new();
        SLABS[..parts()].iter().for_each(|slabs| slabs.lock().drain(&mut addresses));
        addresses.sort_unstable();
        Self { addresses }
    }

    /// Whether no region is being drained.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// Whether an image lies in one of them.
    #[must_use]
    pub fn holds(&self, image: &Image) -> bool {
        let region = image.0.addr().get() & !(HUGE_PAGE_BYTES - 1);
        self.addresses.binary_search(&region).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::prefetch::CACHE_LINE_BYTES;
    use std::thread;

    /// Short ones, some of each kind of piece, some that would waste too much of one, and long ones.
    const LENS: [usize; 10] = [0, 1, 1000, 1024, 4096, 8200, 33_000, 40_000, 67_000, 100_000];

    #[test]
    fn an_image_keeps_its_bytes_whoever_comes_and_goes() {
        let of = |len: usize, byte: u8| Image::from(vec![byte; len]);
        let mut images: Vec<_> = LENS.iter().map(|len| (*len, 1, of(*len, 1))).collect();
        for byte in 2..50 {
            let changed = usize::from(byte) * 5 % LENS.len();
            images[changed] = (LENS[changed], byte, of(LENS[changed], byte));
            assert!(images.iter().all(|(len, byte, image)| **image == vec![*byte; *len]));
        }
    }

    #[test]
    fn nobody_writes_what_others_hold() {
        let mut image = Image::from(&b"image"[..]);
        let other = image.clone();
        image.make_mut()[0] = b'I';
        assert_eq!((&*image, &*other), (&b"Image"[..], &b"image"[..]));
        let bytes = image.as_ptr();
        assert_eq!(image.make_mut().as_ptr(), bytes, "who is alone need not copy");
    }

    #[test]
    fn the_memory_of_an_image_is_what_is_taken_for_it() {
        for len in LENS {
            let taken = Image::of_len(len).memory_bytes();
            assert!(
                taken >= HEAD_BYTES + len && taken <= HEAD_BYTES + len + len / 8 + CACHE_LINE_BYTES,
                "{len} {taken}"
            );
        }
    }

    #[test]
    fn what_a_tree_pins_lies_in_memory_that_is_not_drained() {
        let addr = |image: &Image| image.as_ptr().addr();
        for len in LENS {
            let cached = Image::from(vec![7; len]);
            let pinned = cached.pinned();
            assert_eq!(*pinned, *cached);
            assert_eq!(addr(&pinned.pinned()), addr(&pinned), "it is there already");
            let moves = !IS_WATCHED && pieces_of(HEAD_BYTES + len).is_some();
            assert_eq!(addr(&pinned) != addr(&cached), moves, "{len}");
            let regions = [&cached, &pinned].map(|image| image.0.addr().get() & !(HUGE_PAGE_BYTES - 1));
            assert_eq!(regions[0] != regions[1], moves, "{len}");
        }
    }

    #[test]
    fn a_thread_that_finds_a_part_of_the_memory_in_use_goes_on_to_another() {
        if IS_WATCHED || parts() < 2 {
            return;
        }
        let part_of = |image: &Image| usize_of32(image.head().slab >> SLAB_BITS);
        let first = Image::from(vec![7; 8200]);
        let used = part_of(&first);
        let take = || {
            PART.set(used);
            (Image::from(vec![8; 8200]), PART.get())
        };
        // The threads of other tests may use every other part for a moment: then the thread waits for the one that is
        // held here, which once was never let go.
        let mut tried = (0..100).map(|_| {
            let held = SLABS[used].lock();
            thread::scope(|scope| {
                let taker = scope.spawn(take);
                (0..10_000).take_while(|_| !taker.is_finished()).for_each(|_| thread::yield_now());
                drop(held);
                taker.join().unwrap()
            })
        });
        let (second, stays) = tried.find(|(image, _)| part_of(image) != used).expect("another part is free");
        assert_ne!(part_of(&first), part_of(&second));
        assert_eq!(part_of(&second), stays, "it stays there");
        assert!(first.iter().all(|byte| *byte == 7) && second.iter().all(|byte| *byte == 8));
    }

    #[test]
    fn the_last_holder_of_many_threads_frees_it() {
        let image = Image::from(vec![7; 8200]);
        thread::scope(|scope| {
            for _ in 0..4 {
                let image = image.clone();
                scope.spawn(move || (0..100).for_each(|_| assert_eq!(image.clone()[8199], 7)));
            }
        });
        drop(image);
    }
}
