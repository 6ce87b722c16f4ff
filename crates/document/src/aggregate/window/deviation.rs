//! A standard deviation that numbers leave again.

use super::moments::Moments;
use crate::base::num::nearest_f64;
use crate::bson::{Value, ValueBuf};

/// The standard deviation of the numbers in a window.
#[derive(Debug, Default)]
pub(super) struct RemovableDeviation {
    /// Of the finite numbers.
    squares: Moments,
    not_finite: usize,
}

impl RemovableDeviation {
    /// Adds a number.
    pub(super) fn add(&mut self, number: f64) {
        match number.is_finite() {
            true => self.squares.add(number, number),
            false => self.not_finite += 1,
        }
    }

    /// Removes a number that was added.
    pub(super) fn remove(&mut self, number: f64) {
        match number.is_finite() {
            true => self.squares.remove(number, number),
            false => self.not_finite -= 1,
        }
    }

    /// The deviation of a whole population or of a sample: null of too few numbers and while one is not finite, and the
    /// integer 0 of one number, or where rounding leaves less than nothing.
    pub(super) fn result(&self, of_sample: bool) -> ValueBuf {
        let count = self.squares.count();
        let divisor = if of_sample { count - 1 } else { count };
        if self.not_finite > 0 || divisor <= 0 {
            return Value::Null.into();
        }
        let squares = self.squares.apart();
        if squares < 0.0 || count == 1 {
            return Value::Int32(0).into();
        }
        Value::Double((squares / nearest_f64(divisor)).sqrt()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deviation_is_that_of_the_numbers_that_are_left() {
        let mut deviation = RemovableDeviation::default();
        let of =
            |deviation: &RemovableDeviation| [false, true].map(|of_sample| deviation.result(of_sample).view().as_f64());
        assert_eq!(of(&deviation), [None, None]);
        for number in [f64::NAN, 7.0, 2.0, f64::INFINITY, 4.0] {
            deviation.add(number);
        }
        assert_eq!(of(&deviation), [None, None]);
        deviation.remove(f64::NAN);
        deviation.remove(7.0);
        deviation.remove(f64::INFINITY);
        let [population, sample] = of(&deviation).map(Option::unwrap_or_default);
        assert!((population - 1.0).abs() < 1e-12 && (sample - 2_f64.sqrt()).abs() < 1e-12, "{population} {sample}");
        deviation.remove(2.0);
        assert_eq!(of(&deviation), [Some(0.0), None]);
        deviation.remove(4.0);
        deviation.add(1.0);
        assert_eq!(of(&deviation), [Some(0.0), None]);
        for number in [1e200, 0.1, 0.1, 0.1] {
            deviation.add(number);
        }
        assert_eq!(of(&deviation), [Some(f64::INFINITY); 2]);
        deviation.remove(1e200);
        deviation.remove(1.0);
        assert_eq!(of(&deviation), [Some(0.0); 2]);
    }
}
