//! How the cost of work grows with its size.

use std::time::Duration;

use crate::cost::thread_time;

/// Checks that work of four times the size takes no more than `factor` times the CPU time of this thread: some 4 where
/// it grows linearly, 16 where it grows with the square. `prepare` makes what the work of a size needs, whose time does
/// not count.
///
/// The lowest of several times counts, because other processes only ever add to them.
///
/// # Panics
/// When it takes more.
pub fn assert_growth<T>(
    what: &str,
    size: usize,
    factor: f64,
    mut prepare: impl FnMut(usize) -> T,
    mut work: impl FnMut(T),
) {
    let mut least = |size: usize| {
        let one = |_| {
            let prepared = prepare(size);
            let before = thread_time();
            work(prepared);
            thread_time().saturating_sub(before)
        };
        (0..3).map(one).min().unwrap_or_default().max(Duration::from_micros(1))
    };
    let (once, four) = (least(size), least(4 * size));
    let ratio = four.as_secs_f64() / once.as_secs_f64();
    assert!(ratio <= factor, "{what}: {once:?} for {size}, {four:?} for {}: {ratio:.1} times as long", 4 * size);
}
