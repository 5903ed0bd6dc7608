//! Codes of what programs decide by. The sentences next to them in documents are for people, and nothing is read off them; where an earlier
//! version wrote the sentence alone, the code of a decision, a translation or an origin is found here and nowhere else. Causes, flags and reasons are
//! computed anew from the trials.

use serde::{Deserialize, Serialize};

/// What an explanation is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The extra time of the work itself over what it is compared with.
    Overhead,
    /// The extra time of the control, which computes alone.
    Computing,
    /// The extra time of the control in the blocks of other work.
    ComputingInTheSameBlocks,
    /// The extra time that the control does not explain.
    BeyondComputing,
    /// What large pages give in the same place.
    LargerPages,
    /// What an environment's own settings give over those that it extends.
    OwnSettings,
    /// What one piece of the kernel's page-table work takes.
    PageTableWork,
    /// Counts of the hypervisor, and what starting a run in it takes.
    Hypervisor,
    /// What VM exits cost at most.
    VmExits,
    /// Counts of a program in the microVM.
    ProgramInMicrovm,
    /// The run time of a program that exits from the microVM explain.
    ExitsOfProgram,
    /// The part of the extra time that one of the run's own metrics shows.
    OwnTime,
    /// The part of the extra time that system calls take, by runs that were examined after the comparison.
    SystemCalls,
    /// The part of the extra time that page faults take, likewise.
    PageFaults,
    /// The part of the extra time that a CPU quota withheld, likewise.
    Throttling,
    /// What such runs exclude as a cause of a difference, and what they leave open.
    Examined,
    /// How long ranks waited for CPUs that others had.
    Queued,
    /// The CPU time of other programs.
    OtherPrograms,
    /// What observers saw that differs between two arms.
    Observed,
}

/// What lowers the reliability of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Hindrance {
    /// Other programs used the CPUs.
    OtherPrograms,
    /// The hypervisor took CPUs away.
    Stolen,
    /// A CPU quota withheld time.
    Throttled,
    /// Measured threads waited for a CPU.
    Queued,
    /// Trials did not count.
    InvalidTrials,
    /// What was measured as a disk is a file in memory.
    InMemory,
}

/// What an interim analysis decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// More blocks are needed.
    Continue,
    /// The width is reached, and further blocks confirm it.
    Confirm,
    /// The run ends.
    Stop,
}

impl Decision {
    /// How the sentence of a decision begins; what follows says until when, or why.
    #[must_use]
    pub const fn begins(self) -> &'static str {
        match self {
            Decision::Continue => "continue to",
            Decision::Confirm => "width reached; confirm with",
            Decision::Stop => "stop:",
        }
    }

    /// The decision that a stored sentence states; `None` for one that no version wrote.
    #[must_use]
    pub fn of_sentence(sentence: &str) -> Option<Decision> {
        let all = [Decision::Continue, Decision::Confirm, Decision::Stop];
        all.into_iter().find(|decision| sentence.starts_with(decision.begins()))
    }
}

/// How a virtual machine's addresses are translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Translation {
    /// By the processor, from two tables.
    Nested,
    /// By tables that the hypervisor keeps merged.
    Shadow,
    /// Nothing says.
    Unknown,
}

impl Translation {
    /// The translation that a level of a factor, a published table or a trial of an earlier version names: "nested", "shadow (PVM)".
    #[must_use]
    pub fn of_words(words: &str) -> Translation {
        match words {
            words if words.starts_with("nested") => Translation::Nested,
            words if words.starts_with("shadow") => Translation::Shadow,
            _ => Translation::Unknown,
        }
    }
}

/// Why a treatment cannot run on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ReasonCode {
    /// The machine lacks something that was looked for: a program, a device, a right.
    NotAvailable,
    /// A feature of this host, of an environment whose host is another machine.
    OtherHost,
    /// The CPUs or nodes do not suffice, or cannot be divided so.
    Placement,
    /// The memory does not suffice.
    Memory,
    /// The environment has nothing that runs this workload.
    Executor,
    /// Several of this environment cannot run in one trial.
    Division,
    /// Nothing that can be measured here is compared with it.
    NoComparison,
}

/// What a flag says that something is decided by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Flag {
    /// A virtual machine is faster than native, and what else differs between the two, in words.
    FasterThanNative(String),
}

/// What made a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin<'f> {
    /// A study, by the file that the user named.
    Study(&'f str),
    /// A study that the command line has changed, by the name of what it was.
    Changed(&'f str),
    /// `baremark load`.
    Load,
    /// Another command line, which wrote the study.
    Command(&'f str),
    /// The import of another program's results, under this name.
    Import(&'f str),
}

impl<'f> Origin<'f> {
    /// The name of a load's study.
    pub const LOAD: &'static str = "baremark load";
    /// How the name of an imported run's study begins; its own name follows.
    pub const IMPORT: &'static str = "import ";
    /// How the name of a study ends that the command line has changed.
    pub const CHANGED: &'static str = " (changed)";

    /// The name under which it was imported; `None` of any other run.
    #[must_use]
    pub fn import(self) -> Option<&'f str> {
        match self {
            Origin::Import(name) => Some(name),
            _ => None,
        }
    }

    /// What made a run whose study has this name.
    #[must_use]
    pub fn of(study_file: &'f str) -> Origin<'f> {
        match study_file {
            Origin::LOAD => Origin::Load,
            file if file.starts_with("baremark ") => Origin::Command(file),
            file => match file.strip_prefix(Origin::IMPORT) {
                Some(name) => Origin::Import(name),
                None => file.strip_suffix(Origin::CHANGED).map_or(Origin::Study(file), Origin::Changed),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_of_earlier_versions_have_their_codes() {
        for (sentence, decision) in [
            ("continue to 20 blocks", Some(Decision::Continue)),
            ("width reached; confirm with 25 blocks", Some(Decision::Confirm)),
            ("stop: the precision is reached", Some(Decision::Stop)),
            ("continued", None),
        ] {
            assert_eq!(Decision::of_sentence(sentence), decision, "{sentence}");
        }
        for (words, translation) in [
            ("nested (EPT)", Translation::Nested),
            ("shadow (PVM)", Translation::Shadow),
            ("shadow", Translation::Shadow),
            ("unknown", Translation::Unknown),
        ] {
            assert_eq!(Translation::of_words(words), translation, "{words}");
        }
    }

    #[test]
    fn a_run_is_told_by_the_name_of_its_study() {
        for (file, origin) in [
            ("baremark load", Origin::Load),
            ("baremark ab 'a b' c", Origin::Command("baremark ab 'a b' c")),
            ("baremark loads.toml", Origin::Command("baremark loads.toml")),
            ("baremark.toml", Origin::Study("baremark.toml")),
            ("import fio-1", Origin::Import("fio-1")),
            ("standard", Origin::Study("standard")),
            ("standard (changed)", Origin::Changed("standard")),
        ] {
            assert_eq!(Origin::of(file), origin, "{file}");
        }
    }
}
