//! A swip: a pointer to an image, kept where its readers look for it, until it is taken away from there.
//!
//! (Leis, Haubenschild, Kemper, Neumann: "LeanStore: In-Memory Data Management Beyond Main Memory", ICDE 2018, section
//! III; the word is theirs, for a pointer that is swizzled or not.) Here an empty swip says nothing, and a reader of
//! one gets a holder of its own.
//!
//! # Invariants
//! 1. A word that is not null holds its image: the memory lives as long as the word stays.
//! 2. Only the thread that has marked the word as locked stores to it, and only a word without that mark is exchanged
//!    for another. So no thread takes the image away from a reader that is about to be a holder of it.

use std::fmt;
use std::hint;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use super::image::{Head, Image};
use crate::base::sync::AtomicPtr;
use crate::base::sync::thread::yield_now;

/// A place for an image that many may read at once. It also counts reads, up to [`ImageSwip::HEAT_MAX`].
pub struct ImageSwip(AtomicPtr<Head>);

/// A reader is about to be a holder.
const LOCKED: usize = 1;
/// Reads since [`ImageSwip::cool`], as a multiple of this.
const HEAT: usize = 2;
/// How often a reader looks whether another reader has left.
const LOOKS: usize = 4;
const MARKS: usize = LOCKED | (ImageSwip::HEAT_MAX as usize * HEAT);

const _: () = assert!(MARKS < align_of::<Head>(), "the marks are bits that are zero in a pointer");

impl ImageSwip {
    /// More reads than these say nothing new.
    pub const HEAT_MAX: u8 = 3;

    /// An empty one.
    #[must_use]
    pub const fn empty() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// The image, and counts the read. None if it is empty, or others read it at this very moment: no thread waits long
    /// here.
    #[inline]
    #[must_use]
    pub fn get(&self) -> Option<Image> {
        let word = self.lock()?;
        let head = head(word)?;
        // SAFETY: the word holds the image (1) and stays while it is locked (2); that hold is not given up here.
        let held = ManuallyDrop::new(unsafe { Image::from_raw(head) });
        let image = Image::clone(&held);
        let is_hottest = heat(word) == Self::HEAT_MAX;
        // Release: a thread that takes the image away comes after this.
        self.0.store(if is_hottest { word } else { word.map_addr(|addr| addr + HEAT) }, Ordering::Release);
        Some(image)
    }

    /// Locks the word, and says what it was. None if it is empty, or stays locked for several looks.
    #[inline]
    fn lock(&self) -> Option<*mut Head> {
        for _ in 0..LOOKS {
            // Relaxed: what is read is only a guess until it is exchanged.
            let guess = self.0.load(Ordering::Relaxed);
            if guess.is_null() {
                return None;
            }
            if guess.addr() & LOCKED == 0 {
                let locked = guess.map_addr(|addr| addr | LOCKED);
                // Acquire: what was written to the image before it came here. What was exchanged is the word to go on
                // with: another image may have been put at the address that the guess points to.
                if let Ok(word) = self.0.compare_exchange(guess, locked, Ordering::Acquire, Ordering::Relaxed) {
                    return Some(word);
                }
            }
            hint::spin_loop();
        }
        None
    }

    /// Where the image is in memory; null if it is empty.
    #[inline]
    #[must_use]
    pub fn address(&self) -> *const u8 {
        // Relaxed: no thread reads through it.
        self.0.load(Ordering::Relaxed).map_addr(|addr| addr & !MARKS).cast_const().cast()
    }

    /// Puts an image in, unless one is there.
    pub fn put(&self, image: Image) {
        let word = image.into_raw().as_ptr();
        // Release: what was written to the image.
        if self.0.compare_exchange(ptr::null_mut(), word, Ordering::Release, Ordering::Relaxed).is_err() {
            // SAFETY: it was made from an image a moment ago, and is that image again.
            drop(head(word).map(|head| unsafe { Image::from_raw(head) }));
        }
    }

    /// Takes the image out. Waits for a reader that is there at this very moment: for some ten instructions and one
    /// line of memory, unless the system has just taken the processor away from it.
    pub fn take(&self) -> Option<Image> {
        loop {
            if let Some(word) = self.lock() {
                // SAFETY: the word held the image (1), and that hold is passed on: no other thread stores while it is
                // locked (2).
                let image = head(word).map(|head| unsafe { Image::from_raw(head) });
                self.0.store(ptr::null_mut(), Ordering::Release);
                return image;
            }
            if self.address().is_null() {
                return None;
            }
            yield_now();
        }
    }

    /// Counts reads from zero again, and says how many there were. Those that go on just now count as one.
    pub fn cool(&self) -> u8 {
        match self.lock() {
            Some(word) => {
                self.0.store(word.map_addr(|addr| addr & !MARKS), Ordering::Release);
                heat(word)
            }
            None => u8::from(!self.address().is_null()),
        }
    }
}

/// What a word points to.
#[inline]
fn head(word: *mut Head) -> Option<NonNull<Head>> {
    NonNull::new(word.map_addr(|addr| addr & !MARKS))
}

/// How many reads a word has counted.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the marks are three bits")]
fn heat(word: *mut Head) -> u8 {
    (word.addr() & MARKS) as u8 / HEAT as u8
}

impl Default for ImageSwip {
    fn default() -> Self {
        Self::empty()
    }
}

impl Drop for ImageSwip {
    fn drop(&mut self) {
        drop(self.take());
    }
}

impl fmt::Debug for ImageSwip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ImageSwip").field(&self.address()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    fn image(byte: u8) -> Image {
        Image::from(vec![byte; 1100])
    }

    #[test]
    fn who_reads_holds_what_is_taken_away_later() {
        let swip = ImageSwip::empty();
        assert!(swip.get().is_none() && swip.take().is_none() && swip.address().is_null());
        swip.put(image(1));
        let read = swip.get().unwrap();
        assert_eq!(swip.address().addr(), read.as_ptr().addr() - super::super::image::HEAD_BYTES);
        drop(swip.take().unwrap());
        assert!(swip.get().is_none());
        assert_eq!(*read, [1; 1100]);
    }

    #[test]
    fn who_comes_second_is_let_go() {
        let swip = ImageSwip::empty();
        swip.put(image(1));
        swip.put(image(2));
        assert_eq!(*swip.take().unwrap(), [1; 1100]);
        assert!(swip.take().is_none());
    }

    #[test]
    fn reads_are_counted_up_to_a_bound() {
        let swip = ImageSwip::empty();
        assert_eq!(swip.cool(), 0);
        swip.put(image(1));
        for (reads, counted) in [(0, 0), (1, 1), (2, 2), (3, 3), (7, 3)] {
            (0..reads).for_each(|_| drop(swip.get().unwrap()));
            assert_eq!((swip.cool(), swip.cool()), (counted, 0));
        }
    }

    #[test]
    fn one_that_is_dropped_lets_go_of_its_image() {
        let swip = ImageSwip::empty();
        let mut held = image(1);
        swip.put(held.clone());
        drop(swip.get());
        drop(swip);
        let bytes = held.as_ptr();
        assert_eq!(held.make_mut().as_ptr(), bytes, "nobody else holds it");
    }

    #[test]
    fn readers_see_whole_images_while_they_come_and_go() {
        let swip = ImageSwip::empty();
        let (rounds, done) = (if cfg!(miri) { 10 } else { 2000 }, AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut read = 0;
                    while read < rounds {
                        let Some(image) = swip.get() else {
                            yield_now();
                            continue;
                        };
                        assert!(image.iter().all(|byte| *byte == image[0]));
                        read += 1;
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                });
            }
            for byte in (0..=u8::MAX).cycle() {
                swip.put(image(byte));
                yield_now();
                swip.cool();
                assert_eq!(*swip.take().unwrap(), [byte; 1100]);
                if done.load(Ordering::Relaxed) == 3 {
                    break;
                }
            }
        });
    }
}
