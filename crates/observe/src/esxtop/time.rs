//! Times of rows: `11/21/2026 06:51:42`, in the zone that the first heading names.

const MILLISECONDS_OF_A_DAY: i64 = 86_400_000;

/// Seconds to add for UTC, from the first heading, such as `(PDH-CSV 4.0) (Eastern Standard Time)(300)`.
pub(crate) fn bias(heading: &[u8]) -> i64 {
    const MOST_MINUTES: i64 = 24 * 60;
    let text = String::from_utf8_lossy(heading);
    let last = text.rsplit_once('(').map(|(_, last)| last.trim_end_matches([')', '"']));
    let minutes = last.and_then(|minutes| minutes.trim().parse::<i64>().ok());
    60 * minutes.filter(|minutes| minutes.abs() <= MOST_MINUTES).unwrap_or(0)
}

/// Milliseconds since 1970 of a row's first field.
pub(crate) fn unix_ms(field: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(field).ok()?.trim();
    let (date, clock) = text.split_once(' ')?;
    let mut date = date.split('/').map(|part| part.parse::<i64>().ok());
    let (month, day, year) = (date.next()??, date.next()??, date.next()??);
    let (clock, fraction) = clock.trim().split_once('.').unwrap_or((clock.trim(), ""));
    let mut clock = clock.split(':').map(|part| part.parse::<i64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    let sound = date.next().is_none()
        && clock.next().is_none()
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && (1970..=9999).contains(&year)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..=60).contains(&second)
        && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let thousandths = format!("{fraction:0<3}").get(..3)?.parse::<i64>().ok()?;
    sound.then(|| {
        days(year, month, day) * MILLISECONDS_OF_A_DAY + ((hour * 60 + minute) * 60 + second) * 1000 + thousandths
    })
}

/// Days since 1970-01-01 in the Gregorian calendar, counted in eras of 400 years that begin in March (H. Hinnant,
/// "chrono-compatible low-level date algorithms").
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        assert_eq!(unix_ms(b"01/01/1970 00:00:00"), Some(0));
        assert_eq!(unix_ms(b"02/29/2000 00:00:00"), Some(951_782_400_000));
        assert_eq!(unix_ms(b"11/21/2025 03:35:57.5"), Some(1_763_696_157_500));
        for odd in
            ["", "11/21/2025", "21/11/2025 00:00:00", "11/21/2025 24:00:00", "11/21/2025 1:2", "11-21-2025 00:00:00"]
        {
            assert_eq!(unix_ms(odd.as_bytes()), None, "{odd}");
        }
    }

    #[test]
    fn the_zone_is_what_the_heading_says() {
        assert_eq!(bias(b"(PDH-CSV 4.0) (UTC)(0)"), 0);
        assert_eq!(bias(b"(PDH-CSV 4.0) (Eastern Standard Time)(300)"), 18_000);
        assert_eq!(bias(b"(PDH-CSV 4.0) (CET)(-60)"), -3600);
        assert_eq!(bias(b"(PDH-CSV 4.0)"), 0);
        assert_eq!(bias(b"(99999999)"), 0);
    }
}
