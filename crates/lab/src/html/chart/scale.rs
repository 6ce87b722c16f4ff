//! From values to places in a picture, with ticks at round numbers.

/// A scale from a range of values to a range of places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    log: bool,
    from: f64,
    to: f64,
    start: f64,
    end: f64,
}

impl Scale {
    /// An even scale from 0 to a round number that is no less than `max`, on the places from `start` to `end`.
    pub(super) fn linear(max: f64, start: f64, end: f64) -> Self {
        let max = if max > 0.0 && max.is_finite() { max } else { 1.0 };
        let step = step(max, 4.0);
        Self { log: false, from: 0.0, to: (max / step - 1e-9).ceil() * step, start, end }
    }

    /// An even scale between exactly these values.
    pub(super) fn exact(from: f64, to: f64, start: f64, end: f64) -> Self {
        let to = if to > from { to } else { from + 1.0 };
        Self { log: false, from, to, start, end }
    }

    /// A logarithmic scale from one power of ten to another, with `min` and `max` between them.
    pub(super) fn log(min: f64, max: f64, start: f64, end: f64) -> Self {
        let positive = |value: f64| if value > 0.0 && value.is_finite() { value } else { 1.0 };
        let (min, max) = (positive(min), positive(max));
        let from = min.log10().floor();
        let to = max.log10().ceil().max(from + 1.0);
        Self { log: true, from, to, start, end }
    }

    /// The place of a value; of one outside of the range, the nearer end.
    pub(super) fn at(&self, value: f64) -> f64 {
        let value = if !self.log {
            value
        } else if value > 0.0 {
            value.log10()
        } else {
            self.from
        };
        let share = ((value - self.from) / (self.to - self.from)).clamp(0.0, 1.0);
        let share = if share.is_finite() { share } else { 0.0 };
        self.start + share * (self.end - self.start)
    }

    /// Round values of the range, about `count` of them, or fewer.
    pub(super) fn ticks(&self, count: f64) -> Vec<f64> {
        let step =
            if self.log { ((self.to - self.from) / count).ceil().max(1.0) } else { step(self.to - self.from, count) };
        let mut ticks = Vec::new();
        // Plus zero, so that no tick is a negative one.
        let mut at = (self.from / step - 1e-9).ceil() + 0.0;
        while at * step <= self.to + step * 1e-9 {
            ticks.push(if self.log { 10_f64.powf(at * step) } else { at * step });
            at += 1.0;
        }
        ticks
    }
}

/// The distance of about `count` ticks in a range of this length: 1, 2 or 5 times a power of ten.
fn step(length: f64, count: f64) -> f64 {
    let rough = length / count;
    let power = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= rough * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6 * b.abs().max(1.0)
    }

    #[test]
    fn ends_are_placed_at_ends() {
        for scale in
            [Scale::linear(97.0, 10.0, 200.0), Scale::exact(0.0, 5.0, 10.0, 200.0), Scale::log(3.0, 800.0, 10.0, 200.0)]
        {
            let ticks = scale.ticks(5.0);
            assert!(
                near(scale.at(ticks[0]), 10.0) && near(scale.at(*ticks.last().unwrap()), 200.0),
                "{scale:?} {ticks:?}"
            );
        }
        // A picture's y axis points down.
        let down = Scale::linear(1.0, 200.0, 10.0);
        assert!(near(down.at(0.0), 200.0) && near(down.at(1.0), 10.0));
    }

    #[test]
    fn ticks_are_few_round_and_inside() {
        for max in [0.000_7, 0.3, 1.0, 7.0, 99.0, 1234.0, 8.1e9] {
            let scale = Scale::linear(max, 0.0, 100.0);
            let ticks = scale.ticks(5.0);
            assert!((3..=8).contains(&ticks.len()) && ticks[0].is_sign_positive(), "{max}: {ticks:?}");
            assert!(*ticks.last().unwrap() >= max * (1.0 - 1e-9), "{max}: {ticks:?}");
            for tick in ticks.iter().skip(1) {
                let lead = tick / 10_f64.powf(tick.log10().floor());
                assert!(near(lead * 2.0, (lead * 2.0).round()), "{max}: {tick}");
            }
        }
        let log = Scale::log(0.8, 3e7, 0.0, 100.0).ticks(5.0);
        assert!(log.len() <= 6 && log.iter().all(|tick| near(tick.log10(), tick.log10().round())), "{log:?}");
    }

    #[test]
    fn no_value_falls_outside_or_is_not_a_number() {
        for scale in [
            Scale::linear(0.0, 0.0, 1.0),
            Scale::linear(f64::NAN, 0.0, 1.0),
            Scale::log(0.0, 0.0, 0.0, 1.0),
            Scale::exact(0.0, 0.0, 0.0, 1.0),
        ] {
            for value in [-1.0, 0.0, 1.0, 1e300, f64::NAN, f64::INFINITY] {
                assert!((0.0..=1.0).contains(&scale.at(value)), "{scale:?} {value}");
            }
            assert!(!scale.ticks(5.0).is_empty());
        }
    }
}
