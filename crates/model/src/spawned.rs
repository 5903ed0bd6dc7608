//! Programs that run at a site alongside trials, and the files that they need: what a lab asks for and what an agent answers.
//!
//! An agent keeps one private folder for the files, and ends the programs and removes the folder when it leaves.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The most bytes of one [`PutFile`]; longer files come in several.
pub const LONGEST_PIECE: usize = 256 << 10;

/// A file, or the next piece of one, for the agent's folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PutFile {
    /// Its name: one path component.
    pub name: String,
    /// Whether this is put at the end of what is there.
    pub append: bool,
    /// Whether it can be executed.
    pub executable: bool,
    /// The bytes; base64 in a frame.
    #[serde(with = "base64_text")]
    pub content: Vec<u8>,
}

/// Bytes in JSON: a third more than they are. As a list of numbers they would be nearly four times as many, and thirty times
/// while the list is read.
mod base64_text {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(bytes))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        STANDARD.decode(String::deserialize(from)?).map_err(D::Error::custom)
    }
}

/// A program to be started in the agent's folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spawn {
    /// The name by which it is stopped and asked about.
    pub name: String,
    /// The program: a path, a name to be found, or this program itself when `None`.
    pub program: Option<String>,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables of its environment, in addition to the agent's.
    pub environment: BTreeMap<String, String>,
    /// What it may have; all that the agent has when nothing is said.
    #[serde(default)]
    pub limits: SpawnLimits,
}

/// What a program that is spawned may have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnLimits {
    /// The CPUs on which it may run; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<usize>,
    /// The most memory, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// The most open files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
}

/// How a program that was spawned is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spawned {
    /// Its name.
    pub name: String,
    /// Its process number at the site.
    pub pid: u32,
    /// How it ended, in words; `None` while it runs.
    pub ended: Option<String>,
    /// The last lines that it wrote, oldest first.
    pub log: Vec<String>,
    /// How many lines it has written in all: whoever asks again knows by it which are new.
    #[serde(default)]
    pub lines: u64,
    /// What it and all that it has started have used.
    #[serde(default)]
    pub used: Used,
    /// What holds its memory, in words; empty when nothing does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub memory_held: String,
}

/// What a program and all that it has started have used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// Processor time of user and system, in ns.
    pub cpu_ns: u64,
    /// Resident memory, in bytes.
    pub resident_bytes: u64,
    /// Processes that live.
    pub processes: usize,
}
