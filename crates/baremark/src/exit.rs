//! What `baremark` says to the program that called it.

use std::process::{ExitCode, Termination};

/// The exit codes of every command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: done.
    Success,
    /// 1: something failed that should not have: a full disk, a broken store, an agent that cannot start, more of a load's
    /// operations than the error limit allows.
    Failure,
    /// 2: the input is wrong: a command line, a study file, the name of a run.
    BadInput,
    /// 3: something that the study needs is not on this machine, and nothing of the study could run.
    Missing,
    /// 4: `check` found something slower than the baseline; a load exceeded a limit; or what must hold of an application does not.
    Regression,
    /// 5: `check` found nothing slower, and could have missed a loss of the margin; or a load was too short for a limit.
    Undecided,
    /// Any: that of the program which `guest` has run.
    Program(i32),
    /// 130: interrupted; what was finished is stored and the run can be resumed.
    Interrupted,
}

impl Exit {
    /// Every code with its meaning, for help and documentation.
    pub const TABLE: &str = "\
Exit codes:
  0    done; check, ab --fail-above: no loss, and one of the margin would have been found
  1    failed: full disk, broken store, agent that cannot start; load: failures above the error limit
  2    bad input: command line, study file, name of a run
  3    nothing of the study can run on this machine
  4    check: slower than the baseline; ab --fail-above: worse by more; load: a limit is exceeded;
       auction check: something that must hold does not; auction run: no number of users was seen to keep
       every limit
  5    check, ab --fail-above: no loss is shown, and one of the margin could have been missed; load: too few
       samples for a limit
  130  interrupted; finished trials are stored, `baremark resume` goes on";
}

impl Termination for Exit {
    fn report(self) -> ExitCode {
        ExitCode::from(match self {
            Exit::Success => 0,
            Exit::Failure => 1,
            Exit::BadInput => 2,
            Exit::Missing => 3,
            Exit::Regression => 4,
            Exit::Undecided => 5,
            // The kernel keeps eight bits too.
            Exit::Program(code) => code.to_le_bytes()[0],
            Exit::Interrupted => 130,
        })
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

    /// A failure.
    pub fn failure(message: impl ToString) -> Self {
        Refusal { exit: Exit::Failure, message: message.to_string() }
    }
}
