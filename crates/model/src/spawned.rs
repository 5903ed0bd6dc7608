//! Programs that run at a site beside trials, and the files that they need: what a lab asks for and what an agent answers.
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
    /// The bytes.
    pub content: Vec<u8>,
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
    /// Variables of its environment, beside the agent's.
    pub environment: BTreeMap<String, String>,
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
}
