//! Progress on stderr: shown on a terminal only.
//!
//! Lines are shorter than a terminal is wide: so what the terminal itself writes behind one, as `^C`, stays in its line
//! and goes with it.

use crate::text::short;
use indicatif::{ProgressBar, ProgressFinish, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::time::Duration;

/// How often a line changes by itself.
const TICK: Duration = Duration::from_millis(200);

/// A bar over a known number of `unit`s, with rate and time left; with the time so far until the first of them is done.
///
/// # Panics
/// Never: the template is valid.
#[must_use]
pub fn bar(total: u64, what: &str, unit: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix:>12} {bar:10} {percent:>3}% {rate}").expect("a valid template");
    let style = style.with_key("rate", move |state: &ProgressState, out: &mut dyn Write| {
        // A line that cannot be made stays empty.
        out.write_str(&rate(state.pos(), state.per_sec(), unit, state.elapsed(), state.eta())).ok();
    });
    started(ProgressBar::new(total), style, what)
}

/// What stands behind a bar.
fn rate(done: u64, per_second: f64, unit: &str, elapsed: Duration, left: Duration) -> String {
    if done == 0 {
        return format!("no {unit} yet, {} s", elapsed.as_secs());
    }
    format!("{} {unit}/s, {} s left", short(per_second), left.as_secs())
}

/// A bar over a known number of bytes, with rate and time left; its message is free.
///
/// # Panics
/// Never: the template is valid.
#[must_use]
pub fn byte_bar(total: u64, what: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix:>12} {bar:10} {bytes}/{total_bytes} {msg} {eta} left");
    started(ProgressBar::new(total), style.expect("a valid template"), what)
}

/// A turning wheel for work of unknown length; its message is free.
///
/// # Panics
/// Never: the template is valid.
#[must_use]
pub fn wheel(what: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix:>12} {spinner} {elapsed} {msg}").expect("a valid template");
    started(ProgressBar::new_spinner(), style, what)
}

/// What a wheel says of calls: their rate, and the seconds that are left.
#[must_use]
pub fn calls_in_time(per_second: f64, left: f64) -> String {
    format!("{} calls/s, {left:.0} s left", short(per_second))
}

/// A line that is gone when it is dropped, however the work ended.
fn started(bar: ProgressBar, style: ProgressStyle, what: &str) -> ProgressBar {
    let bar = bar.with_style(style).with_prefix(what.to_owned()).with_finish(ProgressFinish::AndClear);
    bar.enable_steady_tick(TICK);
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_three_digits_and_a_long_first_call_is_no_silence() {
        let text = |done, rate_now| rate(done, rate_now, "calls", Duration::from_secs(5), Duration::from_secs(12));
        assert_eq!(text(1_000, 434_962.857_3), "435K calls/s, 12 s left");
        assert_eq!(text(0, 0.0), "no calls yet, 5 s");
        assert_eq!(calls_in_time(1_269.874_9, 3.4), "1.27K calls/s, 3 s left");
    }
}
