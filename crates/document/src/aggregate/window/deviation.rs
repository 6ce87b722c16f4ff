//! A standard deviation that numbers leave again.

use crate::base::num::nearest_f64;
use crate::bson::number::Number;
use crate::bson::{Value, ValueBuf};
use crate::expr::RemovableSum;

/// The standard deviation of numbers in a window: the sum of the squares of what they are apart from their mean is
/// brought in line with each number that comes or goes (T. F. Chan, G. H. Golub, R. J. LeVeque 1983).
#[derive(Debug, Default)]
pub(super) struct RemovableDeviation {
    /// The finite numbers.
    count: i64,
    sum: RemovableSum,
    squares: RemovableSum,
    not_finite: usize,
}

impl RemovableDeviation {
    /// Adds a number.
    pub(super) fn add(&mut self, number: f64) {
        if !number.is_finite() {
            self.not_finite += 1;
            return;
        }
        self.change_squares(number, 1);
        self.count += 1;
        self.sum.add(Number::Double(number));
    }

    /// Removes a number that was added.
    pub(super) fn remove(&mut self, number: f64) {
        if !number.is_finite() {
            self.not_finite -= 1;
            return;
        }
        if self.count == 1 {
            (self.count, self.sum, self.squares) = Default::default();
            return;
        }
        self.change_squares(number, -1);
        self.count -= 1;
        self.sum.remove(Number::Double(number));
    }

    /// A number comes, or goes for -1.
    fn change_squares(&mut self, number: f64, by: i64) {
        let (before, after) = (nearest_f64(self.count), nearest_f64(self.count + by));
        if before > 0.0 {
            let apart = before * number - self.sum.to_f64();
            self.squares.add(Number::Double(apart * apart * nearest_f64(by) / (before * after)));
        }
    }

    /// The deviation of a whole population or of a sample: null of too few numbers and while one is not finite, and the
    /// integer 0 of one number, or where rounding leaves less than nothing.
    pub(super) fn result(&self, of_sample: bool) -> ValueBuf {
        let divisor = if of_sample { self.count - 1 } else { self.count };
        if self.not_finite > 0 || divisor <= 0 {
            return Value::Null.into();
        }
        let squares = self.squares.to_f64();
        if squares < 0.0 || self.count == 1 {
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
    }
}
