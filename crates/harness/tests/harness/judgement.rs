//! Whether a window's counts are those of the users who were meant.

use baremark_harness::mix::judge;
use baremark_harness::topology::resolve;
use baremark_harness::users;
use baremark_load::document::Document;
use baremark_load::record::Part;
use baremark_model::qos::Bound;

/// A window in which each operation ended so often.
fn document(counts: &[(&str, u64)]) -> Document {
    let demand = resolve("", "", &[]).unwrap_or_else(|why| panic!("{why}")).load;
    let load = users::order("http://127.0.0.1:1", "a password", &demand, 100, 1).unwrap().load().unwrap();
    let mut part = Part::new(&load.scenario.operation_names());
    for (name, count) in counts {
        let operation = part.operations.iter_mut().find(|operation| operation.name == *name).unwrap();
        (0..*count).for_each(|_| operation.raw.record(1_000_000));
    }
    Document::new(&load, &part)
}

fn as_meant(scale: u64) -> Vec<(&'static str, u64)> {
    let drawn = [("auction-detail", 20), ("bid-history", 12), ("attendance-history", 12), ("purchase-history", 12)];
    let more = [("add-item", 12), ("logout", 12), ("home", 12), ("login", 12), ("profile", 12)];
    let rest = [("active-auctions", 44), ("item-detail", 20), ("image", 20), ("join", 24)];
    drawn.into_iter().chain(more).chain(rest).map(|(name, count)| (name, count * scale)).collect()
}

fn with(counts: &mut [(&'static str, u64)], name: &str, count: u64) {
    counts.iter_mut().find(|(one, _)| *one == name).unwrap().1 = count;
}

#[test]
fn draws_are_judged_by_what_chance_allows() {
    assert!(judge(&document(&as_meant(100)), 0.2, 50).kept);
    // The same relative error is chance in few draws, and none in many.
    for (scale, kept) in [(1, true), (200, false)] {
        let mut counts = as_meant(scale);
        with(&mut counts, "bid-history", 20 * scale);
        let mix = judge(&document(&counts), 0.2, 1000);
        assert_eq!(mix.kept, kept, "{scale}: {:?}", mix.off);
    }
    let none = judge(&document(&[]), 0.2, 50);
    assert!(none.kept && none.shares.iter().all(|share| share.found.is_none()), "nothing is known of nothing");
}

#[test]
fn what_always_follows_must_have_followed() {
    let mut counts = as_meant(100);
    with(&mut counts, "login", 700);
    let mix = judge(&document(&counts), 0.2, 50);
    assert!(!mix.kept && mix.off.iter().any(|off| off == "1200 home but 700 login"), "{:?}", mix.off);
    let mut on_the_way = as_meant(1);
    with(&mut on_the_way, "home", 40);
    assert!(judge(&document(&on_the_way), 0.2, 50).kept, "they may be on their way");
}

/// The table of the user model: each operation's limit, 99 % of the pushed bids within 500 ms, 0.5 % failures.
#[test]
fn every_limit_of_the_user_model_is_judged() {
    let scenario = users::scenario("http://127.0.0.1:1", "a password", None).unwrap();
    for text in ["", "limits.per_operation = true"] {
        let demand = resolve("it", text, &[]).unwrap_or_else(|why| panic!("{why}")).load;
        let qos = users::qos(&scenario, &demand);
        let said: Vec<String> = qos.limits.iter().map(ToString::to_string).collect();
        for (operation, seconds) in [
            ("home", 2),
            ("login", 3),
            ("active-auctions", 2),
            ("auction-detail", 2),
            ("profile", 2),
            ("join", 4),
            ("current-item", 3),
            ("place-bid", 2),
            ("bid-history", 2),
            ("attendance-history", 2),
            ("purchase-history", 2),
            ("item-detail", 2),
            ("image", 5),
            ("add-item", 2),
            ("logout", 3),
        ] {
            assert!(said.contains(&format!("{operation}:p99<{seconds} s")), "{operation}: {said:?}");
        }
        assert!(said.contains(&"next-bid:delay.p99<500 ms".to_owned()), "{said:?}");
        assert!(said.contains(&"failures<0.5 %".to_owned()), "{said:?}");
        let latencies = qos.limits.iter().filter(|limit| matches!(limit.bound, Bound::Latency { .. })).count();
        assert_eq!(latencies, 15);
    }
}

#[test]
fn one_limit_for_all_operations_takes_the_place_of_each_of_their_own() {
    let scenario = users::scenario("http://127.0.0.1:1", "a password", None).unwrap();
    // The second is what earlier versions called it.
    for key in ["violations_allowed", "beyond"] {
        let text = format!("[limits]\nlatency = \"500 ms\"\n{key} = \"5 %\"\n");
        let demand = resolve("it", &text, &[]).unwrap_or_else(|why| panic!("{why}")).load;
        let qos = users::qos(&scenario, &demand);
        let latencies: Vec<String> = qos
            .limits
            .iter()
            .filter(|limit| matches!(limit.bound, Bound::Latency { .. }))
            .map(|limit| limit.to_string().split(':').next_back().unwrap_or_default().to_owned())
            .collect();
        assert_eq!(latencies, vec!["p95<500 ms"; 15], "{key}");
    }
    let refused = resolve("it", "[limits]\nlatency = \"6 s\"\n", &[]).map(drop).unwrap_err().to_string();
    assert!(refused.contains("longer than users wait for an answer; write at most \"5 s\""), "{refused}");
}
