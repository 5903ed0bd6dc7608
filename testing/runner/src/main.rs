//! Runs the tests of this workspace, each in a process of its own (docs/testing.md).
//!
//! Three tiers: `code`, whose outcome follows from the code alone; `systems`, which need other people's programs or privileged parts of the
//! kernel; `measured`, which judge live measurements. The tier of a test is that of its cargo target: `test = true` is code, `test = false`
//! with the name `measured` is measured, any other `test = false` is a system, by its name.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::exit,
    unsafe_code,
    clippy::allow_attributes,
    reason = "a tool for developers, which prints, and asks the kernel for namespaces"
)]

mod cargo;
mod namespaces;
mod others;
mod outcome;
mod processes;
mod prove;
mod record;
mod rounds;
mod run;
mod supervise;

use cargo::Tier;
use std::ffi::OsString;
use std::process::ExitCode;

const USAGE: &str = "\
usage: test-runner code [--suite NAME] [FILTER...]    tests whose outcome follows from the code alone
       test-runner systems [--suite NAME] [--record] [FILTER...]
                                                     tests with other programs and privileged parts of the kernel
       test-runner measured [--rounds N] [--record] [FILTER...]
                                                     tests that judge live measurements, as a table of rates
       test-runner list                              every test with its tier and suite
       test-runner prove [--record] N                `code` N times, also beside load, as a table";

/// What the command line asks for.
#[derive(Default)]
struct Arguments {
    suite: Option<String>,
    record: bool,
    rounds: Option<u32>,
    filters: Vec<String>,
}

impl Arguments {
    fn parse(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut parsed = Arguments::default();
        let mut words = words.peekable();
        while let Some(word) = words.next() {
            let mut value = |what: &str| words.next().ok_or_else(|| format!("{word}: {what} is missing"));
            match word.as_str() {
                "--suite" => parsed.suite = Some(value("the name of a suite")?),
                "--rounds" => {
                    let count = value("a number")?;
                    parsed.rounds = Some(count.parse().map_err(|why| format!("--rounds: {count}: {why}"))?);
                }
                "--record" => parsed.record = true,
                option if option.starts_with("--") => return Err(format!("{option}: no such option\n{USAGE}")),
                _ => parsed.filters.push(word),
            }
        }
        Ok(parsed)
    }
}

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let command = words.next().unwrap_or_default();
    // The one command with arguments that may not be UTF-8: paths.
    if command == "supervise" {
        return supervise::main(&words.collect::<Vec<OsString>>());
    }
    let words = words.map(|word| word.to_string_lossy().into_owned());
    match Arguments::parse(words).and_then(|arguments| commanded(&command.to_string_lossy(), &arguments)) {
        Ok(code) => code,
        Err(why) => {
            eprintln!("test-runner: {why}");
            ExitCode::from(2)
        }
    }
}

fn commanded(command: &str, arguments: &Arguments) -> Result<ExitCode, String> {
    match command {
        "code" => run::code(arguments.suite.as_deref(), &arguments.filters),
        "systems" => run::systems(arguments.suite.as_deref(), &arguments.filters, arguments.record),
        "measured" => {
            rounds::measured(&arguments.filters, arguments.rounds.unwrap_or(rounds::ROUNDS), arguments.record)
        }
        "list" => {
            for tier in [Tier::Code, Tier::Systems, Tier::Measured] {
                for test in cargo::tests(tier, None)? {
                    println!("{tier} {} {}", test.suite(), test.name);
                }
            }
            Ok(ExitCode::SUCCESS)
        }
        "prove" => {
            let [rounds] = arguments.filters.as_slice() else { return Err(USAGE.to_owned()) };
            prove::prove(rounds.parse().map_err(|why| format!("{rounds}: {why}"))?, arguments.record)
        }
        _ => Err(USAGE.to_owned()),
    }
}
