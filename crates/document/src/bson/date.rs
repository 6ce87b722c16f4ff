//! Dates of the proleptic Gregorian calendar in UTC, over all milliseconds that a value can hold.
//!
//! Days are converted by the era method of Howard Hinnant (chrono-compatible low-level date algorithms).

use std::fmt::Write as _;

/// Milliseconds of a day.
pub const DAY_MS: i64 = 86_400_000;

/// A point in time as a calendar and a clock show it, UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    /// The year; 0 is the year before 1.
    pub year: i64,
    /// From 1 to 12.
    pub month: u8,
    /// From 1 to 31.
    pub day: u8,
    /// From 0 to 23.
    pub hour: u8,
    /// From 0 to 59.
    pub minute: u8,
    /// From 0 to 59.
    pub second: u8,
    /// From 0 to 999.
    pub millisecond: u16,
}

/// Days since 1970-01-01 of a day in a month from 1 to 12; days out of the month count on into other months.
#[must_use]
pub const fn days_from_civil(year: i64, month: u8, day: i64) -> i64 {
    // Years begin in March, so that the leap day is the last day of a year.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year - era * 400;
    let month_from_march = (month as i64 + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Year, month and day of a number of days since 1970-01-01.
#[must_use]
pub const fn civil_from_days(days: i64) -> (i64, u8, u8) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days - era * 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = small(day_of_year - (153 * month_from_march + 2) / 5 + 1);
    let month = small(if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 });
    let year = year_of_era + era * 400;
    (if month <= 2 { year + 1 } else { year }, month, day)
}

/// A number that is known to be below 256.
const fn small(number: i64) -> u8 {
    number.to_le_bytes()[0]
}

impl Civil {
    /// The calendar and clock of milliseconds since 1970.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        let (year, month, day) = civil_from_days(millis.div_euclid(DAY_MS));
        let rest = millis.rem_euclid(DAY_MS);
        let [low, high, ..] = (rest % 1000).to_le_bytes();
        Self {
            year,
            month,
            day,
            hour: small(rest / 3_600_000),
            minute: small(rest / 60_000 % 60),
            second: small(rest / 1000 % 60),
            millisecond: u16::from_le_bytes([low, high]),
        }
    }

    /// Milliseconds since 1970, unless they overflow.
    #[must_use]
    pub fn to_millis(self) -> Option<i64> {
        let seconds = (i64::from(self.hour) * 60 + i64::from(self.minute)) * 60 + i64::from(self.second);
        let days = days_from_civil(self.year, self.month, i64::from(self.day));
        let millis = i128::from(days) * i128::from(DAY_MS) + i128::from(seconds * 1000 + i64::from(self.millisecond));
        i64::try_from(millis).ok()
    }
}

/// The text of a date of the years 0 to 9999: `2012-12-24T12:15:30.501Z`; milliseconds only when they are not zero.
#[must_use]
pub fn to_iso(millis: i64) -> String {
    let Civil { year, month, day, hour, minute, second, millisecond } = Civil::from_millis(millis);
    let mut text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    if millisecond != 0 {
        write!(text, ".{millisecond:03}").expect("a String takes any text");
    }
    text.push('Z');
    text
}

/// Milliseconds since 1970 of text as [`to_iso`] writes it, with up to nine digits of a second's fraction and an
/// offset such as `+01:00` or `+0100` in place of `Z`.
#[must_use]
pub fn from_iso(text: &str) -> Option<i64> {
    let mut rest = Rest(text.as_bytes());
    let year = i64::from(rest.number(4)?);
    let month = rest.after(b'-')?.number(2).filter(|month| (1..=12).contains(month))?;
    let day = rest.after(b'-')?.number(2).filter(|day| (1..=31).contains(day))?;
    let hour = rest.after(b'T')?.number(2).filter(|hour| *hour < 24)?;
    let minute = rest.after(b':')?.number(2).filter(|minute| *minute < 60)?;
    let second = rest.after(b':')?.number(2).filter(|second| *second < 60)?;
    let mut millisecond = 0;
    if rest.after(b'.').is_some() {
        let digits = rest.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if !(1..=9).contains(&digits) {
            return None;
        }
        let (whole, dropped) = (digits.min(3), digits.saturating_sub(3));
        millisecond = rest.number(whole)? * [100, 10, 1][whole - 1];
        rest.0 = rest.0.get(dropped..)?;
    }
    let offset_minutes = match rest.0 {
        b"Z" => 0,
        [sign @ (b'+' | b'-'), offset @ ..] => {
            rest.0 = offset;
            let hours = rest.number(2)?;
            let minutes = if rest.0.is_empty() { 0 } else { rest.after_optional(b':').number(2)? };
            let total = i64::from(hours * 60 + minutes);
            if !rest.0.is_empty() || hours > 23 || minutes > 59 {
                return None;
            }
            if *sign == b'-' { -total } else { total }
        }
        _ => return None,
    };
    let days = days_from_civil(year, u8::try_from(month).ok()?, i64::from(day));
    if civil_from_days(days).2 != u8::try_from(day).ok()? {
        return None;
    }
    let seconds = i64::from((hour * 60 + minute) * 60 + second) - offset_minutes * 60;
    Some(days * DAY_MS + seconds * 1000 + i64::from(millisecond))
}

struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    /// A number of exactly `digits` digits, at most nine.
    fn number(&mut self, digits: usize) -> Option<u32> {
        let (number, rest) = self.0.split_at_checked(digits)?;
        self.0 = rest;
        number.iter().try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + u32::from(byte - b'0')))
    }

    fn after(&mut self, byte: u8) -> Option<&mut Self> {
        self.0 = self.0.strip_prefix(&[byte])?;
        Some(self)
    }

    fn after_optional(&mut self, byte: u8) -> &mut Self {
        self.0 = self.0.strip_prefix(&[byte]).unwrap_or(self.0);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_millis_convert_both_ways() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (1_356_351_330_501, "2012-12-24T12:15:30.501Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(to_iso(millis), text);
            assert_eq!(from_iso(text), Some(millis));
        }
        assert_eq!(from_iso("1970-01-01T01:00:00+01:00"), Some(0));
        assert_eq!(from_iso("1969-12-31T19:30:00.5-0430"), Some(500));
        for wrong in ["1970-02-30T00:00:00Z", "1970-01-01", "1970-01-01T00:00:00", "1970-13-01T00:00:00Z"] {
            assert_eq!(from_iso(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn every_millisecond_of_a_value_has_a_calendar() {
        for millis in [i64::MIN, i64::MIN + 1, -62_135_596_800_001, 0, i64::MAX] {
            assert_eq!(Civil::from_millis(millis).to_millis(), Some(millis), "{millis}");
        }
    }
}
