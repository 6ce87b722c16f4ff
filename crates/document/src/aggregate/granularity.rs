//! The series of preferred numbers that boundaries of `$bucketAuto` are rounded to.

use super::stage::error;
use crate::base::Result;
use crate::bson::decimal::Decimal128;
use crate::bson::{Value, ValueBuf};

/// A series of numbers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Granularity {
    /// The powers of two.
    Powers,
    /// The numbers of a series between two powers of ten, and those times all powers of ten.
    Series(&'static [u16]),
}

impl Granularity {
    /// The series of a name: Renard's, the E series of resistors, 1-2-5, and powers of two.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "POWERSOF2" => Self::Powers,
            "1-2-5" => Self::Series(&[10, 20, 50]),
            "R5" => Self::Series(&[10, 16, 25, 40, 63]),
            "R10" => Self::Series(&R10),
            "R20" => Self::Series(&R20),
            "R40" => Self::Series(&R40),
            "R80" => Self::Series(&R80),
            "E6" => Self::Series(&[10, 15, 22, 33, 47, 68]),
            "E12" => Self::Series(&[10, 12, 15, 18, 22, 27, 33, 39, 47, 56, 68, 82]),
            "E24" => Self::Series(&E24),
            "E48" => Self::Series(&E48),
            "E96" => Self::Series(&E96),
            "E192" => Self::Series(&E192),
            _ => return None,
        })
    }

    /// Refuses what has no place in a series.
    ///
    /// # Errors
    /// 40258 for values that are no numbers, 40259 for NaN, 40260 for numbers below zero.
    pub(super) fn check(key: &Value<'_>) -> Result<()> {
        let wrong =
            |code, what: String| Err(error(code, format!("$bucketAuto can specify a 'granularity' with {what}")));
        let Some(number) = key.as_f64().filter(|_| key.kind().is_number()) else {
            let kind = key.kind().name();
            return wrong(40258, format!("numeric boundaries only, but found a value with type: {kind}"));
        };
        if number.is_nan() {
            return wrong(40259, "numeric boundaries only, but found a NaN".to_owned());
        }
        if number < 0.0 {
            return wrong(40260, "non-negative numbers only, but found a negative number".to_owned());
        }
        Ok(())
    }

    /// The least number of the series above a number.
    pub(super) fn above(self, number: &Value<'_>) -> ValueBuf {
        of_type(number, self.next(number.as_f64().unwrap_or_default(), true))
    }

    /// The greatest number of the series below a number.
    pub(super) fn below(self, number: &Value<'_>) -> ValueBuf {
        of_type(number, self.next(number.as_f64().unwrap_or_default(), false))
    }

    fn next(self, number: f64, up: bool) -> f64 {
        if number == 0.0 || !number.is_finite() {
            return number;
        }
        match (self, up) {
            (Self::Powers, true) => (number.log2().floor() + 1.0).exp2(),
            (Self::Powers, false) => (number.log2().ceil() - 1.0).exp2(),
            (Self::Series(series), true) => above(series, number),
            (Self::Series(series), false) => below(series, number),
        }
    }
}

/// A decimal stays a decimal; all other numbers become doubles.
fn of_type(like: &Value<'_>, number: f64) -> ValueBuf {
    match like {
        Value::Decimal128(_) => Value::Decimal128(Decimal128::from_f64(number)).into(),
        _ => Value::Double(number).into(),
    }
}

fn ends(series: &[u16]) -> (f64, f64) {
    (series.first().copied().map_or(1.0, f64::from), series.last().copied().map_or(1.0, f64::from))
}

fn above(series: &[u16], number: f64) -> f64 {
    let ((low, high), mut scale) = (ends(series), 1.0);
    while number >= high * scale {
        scale *= 10.0;
    }
    while number < low * scale {
        let before = low * scale;
        scale /= 10.0;
        if number >= high * scale {
            return before;
        }
    }
    series.iter().map(|step| f64::from(*step) * scale).find(|step| *step > number).unwrap_or(number)
}

fn below(series: &[u16], number: f64) -> f64 {
    let ((low, high), mut scale) = (ends(series), 1.0);
    while number <= low * scale {
        scale /= 10.0;
    }
    while number > high * scale {
        let before = high * scale;
        scale *= 10.0;
        if number <= low * scale {
            return before;
        }
    }
    series.iter().rev().map(|step| f64::from(*step) * scale).find(|step| *step < number).unwrap_or(number)
}

const R10: [u16; 10] = [100, 125, 160, 200, 250, 315, 400, 500, 630, 800];

const R20: [u16; 20] =
    [100, 112, 125, 140, 160, 180, 200, 224, 250, 280, 315, 355, 400, 450, 500, 560, 630, 710, 800, 900];

const R40: [u16; 40] = [
    100, 106, 112, 118, 125, 132, 140, 150, 160, 170, 180, 190, 200, 212, 224, 236, 250, 265, 280, 300, 315, 335, 355,
    375, 400, 425, 450, 475, 500, 530, 560, 600, 630, 670, 710, 750, 800, 850, 900, 950,
];

const R80: [u16; 80] = [
    100, 103, 106, 109, 112, 115, 118, 122, 125, 128, 132, 136, 140, 145, 150, 155, 160, 165, 170, 175, 180, 185, 190,
    195, 200, 206, 212, 218, 224, 230, 236, 243, 250, 258, 265, 272, 280, 290, 300, 307, 315, 325, 335, 345, 355, 365,
    375, 387, 400, 412, 425, 437, 450, 462, 475, 487, 500, 515, 530, 545, 560, 575, 600, 615, 630, 650, 670, 690, 710,
    730, 750, 775, 800, 825, 850, 875, 900, 925, 950, 975,
];

const E24: [u16; 24] = [10, 11, 12, 13, 15, 16, 18, 20, 22, 24, 27, 30, 33, 36, 39, 43, 47, 51, 56, 62, 68, 75, 82, 91];

const E48: [u16; 48] = [
    100, 105, 110, 115, 121, 127, 133, 140, 147, 154, 162, 169, 178, 187, 196, 205, 215, 226, 237, 249, 261, 274, 287,
    301, 316, 332, 348, 365, 383, 402, 422, 442, 464, 487, 511, 536, 562, 590, 619, 649, 681, 715, 750, 787, 825, 866,
    909, 953,
];

const E96: [u16; 96] = [
    100, 102, 105, 107, 110, 113, 115, 118, 121, 124, 127, 130, 133, 137, 140, 143, 147, 150, 154, 158, 162, 165, 169,
    174, 178, 182, 187, 191, 196, 200, 205, 210, 215, 221, 226, 232, 237, 243, 249, 255, 261, 267, 274, 280, 287, 294,
    301, 309, 316, 324, 332, 340, 348, 357, 365, 374, 383, 392, 402, 412, 422, 432, 442, 453, 464, 475, 487, 499, 511,
    523, 536, 549, 562, 576, 590, 604, 619, 634, 649, 665, 681, 698, 715, 732, 750, 768, 787, 806, 825, 845, 866, 887,
    909, 931, 953, 976,
];

const E192: [u16; 192] = [
    100, 101, 102, 104, 105, 106, 107, 109, 110, 111, 113, 114, 115, 117, 118, 120, 121, 123, 124, 126, 127, 129, 130,
    132, 133, 135, 137, 138, 140, 142, 143, 145, 147, 149, 150, 152, 154, 156, 158, 160, 162, 164, 165, 167, 169, 172,
    174, 176, 178, 180, 182, 184, 187, 189, 191, 193, 196, 198, 200, 203, 205, 208, 210, 213, 215, 218, 221, 223, 226,
    229, 232, 234, 237, 240, 243, 246, 249, 252, 255, 258, 261, 264, 267, 271, 274, 277, 280, 284, 287, 291, 294, 298,
    301, 305, 309, 312, 316, 320, 324, 328, 332, 336, 340, 344, 348, 352, 357, 361, 365, 370, 374, 379, 383, 388, 392,
    397, 402, 407, 412, 417, 422, 427, 432, 437, 442, 448, 453, 459, 464, 470, 475, 481, 487, 493, 499, 505, 511, 517,
    523, 530, 536, 542, 549, 556, 562, 569, 576, 583, 590, 597, 604, 612, 619, 626, 634, 642, 649, 657, 665, 673, 681,
    690, 698, 706, 715, 723, 732, 741, 750, 759, 768, 777, 787, 796, 806, 816, 825, 835, 845, 856, 866, 876, 887, 898,
    909, 920, 931, 942, 953, 965, 976, 988,
];
