//! Numbers as pages show them.

/// A figure with three digits or all before the point, or a dash.
pub(super) fn shown(value: Option<f64>) -> String {
    let Some(value) = value else { return "-".to_owned() };
    let decimals = match value.abs() {
        0.0 => 0,
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.decimals$}");
    let (whole, fraction) = text.split_once('.').map_or((text.as_str(), ""), |(whole, fraction)| (whole, fraction));
    let mut grouped = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if fraction.is_empty() { grouped } else { format!("{grouped}.{fraction}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_shown_with_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.0123, "0.012"),
            (1.234, "1.23"),
            (12.34, "12.3"),
            (999.6, "1,000"),
            (1_234_567.8, "1,234,568"),
        ] {
            assert_eq!(shown(Some(value)), text);
        }
        assert_eq!(shown(None), "-");
    }
}
