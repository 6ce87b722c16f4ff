//! The allocator of the C library, set up for a server whose threads take large buffers for a moment.
//!
//! glibc raises the size from which it maps an allocation for itself to that of the largest one that was freed, up to
//! 32 MiB, and gives each thread one of eight arenas for each processor. A server whose clients sent documents of 15 MB
//! then keeps gigabytes in arenas that are free but for a few small allocations, and gives none of it back.

/// From which size on an allocation has pages of its own, which go back to the system when it is freed. Such an
/// allocation costs about a microsecond for each four of its pages, which is less than what fills it costs.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPED_BYTES_MIN: i32 = 512 << 10;

/// How many free bytes at the end of an arena are kept.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT_BYTES: i32 = 4 << 20;

/// In how many parts small allocations are kept: threads wait for each other where there are fewer than processors.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const ARENAS_MAX: i32 = 8;

/// Has the allocator of this process give large buffers back to the system when they are freed. To be called once, at
/// the start of a program that serves; a library leaves the allocator as the program has it. Does nothing where the C
/// library is not glibc.
pub fn give_large_buffers_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    glibc::set();
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod glibc {
    use std::ffi::c_int;

    // The numbers of `malloc.h`, which are part of glibc's ABI.
    const M_TRIM_THRESHOLD: c_int = -1;
    const M_MMAP_THRESHOLD: c_int = -3;
    const M_MMAP_MAX: c_int = -4;
    const M_ARENA_MAX: c_int = -8;

    /// How many allocations may have pages of their own.
    const MAPPED_MAX: c_int = 1 << 20;

    unsafe extern "C" {
        fn mallopt(parameter: c_int, value: c_int) -> c_int;
    }

    pub(super) fn set() {
        let settings = [
            (M_MMAP_THRESHOLD, super::MAPPED_BYTES_MIN),
            (M_TRIM_THRESHOLD, super::KEPT_BYTES),
            (M_MMAP_MAX, MAPPED_MAX),
            (M_ARENA_MAX, super::ARENAS_MAX),
        ];
        for (parameter, value) in settings {
            // SAFETY: the function is glibc's, with this signature, in every program that is linked to it. It takes two
            // numbers, keeps no pointer, and takes the allocator's lock while it changes a setting, so that it may be
            // called beside allocations of other threads; where a value is not allowed it changes nothing and says so.
            // A program with another allocator in glibc's place has this function from that allocator, or from glibc,
            // where it then changes nothing that is used.
            let _is_set = unsafe { mallopt(parameter, value) };
        }
    }
}
