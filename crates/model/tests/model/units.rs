//! Quantities: what is shown reads back, and nothing typed is lost or misread.

use baremark_model::units::{Bytes, Nanos, Share, UnitError, UnixTime};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_size_reads_back_as_shown(size in 0_u64..=9_000_000_000_000_000_000, shift in 0_u32..50) {
        let size = Bytes(size >> shift << shift);
        prop_assert_eq!(size.to_string().parse(), Ok(size), "{}", size);
    }

    #[test]
    fn a_duration_reads_back_as_shown(time in 0_u64..=9_000_000_000_000_000_000, digits in 0_u32..19) {
        let grain = 10_u64.pow(digits);
        let time = Nanos(time / grain * grain);
        prop_assert_eq!(time.to_string().parse(), Ok(time), "{}", time);
    }

    #[test]
    fn different_quantities_look_different(a in 0_u64..1 << 40, b in 0_u64..1 << 40) {
        prop_assert_eq!(Nanos(a).to_string() == Nanos(b).to_string(), a == b);
        prop_assert_eq!(Bytes(a).to_string() == Bytes(b).to_string(), a == b);
    }

    #[test]
    fn a_percentage_reads_back_as_shown(parts in 0_u64..100_000_000, decimals in 2_i32..9) {
        let typed = format!("{} %", parts as f64 / 10_f64.powi(decimals));
        let share: Share = typed.parse().expect("a percentage");
        prop_assert_eq!(share.to_string(), typed);
    }

    #[test]
    fn whole_sizes_are_exact_in_every_unit(count in 0_u64..8_000_000) {
        for (unit, bytes) in [("B", 1), ("kB", 1000), ("MB", 1_000_000), ("KiB", 1 << 10), ("GiB", 1 << 30), ("TiB", 1 << 40)] {
            prop_assert_eq!(format!("{count} {unit}").parse(), Ok(Bytes(count * bytes)));
            prop_assert_eq!(format!(" {count}{unit} ").parse(), Ok(Bytes(count * bytes)));
        }
    }

    #[test]
    fn nothing_typed_panics(text in ".{0,40}") {
        let _ = (text.parse::<Bytes>(), text.parse::<Nanos>(), text.parse::<Share>());
    }

    #[test]
    fn numbers_and_signs_and_units_never_panic(text in "[-+0-9._eE ]{0,30}(ns|us|s|min|h|B|GiB|%|)") {
        let _ = (text.parse::<Bytes>(), text.parse::<Nanos>(), text.parse::<Share>());
    }

    #[test]
    fn a_day_follows_a_day(day in 0_u64..200_000) {
        const DAY: u64 = 86_400_000_000_000;
        let [year, month, date, ..] = UnixTime(day * DAY).civil();
        let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let last = match month { 2 => 28 + u64::from(leap), 4 | 6 | 9 | 11 => 30, _ => 31 };
        let next = if date < last { [year, month, date + 1] } else if month < 12 { [year, month + 1, 1] } else { [year + 1, 1, 1] };
        prop_assert_eq!(UnixTime((day + 1) * DAY).civil()[..3].to_vec(), next.to_vec());
    }
}

#[test]
fn too_much_is_refused_and_not_wrapped() {
    for text in ["9999999 TiB", "18446744073709551616 B", &format!("{} B", "9".repeat(400))] {
        assert!(matches!(text.parse::<Bytes>(), Err(UnitError::Range(..))), "{text}");
    }
    assert!(matches!("2500000000 h".parse::<Nanos>(), Err(UnitError::Range(..))));
}

#[test]
fn a_fraction_is_taken_to_the_nearest_byte_or_nanosecond() {
    assert_eq!("0.5 KiB".parse(), Ok(Bytes(512)));
    assert_eq!("1.1 GiB".parse(), Ok(Bytes(1_181_116_006)));
    assert_eq!("0.1 us".parse(), Ok(Nanos(100)));
    assert_eq!("2.5 min".parse(), Ok(Nanos(150_000_000_000)));
}
