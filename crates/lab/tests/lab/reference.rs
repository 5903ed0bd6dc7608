//! A reference that takes turns with several partners: its value, ratios to it, and the flag where it depends on them.

use crate::conduct::WORKLOAD;
use crate::played::{Answer, Memory, Played, conduct, plan, run};
use baremark_lab::analysis::document;
use baremark_model::document::Document;
use baremark_model::plan::{Cell, Contrast, Pair, Plan};
use baremark_model::wire::TrialSpec;
use baremark_stats::Rng;
use std::sync::atomic::AtomicBool;

static NEVER: AtomicBool = AtomicBool::new(false);

/// Native against two machines, each in trials with it, and a fourth treatment that has trials of its own and is compared with native.
fn with_two_partners() -> Plan {
    let mut plan = plan("microvm");
    let arm = |level: &str, of: usize, plan: &Plan| {
        let mut arm = plan.arms[of].clone();
        arm.treatment.insert("memory".to_owned(), level.to_owned());
        // How the script knows it.
        arm.arm.ranks = plan.arms.len() + 1;
        arm
    };
    plan.arms[1].arm.ranks = 2;
    plan.arms.push(arm("interleave", 1, &plan));
    plan.arms.push(arm("remote", 0, &plan));
    plan.factors.push(("memory".to_owned(), vec!["interleave".to_owned(), "remote".to_owned()]));
    let pair =
        |numerator, contrast, interleaved| Pair { numerator, denominator: 0, contrast, interleaved, asked: true };
    plan.pairs = vec![
        pair(1, Contrast::Environment, true),
        pair(2, Contrast::Environment, true),
        pair(3, Contrast::Factor, false),
    ];
    plan.cells = vec![Cell::Pair(0), Cell::Pair(1), Cell::Single(3)];
    plan
}

/// A run in which native has these values next to its first and its second partner, each machine has native's, and the fourth treatment 30.
fn measured(beside: [f64; 2]) -> Document {
    let plan = with_two_partners();
    let mut rng = Rng::new(11);
    let mut memory = Memory::default();
    let script = Played::new(move |spec: &TrialSpec| {
        let noise = (0.001 * rng.normal()).exp();
        Answer::Values(match spec.arms.last().map(|arm| arm.members[0].arm.ranks) {
            Some(2) => vec![beside[0] * noise, beside[0]],
            Some(3) => vec![beside[1] * noise, beside[1]],
            _ => vec![30.0 * noise],
        })
    });
    conduct(&plan, vec![("native", script)], &mut memory, &NEVER).0.unwrap();
    document(&run(&plan, &memory), &[&WORKLOAD])
}

/// A ratio to a reference that several trials of a block have is to all of them, as the value that is shown is: never to that of the first alone.
#[test]
fn a_ratio_lies_within_the_quotients_of_the_values_that_are_shown() {
    let found = measured([10.0, 12.0]);
    let shown = |treatment: &baremark_model::plan::Treatment| {
        found.estimates.iter().find(|row| &row.treatment == treatment && row.metric == "gups").unwrap().estimate
    };
    let row = found.ratios.iter().find(|row| row.contrast == Contrast::Factor).unwrap();
    let (ratio, quotient) = (row.ratio.unwrap(), shown(&row.treatment) / shown(&row.relative_to));
    assert!((ratio - 30.0 / (10.0_f64 * 12.0).sqrt()).abs() < 0.01, "{ratio}");
    assert!((ratio / quotient - 1.0).abs() < 0.01, "the ratio is {ratio}, the quotient of the values {quotient}");
}

#[test]
fn a_reference_that_depends_on_its_partner_is_flagged() {
    let flags = |beside: [f64; 2]| -> Vec<String> {
        let texts = measured(beside).flags.into_iter().map(|flag| flag.text);
        texts.filter(|text| text.contains("paired with")).collect()
    };
    assert_eq!(flags([10.0, 10.0]), Vec::<String>::new());
    assert_eq!(
        flags([10.0, 12.0]),
        [
            "its value depends on the arm that it is paired with: 1.200 times as much with environment microvm, memory interleave"
        ]
    );
    assert_eq!(flags([10.0, 10.05]), Vec::<String>::new(), "less than what matters");
}

/// An A/A of the reference: native next to the second machine against native next to the first, of the blocks that have both.
#[test]
fn a_reference_is_compared_with_itself_next_to_each_partner() {
    let beside = |values: [f64; 2]| {
        let found = measured(values);
        let [row] = found.references.as_slice() else { panic!("one reference, two partners: {:?}", found.references) };
        assert_eq!(row.treatment["environment"], "native");
        let memory = |partner: &baremark_model::plan::Treatment| partner.get("memory").cloned();
        assert_eq!((memory(&row.first_partner), memory(&row.partner)), (None, Some("interleave".to_owned())));
        assert!(row.blocks >= 4);
        row.clone()
    };
    let same = beside([10.0, 10.0]);
    assert!(same.lo.unwrap() <= 1.0 && 1.0 <= same.hi.unwrap(), "{same:?}");
    let other = beside([10.0, 12.0]);
    assert!((other.ratio - 1.2).abs() < 0.01 && other.lo.unwrap() > 1.1, "{other:?}");
    let alone = plan("microvm");
    let mut memory = Memory::default();
    let script = Played::new(|_| Answer::Values(vec![1.0, 1.0]));
    conduct(&alone, vec![("native", script)], &mut memory, &NEVER).0.unwrap();
    assert_eq!(
        document(&run(&alone, &memory), &[&WORKLOAD]).references,
        [],
        "of one partner there is nothing to compare"
    );
}
