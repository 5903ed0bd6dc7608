//! What the list of environments has of each that is started: how it is made of a study's settings, and what files its programs see.

use crate::lab::Connect;
use crate::values::Settings;
use baremark_model::knob::InvalidValue;
use baremark_model::site::Environment;
use std::path::PathBuf;

/// What an environment is made of.
pub struct MakeArguments<'a> {
    /// The name that it has in the study.
    pub name: &'a str,
    /// Its settings.
    pub settings: &'a Settings,
    /// This program, which it runs as its agent.
    pub program: PathBuf,
    /// What connects a process with the run's network.
    pub namespace: Connect,
    /// What connects a guest with it.
    pub guest: Connect,
}

/// An environment in the list.
#[derive(Clone, Copy)]
pub struct Adapter {
    /// Its name, which its row in the table of environments has, too.
    pub name: &'static str,
    /// Makes it.
    pub make: fn(MakeArguments<'_>) -> Result<Box<dyn Environment>, InvalidValue>,
    /// Which files its programs see.
    pub files: fn(&Settings) -> Files,
}

/// The files that programs in an environment see.
#[derive(Clone, Debug)]
pub enum Files {
    /// This machine's.
    OfThisMachine,
    /// Those below a folder of this machine.
    Below(PathBuf),
    /// None but this program; what gives it those of a package.
    None(fn(&str) -> String),
    /// Only an agent there sees them.
    Unknown,
}

/// The setting `rootfs` of an environment that has this machine's own files.
pub(crate) const HOST: &str = "host";
