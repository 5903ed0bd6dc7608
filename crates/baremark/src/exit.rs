//! The exit codes of every command, with their documentation.
//!
//! `baremark help all`, `baremark list exit-codes` and the table of docs/exit-codes.md are made from [`Exit::DOCUMENTED`]; `tests/documents/pages.rs`
//! compares them.

use baremark_report::{Style, beside};
use std::fmt::Write as _;
use std::process::{ExitCode, Termination};

/// The exit codes of every command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: the command is done.
    Success,
    /// 1: something failed, or more of a load's operations failed than the error limit allows.
    Failure,
    /// 2: the input is wrong.
    BadInput,
    /// 3: this machine lacks what the study needs, and nothing of the study could run.
    Missing,
    /// 4: a limit or a gate is broken.
    Regression,
    /// 5: a gate is undecided.
    Undecided,
    /// Any: that of the program which `guest` has run.
    Program(i32),
    /// 130: interrupted.
    Interrupted,
}

/// One row of the documentation.
pub struct Documented {
    /// The exit code; never [`Exit::Program`], which has a code of its own.
    pub exit: Exit,
    /// The meaning in any command.
    pub meaning: &'static str,
    /// What it means in single commands: the command, and when it ends so.
    pub commands: &'static [(&'static str, &'static str)],
}

impl Exit {
    /// Every code with its meaning, in ascending order.
    pub const DOCUMENTED: &[Documented] = &[
        Documented {
            exit: Exit::Success,
            meaning: "done",
            commands: &[
                ("run", "the study was run, whatever its outcome"),
                ("check", "no loss is shown, and one of --margin would have been found"),
            ],
        },
        Documented {
            exit: Exit::Failure,
            meaning: "failed: full disk, broken store, agent that cannot start",
            commands: &[
                ("load", "more operations failed than --error-limit allows"),
                ("auction run", "more operations failed than error_limit allows"),
                ("run", "nothing could be measured, or no comparison is possible"),
                ("verify-host", "a part failed that this machine should have"),
                ("verify-scale", "fewer intervals cover the injected costs than those of a calibrated method do"),
            ],
        },
        Documented {
            exit: Exit::BadInput,
            meaning: "bad input: command line, study file, name of a run",
            commands: &[],
        },
        Documented {
            exit: Exit::Missing,
            meaning: "no part of it can run on this machine",
            commands: &[("run", "nothing of the study can run on this machine"), ("ab", "a command is not installed")],
        },
        Documented {
            exit: Exit::Regression,
            meaning: "a limit or a gate is broken",
            commands: &[
                ("check", "slower than the baseline"),
                ("ab --fail-above", "worse by more"),
                ("run --fail-above", "worse by more"),
                ("load", "a limit is exceeded; with --find-max, already at the lowest level"),
                ("verify", "a number of the bundle does not follow from its trials, or no allowed signer signed it"),
                ("report --verify-document", "something in the result cannot be"),
                ("site", "a bundle could not be verified, or a run not be shown, and was left out"),
                ("auction run", "a limit is exceeded, or no number of users kept every limit"),
                ("auction check", "a bid was lost, an item sold twice, or the money does not add up"),
            ],
        },
        Documented {
            exit: Exit::Undecided,
            meaning: "a gate is undecided: no violation is known, and more data are needed",
            commands: &[
                ("check", "a loss of --margin could have been missed: more runs are needed"),
                ("ab --fail-above", "more blocks are needed"),
                ("run --fail-above", "more blocks are needed"),
                (
                    "load",
                    "too few samples for a limit; with --find-max, no maximum was found: no time, too few windows that count, or even the \
                     highest level meets every limit",
                ),
                ("verify-scale", "no arm has an interval: the budget ended too early"),
                ("auction run", "the search had no time, or too few samples, to verify a number of users"),
            ],
        },
        Documented {
            exit: Exit::Interrupted,
            meaning: "interrupted; finished trials are stored, and `baremark resume` continues",
            commands: &[],
        },
    ];

    /// The number that the calling program sees.
    pub fn code(self) -> u8 {
        match self {
            Exit::Success => 0,
            Exit::Failure => 1,
            Exit::BadInput => 2,
            Exit::Missing => 3,
            Exit::Regression => 4,
            Exit::Undecided => 5,
            // The kernel keeps eight bits too.
            Exit::Program(code) => code.to_le_bytes()[0],
            Exit::Interrupted => 130,
        }
    }

    /// The documentation as text, for help: a code and its meaning by line, then the commands.
    pub fn table() -> String {
        let mut text = "Exit codes:\n".to_owned();
        for row in Exit::DOCUMENTED {
            let style = Style::default();
            text.push_str(&beside(&format!("  {:<4} ", row.exit.code()), row.meaning, &style));
            for (command, when) in row.commands {
                text.push_str(&beside("         ", &format!("{command}: {when}"), &style));
            }
        }
        text.truncate(text.trim_end().len());
        text
    }

    /// The documentation as a table of Markdown, for docs/exit-codes.md.
    pub fn markdown() -> String {
        let mut text = "| code | meaning | in single commands |\n|---|---|---|\n".to_owned();
        for row in Exit::DOCUMENTED {
            let commands: Vec<String> =
                row.commands.iter().map(|(command, when)| format!("`{command}`: {when}")).collect();
            let _ = writeln!(text, "| {} | {} | {} |", row.exit.code(), row.meaning, commands.join("; "));
        }
        text
    }
}

impl Termination for Exit {
    fn report(self) -> ExitCode {
        ExitCode::from(self.code())
    }
}

/// Why a command ends early: what to tell the user, and the exit code.
#[derive(Debug)]
pub struct Refusal {
    /// The exit code.
    pub exit: Exit,
    /// The message, without "error:" and without a full stop.
    pub message: String,
}

impl Refusal {
    /// Bad input.
    pub fn bad_input(message: impl ToString) -> Self {
        Refusal { exit: Exit::BadInput, message: message.to_string() }
    }

    /// This machine or this program lacks what it takes.
    pub fn missing(message: impl ToString) -> Self {
        Refusal { exit: Exit::Missing, message: message.to_string() }
    }

    /// A failure.
    pub fn failure(message: impl ToString) -> Self {
        Refusal { exit: Exit::Failure, message: message.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A variant that is added without its row does not compile here.
    fn place(exit: Exit) -> Option<usize> {
        match exit {
            Exit::Success => Some(0),
            Exit::Failure => Some(1),
            Exit::BadInput => Some(2),
            Exit::Missing => Some(3),
            Exit::Regression => Some(4),
            Exit::Undecided => Some(5),
            Exit::Interrupted => Some(6),
            Exit::Program(_) => None,
        }
    }

    #[test]
    fn every_code_is_documented_once_in_ascending_order() {
        let places: Vec<Option<usize>> = Exit::DOCUMENTED.iter().map(|row| place(row.exit)).collect();
        assert_eq!(places, (0..7).map(Some).collect::<Vec<_>>());
        let codes: Vec<u8> = Exit::DOCUMENTED.iter().map(|row| row.exit.code()).collect();
        assert_eq!(codes, [0, 1, 2, 3, 4, 5, 130]);
    }

    #[test]
    fn what_the_auction_application_returns_is_documented() {
        let run = |arguments: &[&str]| {
            let arguments: Vec<std::ffi::OsString> = arguments.iter().map(|&argument| argument.into()).collect();
            baremark_auction::run(&arguments, &mut Vec::new(), &mut Vec::new())
        };
        assert_eq!(run(&["serve", "--help"]), Exit::Success.code());
        assert_eq!(run(&["serve", "--no-such-flag"]), Exit::BadInput.code());
        assert_eq!(run(&["check", "--database", "sqlite:/nonexistent/auction.db"]), Exit::Failure.code());
    }
}
