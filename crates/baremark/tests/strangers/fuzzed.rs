//! Every fuzz target over a fixed series of cases, on stable Rust.

use crate::series;
use crate::targets::ALL;
use std::collections::BTreeSet;
use std::fs;

const FUZZ: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz");

macro_rules! tested {
    ($($name:ident),+ $(,)?) => {
        const TESTED: &[&str] = &[$(stringify!($name)),+];
        $(#[test]
        fn $name() {
            let target = ALL.iter().find(|target| target.name == stringify!($name)).unwrap();
            series::run(&format!("{FUZZ}/corpus"), target.name, target.tested, target.body);
        })+
    };
}

tested!(study, bundle, import, job, histogram, frame, http1, http2, scenario, trace, machine);

/// A target that is in no list runs nowhere.
#[test]
fn every_target_is_tested_and_has_its_seeds_its_file_and_its_soak() {
    let listed: BTreeSet<&str> = ALL.iter().map(|target| target.name).collect();
    assert_eq!(listed, TESTED.iter().copied().collect());
    let names = |folder: &str| -> BTreeSet<String> {
        let entries = fs::read_dir(format!("{FUZZ}/{folder}")).unwrap();
        entries.map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned()).collect()
    };
    let listed: BTreeSet<String> = listed.into_iter().map(str::to_owned).collect();
    assert_eq!((names("corpus"), names("fuzz_targets")), (listed.clone(), listed.clone()));
    let read = |path: &str| fs::read_to_string(format!("{FUZZ}/{path}")).unwrap();
    let (manifest, makefile, readme) = (read("Cargo.toml"), read("../Makefile"), read("README.md"));
    for name in listed {
        let file = read(&format!("fuzz_targets/{name}.rs"));
        let whole =
            "#![no_main]\n\nlibfuzzer_sys::fuzz_target!(|data: &[u8]| baremark_fuzz::targets::run(\"NAME\", data));\n";
        assert_eq!(file, whole.replace("NAME", &name));
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")), "{name} is not a binary");
        assert!(makefile.contains(&format!("--bin soak -- {name} ")), "{name} has no soak");
        assert!(readme.contains(&format!("| `{name}` |")), "{name} is not described");
    }
}
