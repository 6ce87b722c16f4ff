//! The parts of a date that calendars and clocks show, weeks included.

use crate::bson::date::{Civil, DAY_MS, civil_from_days, days_from_civil};

/// The days since 1970 of a local time.
pub(super) const fn day_of(local: i64) -> i64 {
    local.div_euclid(DAY_MS)
}

/// The day of the week: 0 is Sunday.
pub(super) const fn weekday(local: i64) -> i64 {
    (day_of(local) + 4).rem_euclid(7)
}

/// The day of the week: 1 is Monday, 7 is Sunday.
pub(super) const fn iso_weekday(local: i64) -> i64 {
    (weekday(local) + 6).rem_euclid(7) + 1
}

/// The day of the year from 1.
pub(super) const fn day_of_year(local: i64) -> i64 {
    day_of(local) - days_from_civil(Civil::from_millis(local).year, 1, 1) + 1
}

/// The week of the year from 0; weeks begin on Sundays, and days before the first are in week 0.
pub(super) const fn week(local: i64) -> i64 {
    (day_of_year(local) - 1 + 7 - weekday(local)) / 7
}

/// The year and week of ISO 8601.
pub(super) const fn iso_week(local: i64) -> (i64, i64) {
    // The week has the year of its Thursday.
    let thursday = day_of(local) - iso_weekday(local) + 4;
    let year = civil_from_days(thursday).0;
    (year, (thursday - days_from_civil(year, 1, 1)) / 7 + 1)
}

/// The days since 1970 of the Monday of a week of ISO 8601.
pub(super) const fn monday_of(year: i64, week: i64) -> i64 {
    // The fourth of January is always in week 1.
    let fourth = days_from_civil(year, 1, 4);
    let monday = fourth - (fourth + 3).rem_euclid(7);
    monday + (week - 1) * 7
}

/// The number of days in a month.
pub(super) const fn days_in(year: i64, month: u8) -> u8 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}
