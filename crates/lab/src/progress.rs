//! Progress on stderr: shown on a terminal only.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// A bar over a known number of `unit`s, with rate and time left.
///
/// # Panics
/// Never: the template is valid.
#[must_use]
pub fn bar(total: u64, what: &str, unit: &str) -> ProgressBar {
    let template = format!("{{prefix:>12}} {{wide_bar}} {{human_pos}}/{{human_len}} {unit} {{per_sec}} {{eta}} left");
    let style = ProgressStyle::with_template(&template).expect("a valid template");
    ProgressBar::new(total).with_style(style).with_prefix(what.to_owned())
}

/// A bar over a known number of bytes, with rate and time left; its message is free.
///
/// # Panics
/// Never: the template is valid.
#[must_use]
pub fn byte_bar(total: u64, what: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix:>12} {wide_bar} {bytes}/{total_bytes} {msg} {eta} left");
    ProgressBar::new(total).with_style(style.expect("a valid template")).with_prefix(what.to_owned())
}

/// A turning wheel for work of unknown length; its message is free.
///
/// # Panics
/// Never: the template is valid.
#[must_use]
pub fn wheel(what: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix:>12} {spinner} {elapsed} {msg}").expect("a valid template");
    let wheel = ProgressBar::new_spinner().with_style(style).with_prefix(what.to_owned());
    wheel.enable_steady_tick(Duration::from_millis(200));
    wheel
}
