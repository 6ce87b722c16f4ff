//! Numbers as pages show them.

/// A figure with three digits, millions as `1.23 M`.
pub(super) fn shown(value: f64) -> String {
    let (value, unit) = if value.abs() >= 999_500.0 { (value / 1e6, " M") } else { (value, "") };
    let size = value.abs();
    let decimals = match size {
        0.0 => 0,
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.9995 => 2,
        _ => 3,
    };
    let step = if size >= 999.5 { 10_f64.powf(size.log10().floor() - 2.0) } else { 0.0 };
    let value = if step > 0.0 { (value / step).round() * step } else { value };
    let text = format!("{value:.decimals$}");
    let (whole, fraction) = text.split_once('.').map_or((text.as_str(), ""), |(whole, fraction)| (whole, fraction));
    let mut grouped = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if fraction.is_empty() { grouped + unit } else { format!("{grouped}.{fraction}{unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_shown_with_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.0123, "0.012"),
            (0.9996, "1.00"),
            (1.234, "1.23"),
            (12.34, "12.3"),
            (999.6, "1,000"),
            (123_456.0, "123,000"),
            (9_996.0, "10,000"),
            (999_600.0, "1.00 M"),
            (1_234_567.8, "1.23 M"),
            (40_040_000.0, "40.0 M"),
        ] {
            assert_eq!(shown(value), text);
        }
    }
}
