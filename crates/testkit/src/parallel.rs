//! Many independent cases on all cores.

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Runs all cases, a thread per core, until one fails.
///
/// # Errors
/// What the first case that failed says.
///
/// # Panics
/// When a case panics.
pub fn each<T: Send>(
    cases: impl IntoIterator<Item = T, IntoIter: Send>,
    run: impl Fn(T) -> Result<(), String> + Sync,
) -> Result<(), String> {
    let cases = Mutex::new(cases.into_iter());
    // Tells the other threads to stop; what failed is told by the result of the thread itself.
    let failed = AtomicBool::new(false);
    let next = || cases.lock().expect("no thread panics while it takes a case").next();
    let work = || {
        while !failed.load(Ordering::Relaxed) {
            let Some(case) = next() else { break };
            run(case).inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
        }
        Ok(())
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        handles.into_iter().try_for_each(|handle| handle.join().expect("a case panicked"))
    })
}

/// The number in an environment variable, or else `default`.
///
/// # Panics
/// When the variable is set to something else.
#[must_use]
pub fn count_from_env(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}
