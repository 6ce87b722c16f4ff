//! Many independent cases on all cores.
//!
//! Each case stays on one core, with the threads that it begins: threads that take turns wake each other several times
//! as fast there.

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
    let work = &|number| {
        stay_on_core(number);
        while !failed.load(Ordering::Relaxed) {
            let Some(case) = next() else { break };
            run(case).inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
        }
        Ok(())
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|number| scope.spawn(move || work(number))).collect();
        handles.into_iter().try_for_each(|handle| handle.join().expect("a case panicked"))
    })
}

/// Keeps this thread, and those that it begins, on one of the cores that it may run on, where the system can do so.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn stay_on_core(number: usize) {
    use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
    use nix::unistd::Pid;

    let this = Pid::from_raw(0);
    let Ok(allowed) = sched_getaffinity(this) else { return };
    let core = (0..CpuSet::count()).filter(|core| allowed.is_set(*core).unwrap_or(false)).nth(number);
    let mut one = CpuSet::new();
    if core.is_some_and(|core| one.set(core).is_ok()) {
        // It runs on any core otherwise.
        _ = sched_setaffinity(this, &one);
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
const fn stay_on_core(_: usize) {}

/// The number in an environment variable, or else `default`.
///
/// # Panics
/// When the variable is set to something else.
#[must_use]
pub fn count_from_env(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}
