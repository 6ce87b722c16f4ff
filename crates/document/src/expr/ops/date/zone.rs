//! Time zones: offsets such as `+02:00`, and names such as `Europe/Berlin`.

use chrono::offset::{LocalResult, Offset as _};
use chrono::{NaiveDateTime, TimeZone as _};
use chrono_tz::Tz;

use crate::base::Result;
use crate::bson::Value;
use crate::expr::value::{Val, error};

/// A time zone.
#[derive(Clone, Copy, Debug)]
pub(in crate::expr) enum Zone {
    /// Always so many seconds east of UTC.
    Fixed(i64),
    /// By the rules of a place.
    Named(Tz),
}

impl Zone {
    pub(in crate::expr) const UTC: Self = Self::Fixed(0);

    /// The zone of a name or an offset.
    pub(in crate::expr) fn parse(text: &str) -> Option<Self> {
        if matches!(text, "UTC" | "GMT" | "Z") {
            return Some(Self::UTC);
        }
        if let Some(sign) = text.chars().next().filter(|c| matches!(c, '+' | '-')) {
            let digits: String = text[1..].chars().filter(|c| *c != ':').collect();
            let right = match text.len() {
                3 | 5 => !text.contains(':'),
                6 => text.as_bytes()[3] == b':',
                _ => false,
            };
            if !right || !digits.bytes().all(|byte| byte.is_ascii_digit()) || !digits.len().is_multiple_of(2) {
                return None;
            }
            let hours: i64 = digits.get(..2)?.parse().ok()?;
            let minutes: i64 = digits.get(2..4).map_or(Some(0), |text| text.parse().ok())?;
            let seconds = (hours * 60 + minutes) * 60;
            return Some(Self::Fixed(if sign == '-' { -seconds } else { seconds }));
        }
        text.parse().ok().map(Self::Named)
    }

    /// The zone that an optional argument names; nothing when it is null.
    pub(in crate::expr) fn of(value: &Val<'_>) -> Result<Option<Self>> {
        match value.value() {
            Value::String(name) => {
                let name = name.to_str_lossy();
                Self::parse(&name)
                    // It names a zone at the end of a date only.
                    .filter(|_| name != "Z")
                    .map(Some)
                    .ok_or_else(|| error(40485, format!("unrecognized time zone identifier: \"{name}\"")))
            }
            value if value.is_nullish() => Ok(None),
            other => Err(error(40517, format!("timezone must evaluate to a string, found {}", other.kind().name()))),
        }
    }

    pub(in crate::expr) const fn is_utc(self) -> bool {
        matches!(self, Self::Fixed(0))
    }

    /// Milliseconds east of UTC at a time.
    pub(in crate::expr) fn offset(self, millis: i64) -> i64 {
        match self {
            Self::Fixed(seconds) => seconds * 1000,
            Self::Named(zone) => {
                i64::from(zone.offset_from_utc_datetime(&naive(millis)).fix().local_minus_utc()) * 1000
            }
        }
    }

    /// What a clock in the zone shows at a time, as milliseconds.
    pub(in crate::expr) fn local(self, millis: i64) -> i64 {
        millis.saturating_add(self.offset(millis))
    }

    /// The time at which a clock in the zone shows `local`; the earlier of two, and the later one behind a gap.
    pub(in crate::expr) fn utc(self, local: i64) -> i64 {
        match self {
            Self::Fixed(seconds) => local.saturating_sub(seconds * 1000),
            Self::Named(zone) => match zone.offset_from_local_datetime(&naive(local)) {
                LocalResult::Single(offset) | LocalResult::Ambiguous(offset, _) => {
                    local.saturating_sub(i64::from(offset.fix().local_minus_utc()) * 1000)
                }
                // The clock jumps over the time: it counts from before the gap.
                LocalResult::None => local.saturating_sub(self.offset(local.saturating_sub(86_400_000))),
            },
        }
    }
}

/// The calendar of the crate `chrono`, which ends some 260,000 years from now; rules for zones end long before.
fn naive(millis: i64) -> NaiveDateTime {
    const END: i64 = 8_000_000_000_000_000;
    chrono::DateTime::from_timestamp_millis(millis.clamp(-END, END)).unwrap_or_default().naive_utc()
}
