//! The soak: a bounded, repeatable run of one target on stable Rust. `soak TARGET [CASES [SEED]]`
#![forbid(unsafe_code)]

use baremark_fuzz::series;
use baremark_fuzz::targets::{ALL, Target};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, absent: u64| arguments.get(at).map_or(Ok(absent), |text| text.parse::<u64>());
    let target = arguments.first().map_or("", String::as_str);
    let Some(target) = ALL.iter().find(|known| known.name == target) else { return usage() };
    let (Ok(cases), Ok(seed)) = (number(1, 1_000_000), number(2, 1)) else { return usage() };
    soak(target, cases, seed)
}

fn usage() -> ExitCode {
    let names: Vec<&str> = ALL.iter().map(|target| target.name).collect();
    eprintln!("usage: soak {} [CASES [SEED]]", names.join("|"));
    ExitCode::from(2)
}

fn soak(&Target { name: target, body, .. }: &Target, cases: u64, seed: u64) -> ExitCode {
    let corpus = series::corpus(&format!("{}/corpus", env!("CARGO_MANIFEST_DIR")), target);
    println!("soak {target}: {cases} cases from {} seeds, seed {seed}", corpus.len());
    let begun = Instant::now();
    for case in 0..cases {
        let data = series::case(target, &corpus, seed, case);
        if catch_unwind(AssertUnwindSafe(|| body(&data))).is_err() {
            return failed(target, seed, case, &data);
        }
        if case > 0 && case.is_multiple_of(1_000_000) {
            println!("soak {target}: {case} cases, {:.0} s", begun.elapsed().as_secs_f64());
        }
    }
    println!("soak {target}: {cases} cases passed in {:.1} s", begun.elapsed().as_secs_f64());
    ExitCode::SUCCESS
}

fn failed(target: &str, seed: u64, case: u64, data: &[u8]) -> ExitCode {
    eprintln!("soak {target}: seed {seed}, case {case} failed on: {}", data.escape_ascii());
    let folder = format!("{}/artifacts/{target}", env!("CARGO_MANIFEST_DIR"));
    let path = format!("{folder}/soak-{seed}-{case}");
    match fs::create_dir_all(&folder).and_then(|()| fs::write(&path, data)) {
        Ok(()) => eprintln!("the input is in {path}"),
        Err(why) => eprintln!("the input could not be kept in {path}: {why}"),
    }
    ExitCode::FAILURE
}
