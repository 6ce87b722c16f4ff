//! Arithmetic with dates: `$dateAdd`, `$dateSubtract`, `$dateDiff`, `$dateTrunc`.

use super::calendar::{day_of, days_in, weekday};
use super::parts::{millis_or_null, zone_of};
use super::zone::Zone;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::Value;
use crate::bson::date::{Civil, DAY_MS, days_from_civil};
use crate::expr::parser::Parser;
use crate::expr::tree::{Call, Expression, function};
use crate::expr::value::{Val, error};

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::expr) enum Unit {
    Year,
    Quarter,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
}

impl Unit {
    pub(in crate::expr) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "year" => Self::Year,
            "quarter" => Self::Quarter,
            "month" => Self::Month,
            "week" => Self::Week,
            "day" => Self::Day,
            "hour" => Self::Hour,
            "minute" => Self::Minute,
            "second" => Self::Second,
            "millisecond" => Self::Millisecond,
            _ => return None,
        })
    }

    /// The unit that a value names; nothing for null.
    fn of(value: &Val<'_>, name: &str, type_code: i32) -> Result<Option<Self>> {
        match value.value() {
            Value::String(unit) => {
                let unit = unit.to_str_lossy();
                let parsed = Self::parse(&unit);
                let unknown = || {
                    Error::new(
                        ErrorCode::FAILED_TO_PARSE,
                        format!("{name} parameter 'unit' value cannot be recognized as a time unit: {unit}"),
                    )
                };
                parsed.map(Some).ok_or_else(unknown)
            }
            value if value.is_nullish() => Ok(None),
            other => {
                Err(error(type_code, format!("{name} requires 'unit' to be a string, but got {}", other.kind().name())))
            }
        }
    }

    const fn months(self) -> Option<i64> {
        match self {
            Self::Year => Some(12),
            Self::Quarter => Some(3),
            Self::Month => Some(1),
            _ => None,
        }
    }

    const fn millis(self) -> i64 {
        match self {
            Self::Week => 7 * DAY_MS,
            Self::Day => DAY_MS,
            Self::Hour => 3_600_000,
            Self::Minute => 60_000,
            Self::Second => 1000,
            _ => 1,
        }
    }
}

/// A date some units later.
pub(in crate::expr) fn shifted(millis: i64, unit: Unit, amount: i64, zone: Zone) -> Option<i64> {
    if let Some(months) = unit.months() {
        let local = zone.local(millis);
        let civil = Civil::from_millis(local);
        let total = i128::from(civil.year) * 12 + i128::from(civil.month) - 1 + i128::from(amount) * i128::from(months);
        let year = i64::try_from(total.div_euclid(12)).ok().filter(|year| year.unsigned_abs() < 300_000_000)?;
        let month = u8::try_from(total.rem_euclid(12) + 1).ok()?;
        let day = civil.day.min(days_in(year, month));
        let days = days_from_civil(year, month, i64::from(day));
        let local = days.checked_mul(DAY_MS)?.checked_add(local.rem_euclid(DAY_MS))?;
        return Some(zone.utc(local));
    }
    let by = amount.checked_mul(unit.millis())?;
    if matches!(unit, Unit::Week | Unit::Day) && !zone.is_utc() {
        return zone.local(millis).checked_add(by).map(|local| zone.utc(local));
    }
    millis.checked_add(by)
}

function!(add(call, env) {
    let (start, unit) = (call.argument(0, env)?, call.argument(1, env)?);
    let (amount, zone) = (call.argument(2, env)?, call.argument(3, env)?);
    let name = call.name;
    if start.is_nullish() || unit.is_nullish() || amount.is_nullish() || call.has(3) && zone.is_nullish() {
        return Ok(Val::NULL);
    }
    let wrong = |_| error(5_166_403, format!("{name} requires startDate to be convertible to a date"));
    let millis = millis_or_null(&start).map_err(wrong)?.unwrap_or_default();
    let Some(unit) = Unit::of(&unit, name, 5_439_013)? else { return Ok(Val::NULL) };
    let whole = amount.value().as_exact_i64();
    let amount = whole.ok_or_else(|| error(5_166_405, format!("{name} expects integer amount of time units")))?;
    let Some(zone) = zone_of(call, 3, &zone)? else { return Ok(Val::NULL) };
    let amount = if name == "$dateSubtract" {
        amount.checked_neg().ok_or_else(|| error(6_045_000, "invalid $dateSubtract 'amount' parameter value"))?
    } else {
        amount
    };
    let limit = match unit {
        Unit::Year => Some(584_942_417),
        Unit::Quarter => Some(584_942_417 * 4),
        Unit::Month => Some(584_942_417 * 12),
        Unit::Week => Some(30_500_568_905),
        Unit::Day => Some(213_503_982_335),
        Unit::Hour => Some(5_124_095_576_030),
        Unit::Minute => Some(307_445_734_561_825),
        Unit::Second => Some(18_446_744_073_709_551),
        Unit::Millisecond => None,
    };
    if limit.is_some_and(|limit| amount.unsigned_abs() > limit) {
        return Err(error(5_976_500, format!("invalid {name} 'amount' parameter value: {amount}")));
    }
    let shifted = shifted(millis, unit, amount, zone);
    shifted.map(|millis| Val::View(Value::DateTime(millis))).ok_or_else(|| error(5_166_406, format!("{name} overflowed")))
});

/// Reads `$dateAdd` and `$dateSubtract`: startDate, unit, amount, timezone.
pub(in crate::expr) fn parse_add(parser: &mut Parser<'_>, name: &'static str, value: Value<'_>) -> Result<Expression> {
    let Value::Document(document) = value else {
        return Err(error(
            5_166_400,
            format!("{name} expects an object as its argument.found input type:{}", value.kind().name()),
        ));
    };
    let names = ["startDate", "unit", "amount", "timezone"];
    for element in document {
        if !names.iter().any(|known| element.name == *known) {
            return Err(error(
                5_166_401,
                format!(
                    "Unrecognized argument to {name}: {}. Expected arguments are startDate, unit, amount, and optionally timezone.",
                    element.name
                ),
            ));
        }
    }
    if names[..3].iter().any(|name| document.get(name).is_none()) {
        return Err(error(5_166_402, format!("{name} requires startDate, unit, and amount to be present")));
    }
    let arguments = names.iter().map(|name| parser.optional(document.get(name))).collect::<Result<Vec<_>>>()?;
    Ok(Expression::Call(Call { name, function: add, arguments }))
}

/// The day on which weeks begin, 0 for Sunday, from a value; nothing for null.
fn week_start(value: &Val<'_>, given: bool, name: &str) -> Result<Option<i64>> {
    if !given {
        return Ok(Some(0));
    }
    match value.value() {
        Value::String(day) => {
            let day = day.to_str_lossy().to_ascii_lowercase();
            let days = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];
            let at = days.iter().position(|known| *known == day || known[..3] == day);
            match at.and_then(|at| i64::try_from(at).ok()) {
                Some(at) => Ok(Some(at)),
                None => Err(Error::new(
                    ErrorCode::FAILED_TO_PARSE,
                    format!("{name} parameter 'startOfWeek' value cannot be recognized as a day of a week: {day}"),
                )),
            }
        }
        value if value.is_nullish() => Ok(None),
        other => Err(error(
            5_439_015,
            format!("{name} requires 'startOfWeek' to be a string, but got {}", other.kind().name()),
        )),
    }
}

/// The number of boundaries of a unit before a local time.
fn ordinal(local: i64, unit: Unit, week_start: i64) -> i64 {
    let civil = Civil::from_millis(local);
    match unit {
        Unit::Week => (day_of(local) - (weekday(local) - week_start).rem_euclid(7)).div_euclid(7),
        unit => match unit.months() {
            Some(months) => (civil.year * 12 + i64::from(civil.month) - 1).div_euclid(months),
            None => local.div_euclid(unit.millis()),
        },
    }
}

function!(difference(call, env) {
    let (start, end) = (call.argument(0, env)?, call.argument(1, env)?);
    let (unit, zone, first) = (call.argument(2, env)?, call.argument(3, env)?, call.argument(4, env)?);
    if start.is_nullish() || end.is_nullish() || unit.is_nullish() || call.has(3) && zone.is_nullish() {
        return Ok(Val::NULL);
    }
    let wrong = |which: &'static str| move |_| error(5_166_307, format!("$dateDiff requires '{which}' to be a date"));
    let start = millis_or_null(&start).map_err(wrong("startDate"))?.unwrap_or_default();
    let end = millis_or_null(&end).map_err(wrong("endDate"))?.unwrap_or_default();
    let Some(unit) = Unit::of(&unit, "$dateDiff", 5_439_013)? else { return Ok(Val::NULL) };
    let Some(zone) = zone_of(call, 3, &zone)? else { return Ok(Val::NULL) };
    let first = if unit == Unit::Week { week_start(&first, call.has(4), "$dateDiff")? } else { Some(0) };
    let Some(first) = first else { return Ok(Val::NULL) };
    let between = match unit {
        Unit::Hour | Unit::Minute | Unit::Second | Unit::Millisecond => {
            // Offsets move the boundaries of hours only by fractions of an hour.
            let (a, b) = (zone.local(start), zone.local(start).checked_add(end.checked_sub(start).ok_or_else(overflow)?).ok_or_else(overflow)?);
            ordinal(b, unit, first) - ordinal(a, unit, first)
        }
        unit => ordinal(zone.local(end), unit, first) - ordinal(zone.local(start), unit, first),
    };
    Ok(Val::View(Value::Int64(between)))
});

fn overflow() -> Error {
    error(5_166_308, "$dateDiff overflowed")
}

/// Reads `$dateDiff`: startDate, endDate, unit, timezone, startOfWeek.
pub(in crate::expr) fn parse_difference(
    parser: &mut Parser<'_>,
    name: &'static str,
    value: Value<'_>,
) -> Result<Expression> {
    let Value::Document(document) = value else {
        return Err(error(
            5_166_301,
            format!("$dateDiff only supports an object as its argument, found: {}", value.kind().name()),
        ));
    };
    let names = ["startDate", "endDate", "unit", "timezone", "startOfWeek"];
    for element in document {
        if !names.iter().any(|known| element.name == *known) {
            return Err(error(5_166_302, format!("Unrecognized argument to $dateDiff: {}", element.name)));
        }
    }
    for (required, code) in [("startDate", 5_166_303), ("endDate", 5_166_304), ("unit", 5_166_305)] {
        if document.get(required).is_none() {
            return Err(error(code, format!("Missing '{required}' parameter to $dateDiff")));
        }
    }
    let arguments = names.iter().map(|name| parser.optional(document.get(name))).collect::<Result<Vec<_>>>()?;
    Ok(Expression::Call(Call { name, function: difference, arguments }))
}

/// The beginning of the bin of `size` units that a time lies in; bins count from the year 2000.
fn truncated(millis: i64, unit: Unit, size: i64, zone: Zone, week_start: i64) -> Option<i64> {
    let reference = days_from_civil(2000, 1, 1) * DAY_MS;
    let local = zone.local(millis);
    let origin = ordinal(reference, unit, week_start);
    let bin = |ordinal: i64| ordinal.checked_sub(origin)?.div_euclid(size).checked_mul(size)?.checked_add(origin);
    if let Some(months) = unit.months() {
        let month = bin(ordinal(local, unit, week_start))?.checked_mul(months)?;
        let first = u8::try_from(month.rem_euclid(12) + 1).ok()?;
        return Some(zone.utc(days_from_civil(month.div_euclid(12), first, 1).checked_mul(DAY_MS)?));
    }
    Some(match unit {
        Unit::Week => {
            // The first week begins on the first such day of 2000, or before.
            let start = (weekday(reference) - week_start).rem_euclid(7);
            let first = day_of(reference) + if start == 0 { 0 } else { 7 - start };
            let weeks = (day_of(local) - first).div_euclid(7).div_euclid(size).checked_mul(size)?;
            zone.utc(weeks.checked_mul(7)?.checked_add(first)?.checked_mul(DAY_MS)?)
        }
        Unit::Day => zone.utc(bin(ordinal(local, unit, week_start))?.checked_mul(DAY_MS)?),
        unit => {
            let (width, origin) = (unit.millis().checked_mul(size)?, zone.utc(reference));
            millis.checked_sub(origin)?.div_euclid(width).checked_mul(width)?.checked_add(origin)?
        }
    })
}

function!(truncate(call, env) {
    let (date, unit) = (call.argument(0, env)?, call.argument(1, env)?);
    let (size, zone, first) = (call.argument(2, env)?, call.argument(3, env)?, call.argument(4, env)?);
    if date.is_nullish() || unit.is_nullish() || call.has(2) && size.is_nullish() || call.has(3) && zone.is_nullish() {
        return Ok(Val::NULL);
    }
    let millis = millis_or_null(&date).map_err(|_| error(5_166_307, format!("$dateTrunc requires 'date' to be a date, but got {}", date.type_name())));
    let size = if call.has(2) {
        let whole = size.value().as_exact_i64();
        let whole = whole.ok_or_else(|| error(5_439_017, format!("$dateTrunc requires 'binSize' to be a 64-bit integer, but got value '{}'", size.value().to_json())))?;
        if whole <= 0 {
            return Err(error(5_439_018, format!("$dateTrunc requires 'binSize' to be greater than 0, but got value {whole}")));
        }
        whole
    } else {
        1
    };
    let Some(unit) = Unit::of(&unit, "$dateTrunc", 5_439_013)? else { return Ok(Val::NULL) };
    let Some(zone) = zone_of(call, 3, &zone)? else { return Ok(Val::NULL) };
    let first = if unit == Unit::Week { week_start(&first, call.has(4), "$dateTrunc")? } else { Some(0) };
    let (Some(first), Some(millis)) = (first, millis?) else { return Ok(Val::NULL) };
    let limit = if unit.months().is_some() { 100_000_000_000 } else { 100_000_000_000 / unit.millis().min(1000) };
    if size > limit {
        let code = if unit.months().is_some() { 5_439_006 } else { 5_439_002 };
        return Err(error(code, format!("$dateTrunc binSize is too large: {size}")));
    }
    let start = truncated(millis, unit, size, zone, first);
    start.map(|millis| Val::View(Value::DateTime(millis))).ok_or_else(|| error(5_439_005, "$dateTrunc overflowed"))
});

/// Reads `$dateTrunc`: date, unit, binSize, timezone, startOfWeek.
pub(in crate::expr) fn parse_truncate(
    parser: &mut Parser<'_>,
    name: &'static str,
    value: Value<'_>,
) -> Result<Expression> {
    let Value::Document(document) = value else {
        return Err(error(
            5_439_007,
            format!("$dateTrunc only supports an object as its argument, found: {}", value.kind().name()),
        ));
    };
    let names = ["date", "unit", "binSize", "timezone", "startOfWeek"];
    for element in document {
        if !names.iter().any(|known| element.name == *known) {
            return Err(error(5_439_008, format!("Unrecognized argument to $dateTrunc: {}", element.name)));
        }
    }
    for (required, code) in [("date", 5_439_009), ("unit", 5_439_010)] {
        if document.get(required).is_none() {
            return Err(error(code, format!("Missing '{required}' parameter to $dateTrunc")));
        }
    }
    let arguments = names.iter().map(|name| parser.optional(document.get(name))).collect::<Result<Vec<_>>>()?;
    Ok(Expression::Call(Call { name, function: truncate, arguments }))
}
