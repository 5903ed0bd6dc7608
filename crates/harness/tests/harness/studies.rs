//! Studies: arms over a file, and every mistake before anything runs.

use baremark_harness::study::{SHIPPED, read};
use baremark_harness::topology::resolve;

#[test]
fn every_arm_of_every_shipped_study_is_a_topology() {
    for (name, text) in SHIPPED {
        let study = read(name, text, &[]).unwrap_or_else(|why| panic!("{why}")).unwrap();
        assert!(study.arms.len() > 1 && study.blocks >= 3, "{name} has an interval");
        for arm in &study.arms {
            let topology = resolve(name, text, &arm.set).unwrap_or_else(|why| panic!("{name}, {}: {why}", arm.name));
            assert_eq!(topology.applications.len(), 1);
        }
    }
    // Of the model's cycle, where a number of users is named.
    for (name, text) in SHIPPED.iter().filter(|(name, _)| ["auction-bursts", "auction-elastic"].contains(name)) {
        let load = resolve(name, text, &[]).unwrap_or_else(|why| panic!("{why}")).load;
        assert!(load.users.is_some() && load.cycle_s == 5.0, "{name}");
    }
}

#[test]
fn a_file_without_a_study_is_none_and_a_wrong_one_is_told() {
    assert_eq!(read("it", "[load]\nusers = 3\n", &[]).unwrap_or_else(|why| panic!("{why}")), None);
    for (text, phrase) in [
        ("[study]\nblocks = 3\n", "a study without arms"),
        ("[study]\nblocks = 0\n[[study.arms]]\nname = \"a\"\nset = []\n", "impossible 'blocks'"),
        ("[study]\nblocks = 1\n[[study.arms]]\nname = \"a\"\nsets = []\n", "has no 'sets'"),
        ("[study]\nblocks = 1\n[[study.arms]]\nname = \"a\"\nset = [\"app.cuont = 2\"]\n", "the arm 'a'"),
    ] {
        let said = match read("it", text, &[]) {
            Ok(_) => panic!("taken: {text}"),
            Err(why) => why.to_string(),
        };
        assert!(said.contains(phrase), "{text}: {said}");
    }
}
