//! The elasticity metrics alongside their definition, computed second by second, and schedules.

use baremark_harness::elastic::{Change, Elastic, demanded, metrics};
use baremark_services::card::Tier;
use proptest::prelude::*;
use std::collections::BTreeMap;

const END: u32 = 60;

/// Counts that change at whole seconds.
fn steps() -> impl Strategy<Value = Vec<(f64, u64)>> {
    proptest::collection::btree_map(1..END, 1..6_u64, 0..8).prop_flat_map(|changes| {
        (1..6_u64).prop_map(move |first| {
            let later = changes.iter().map(|(at, count)| (f64::from(*at), *count));
            std::iter::once((0.0, first)).chain(later).collect()
        })
    })
}

fn at(steps: &[(f64, u64)], second: f64) -> u64 {
    steps.iter().rev().find(|(at, _)| *at <= second).unwrap().1
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Herbst et al.: accuracy is the area between demand and supply over the time, timeshare the time that it is not 0.
    #[test]
    fn metrics_are_the_sums_over_seconds(demand in steps(), supply in steps()) {
        let found = metrics(&demand, &supply, f64::from(END)).unwrap();
        let (mut under, mut over, mut under_s, mut over_s) = (0, 0, 0, 0);
        for second in 0..END {
            let (wanted, there) = (at(&demand, f64::from(second)), at(&supply, f64::from(second)));
            under += wanted.saturating_sub(there);
            over += there.saturating_sub(wanted);
            under_s += u32::from(wanted > there);
            over_s += u32::from(there > wanted);
        }
        let close = |left: f64, right: f64| (left - right).abs() < 1e-9;
        prop_assert!(close(found.accuracy_under, under as f64 / f64::from(END)), "{found:?}");
        prop_assert!(close(found.accuracy_over, over as f64 / f64::from(END)), "{found:?}");
        prop_assert!(close(found.timeshare_under, f64::from(under_s) / f64::from(END)), "{found:?}");
        prop_assert!(close(found.timeshare_over, f64::from(over_s) / f64::from(END)), "{found:?}");
        let changes = |steps: &[(f64, u64)]| steps.windows(2).filter(|two| two[0].1 != two[1].1).count() as u64;
        prop_assert_eq!((found.supply_adaptations, found.demand_adaptations), (changes(&supply), changes(&demand)));
        prop_assert!(close(found.jitter_per_min, changes(&supply) as f64 - changes(&demand) as f64), "a minute");
    }

    #[test]
    fn who_follows_at_once_has_nothing_to_be_blamed_for(demand in steps()) {
        let found = metrics(&demand, &demand, f64::from(END)).unwrap();
        prop_assert_eq!((found.accuracy_under, found.accuracy_over), (0.0, 0.0));
        prop_assert_eq!((found.timeshare_under, found.timeshare_over, found.jitter_per_min), (0.0, 0.0, 0.0));
    }
}

#[test]
fn demand_is_users_over_the_capacity_of_one_rounded_up() {
    assert_eq!([0.0, 1.0, 400.0, 400.5, 1200.0].map(|users| demanded(users, 400)), [1, 1, 1, 2, 3]);
}

/// The tile's own schedule: 1/1 for 120 s, 2/1 for 240 s, 2/2 for 120 s, 1/2 and 1/1 over 120 s, again and again.
#[test]
fn a_schedule_of_two_tiers_repeats() {
    let change =
        |at_s, counts: &[(Tier, u64)]| Change { at_s, counts: counts.iter().copied().collect::<BTreeMap<_, _>>() };
    let schedule = vec![
        change(0.0, &[(Tier::App, 1), (Tier::Web, 1)]),
        change(120.0, &[(Tier::App, 2)]),
        change(360.0, &[(Tier::Web, 2)]),
        change(480.0, &[(Tier::App, 1)]),
        change(540.0, &[(Tier::Web, 1)]),
    ];
    let elastic = Elastic { schedule, repeat_s: 600.0, ..Elastic::default() };
    let counts = |at| (elastic.scheduled(Tier::App, at), elastic.scheduled(Tier::Web, at));
    for round in [0.0, 600.0, 6000.0] {
        let seen = [0.0, 119.0, 120.0, 359.0, 360.0, 480.0, 539.0, 540.0, 599.0].map(|at| counts(round + at));
        let wanted = [(1, 1), (1, 1), (2, 1), (2, 1), (2, 2), (1, 2), (1, 2), (1, 1), (1, 1)];
        assert_eq!(seen, wanted.map(|(app, web)| (Some(app), Some(web))));
    }
    assert_eq!((elastic.most(Tier::App), elastic.most(Tier::Web), elastic.most(Tier::Bus)), (2, 2, 0));
}
