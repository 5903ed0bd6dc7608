//! The machine files that are built in, and files that are wrong.

use baremark_mmu::machine::{Machine, known, known_keys, parse, recognised};
use baremark_mmu::page::Page::{Huge, Large, Small};
use baremark_mmu::prior::priors;
use baremark_mmu::random::Random;
use baremark_mmu::scheme::{Scheme, Setup};
use baremark_mmu::simulator::{SetupError, Simulator};

const NEHALEM: &str = include_str!("../../machines/nehalem-x5570.toml");

fn told(text: &str) -> String {
    parse("test", text).err().unwrap().to_string()
}

#[test]
fn every_known_machine_can_be_drawn_and_simulated() {
    let mut random = Random::new(7);
    for key in known_keys() {
        let machine: Machine = known(key).unwrap();
        for busy in [1, 4, 1000] {
            let drawn = machine.draw_busy(&mut random, busy);
            for guest_page in &machine.pages {
                for host_backing in &machine.pages {
                    let scheme = Scheme::Nested { guest_page: *guest_page, host_backing: *host_backing };
                    let setup = Setup { levels: machine.levels, ..Setup::new(scheme) };
                    let mut simulator = Simulator::new(&drawn.part, setup).unwrap();
                    simulator.run(&[0, 1 << 40, 0]);
                    assert_eq!((simulator.counts().walks, simulator.counts().first_hits), (2, 1), "{key}, {scheme}");
                }
            }
        }
        let timing = machine.draw_timing(&mut random);
        let places = timing.place_ns;
        assert!(places[0] < places[1] && places[1] < places[2] && places[2] < places[3], "{key}: {places:?}");
    }
    assert!(known_keys().count() >= 8);
}

#[test]
fn the_assumptions_are_readable_and_in_order() {
    let priors = priors().unwrap();
    assert!(priors.tax.low <= priors.tax.high && priors.tax.high < 0.1);
    assert!(priors.hidden.high <= 1.0 && priors.scattered <= 1.0);
}

#[test]
fn documented_structures_are_as_documented() {
    let drawn = known("nehalem-x5570").unwrap().draw(&mut Random::new(1));
    let entries = |geometry: Option<baremark_mmu::sets::Geometry>| geometry.map(|geometry| geometry.entries);
    assert_eq!(drawn.part.first.map(entries), [Some(64), Some(32), None]);
    assert_eq!(drawn.part.second.map(entries), [Some(512), None, None]);
    let shared = known("nehalem-x5570").unwrap().draw_busy(&mut Random::new(1), 4);
    assert_eq!(shared.part.caches[2].entries * 4, drawn.part.caches[2].entries, "four cores share the last cache");
}

#[test]
fn a_processor_is_recognised_by_its_numbers() {
    assert_eq!(recognised(25, 17).unwrap().key, "zen-4");
    assert_eq!(recognised(6, 26).unwrap().key, "nehalem-x5570");
    assert!(recognised(6, 15).is_none());
}

#[test]
fn an_unknown_machine_is_told_the_nearest() {
    let near = known("nehalem-x5580").err().unwrap().to_string();
    assert_eq!(near, "the processor 'nehalem-x5580' is not known; did you mean 'nehalem-x5570'?");
    assert!(known("itanium").err().unwrap().to_string().contains("valid here: nehalem-x5570, shanghai-8384"));
}

#[test]
fn mistakes_are_told_with_line_key_and_remedy() {
    let replaced = |from: &str, to: &str| {
        assert!(NEHALEM.contains(from), "{from}");
        told(&NEHALEM.replacen(from, to, 1))
    };
    let line = NEHALEM.lines().position(|line| line.starts_with("levels")).unwrap() + 1;
    assert_eq!(
        replaced("levels = 4", "levels = 6"),
        format!("test.toml:{line}: invalid levels = 6; write a whole number from 4 to 5")
    );
    assert!(replaced("levels = 4", "level = 4").contains("unknown key 'level'; did you mean 'levels'?"));
    assert!(replaced("levels = 4", "").contains("'levels' is missing; add it"));
    let geometry = replaced("\"4k\" = { entries = 64, ways = 4", "\"4k\" = { entries = 64, ways = 5");
    assert!(geometry.contains("in [first_tlb.4k]: 64 entries of 5 ways"), "{geometry}");
    assert!(replaced("\"4k\" = { entries = 64", "\"4m\" = { entries = 64").contains("unknown key '4m' in [first_tlb]"));
    assert!(replaced("\"2m\"]", "\"3m\"]").contains("pages = '3m' is not known; valid here: 4k, 2m, 1g"));
    let policy = replaced("[\"lru\", \"plru\", \"random\"]", "[\"lru\", \"plrru\"]");
    assert!(policy.contains("'plrru'") && policy.contains("did you mean 'plru'?"), "{policy}");
    assert!(replaced("ns = [46, 130]", "ns = [130, 46]").contains("[low, high]"));
    assert!(replaced("bytes = \"32 KiB\"", "bytes = \"32\"").contains("no unit"));
    assert!(replaced(", source = \"RWT\" }", " }").contains("'source' is missing in [first_tlb.4k]"));
    assert!(told("name = ").starts_with("test.toml:1: ") && told("name = ").contains("in 'name ='; write key = value"));
    let empty = told("");
    assert!(empty.starts_with("test.toml: 'name' is missing") && empty.contains("'overlap' is missing"), "{empty}");
}

#[test]
fn a_page_that_the_processor_lacks_is_refused() {
    let drawn = known("nehalem-x5570").unwrap().draw(&mut Random::new(1));
    let huge = Simulator::new(&drawn.part, Setup::new(Scheme::Native { page: Huge })).err().unwrap();
    assert!(matches!(huge, SetupError::Page { page: Huge, .. }));
    let five = Setup { levels: 5, ..Setup::new(Scheme::Nested { guest_page: Small, host_backing: Large }) };
    assert!(matches!(Simulator::new(&drawn.part, five).err(), Some(SetupError::Levels { asked: 5, most: 4 })));
}

#[test]
fn an_unknown_processor_has_a_nearest_one_of_its_maker() {
    let key = |family, model| baremark_mmu::machine::nearest_to(family, model).map(|machine| machine.key);
    assert_eq!(key(26, 0x44).as_deref(), Some("zen-4"), "Zen 5");
    assert_eq!(key(6, 207).as_deref(), Some("sapphire-rapids"), "Emerald Rapids");
    assert_eq!(key(25, 97).as_deref(), Some("zen-4"), "a known one is nearest to itself");
}
