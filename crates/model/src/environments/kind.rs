//! What a row of the table of environments says.

use crate::arm::ExecutorKind;
use crate::knob::{Default, Kind, Knob};
use crate::units::{HOUR, SECOND};
use crate::value::Value;
use serde::{Deserialize, Serialize};
use std::ops::Deref;

/// Everything that is known of an environment but how it is started.
#[derive(Clone, Copy, Debug)]
pub struct EnvironmentKind {
    /// Its name as a level of the factor `environment`.
    pub name: &'static str,
    /// One sentence for people.
    pub help: &'static str,
    /// The privilege or the program without which a user has none; empty where everybody has it.
    pub needs: &'static str,
    /// The command that grants that, for the superuser unless it is a program of the user's; empty where there is none.
    pub grant: &'static str,
    /// What it is and can do.
    pub can: Capabilities,
    /// What can be set about it in `[environments.NAME]`.
    pub settings: &'static [Setting],
    /// Settings of which any puts it on other machines, where it is on this one without them.
    pub elsewhere_by: &'static [&'static str],
    /// How it is written in one word on a command line; `None` where it is not.
    pub short: Option<Short>,
}

/// What an environment is and can do: what others ask for in the place of its name. It has no default, so that a new question is answered for
/// every environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Capabilities {
    /// What runs the bodies of kernels in its agent.
    pub executor: ExecutorKind,
    /// Whether its arms run in an agent on this machine itself, so that two of them take turns in one process.
    pub interleaves: bool,
    /// Whose kernel its programs run on.
    pub kernel: Holder,
    /// Whose processors its programs run on.
    pub processors: Holder,
    /// Whether it is a virtual machine, whose exits cost time and whose addresses are translated twice.
    pub virtual_machine: bool,
    /// Whether device and kernel work is part of what it is measured with; where not, a ratio is a lower bound.
    pub devices: bool,
    /// Whether its programs find this machine's files at the same paths.
    pub host_files: bool,
    /// Whether several can run at once, among which ranks and memory are divided behind one gate.
    pub divisible: bool,
    /// Whether it can be the other end of a workload that talks to another site.
    pub network: bool,
}

/// Who has the kernel or the processors below an environment's programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Holder {
    /// This machine.
    ThisMachine,
    /// A guest on this machine.
    Guest,
    /// Another machine, or one that is not known.
    Elsewhere,
}

impl Capabilities {
    /// Those of an environment of which nothing is known: on another machine, and it can do nothing in particular.
    pub const UNKNOWN: Capabilities = Capabilities {
        executor: ExecutorKind::Direct,
        interleaves: false,
        kernel: Holder::Elsewhere,
        processors: Holder::Elsewhere,
        virtual_machine: false,
        devices: true,
        host_files: false,
        divisible: false,
        network: false,
    };

    /// Whether it runs on this machine's kernel.
    #[must_use]
    pub const fn on_this_kernel(&self) -> bool {
        matches!(self.kernel, Holder::ThisMachine)
    }

    /// Whether it runs on this machine's processors.
    #[must_use]
    pub const fn on_these_processors(&self) -> bool {
        matches!(self.processors, Holder::ThisMachine)
    }

    /// Whether its programs run on this machine's kernel and are separated from it, as those of a container.
    #[must_use]
    pub const fn separates_programs(&self) -> bool {
        self.on_this_kernel() && !self.interleaves
    }

    /// Whether it is a machine or a part of one that can be there several times, and not this machine as it is.
    #[must_use]
    pub const fn is_bounded(&self) -> bool {
        self.virtual_machine || !self.interleaves
    }

    /// Whether anything runs in it.
    #[must_use]
    pub fn runs_work(&self) -> bool {
        self.executor != ExecutorKind::Null
    }
}

/// A key of `[environments.NAME]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    knob: Knob,
    /// Whether its value can name a machine, an account, a file or a cluster: a redacted bundle has a replacement.
    pub identifies: bool,
}

impl Deref for Setting {
    type Target = Knob;

    fn deref(&self) -> &Knob {
        &self.knob
    }
}

impl EnvironmentKind {
    /// The keys of its settings as a study's reader takes them.
    #[must_use]
    pub fn knobs(&self) -> Vec<Knob> {
        self.settings.iter().map(|setting| setting.knob).collect()
    }
}

impl Setting {
    /// The setting with this help: one sentence for people.
    pub(super) const fn help(self, help: &'static str) -> Setting {
        Setting { knob: self.knob.help(help), ..self }
    }
}

/// A setting whose value is a number, a size, a time or one of a few words.
pub(super) const fn setting(key: &'static str, kind: Kind, default: Default) -> Setting {
    assert!(
        !matches!(kind, Kind::Text | Kind::Words | Kind::Literal),
        "of a text is said whether it identifies somebody: use identifying or harmless"
    );
    harmless(key, kind, default)
}

/// A setting whose text can name a machine, an account, a file or a cluster.
pub(super) const fn identifying(key: &'static str, kind: Kind, default: Default) -> Setting {
    Setting { knob: Knob::new(key, kind, default), identifies: true }
}

/// A setting whose text identifies nobody, such as numbers of CPUs.
pub(super) const fn harmless(key: &'static str, kind: Kind, default: Default) -> Setting {
    Setting { knob: Knob::new(key, kind, default), identifies: false }
}

/// Settings with the values that are given to them.
pub type Given = Vec<(&'static str, Value)>;

/// How an environment is written in one word, as `run --in` takes it: its name, and a target after a colon.
#[derive(Clone, Copy, Debug)]
pub struct Short {
    /// What follows the name, as help shows it: `[:IMAGE]`.
    pub form: &'static str,
    /// What the target must name; empty where none is needed.
    pub needs: &'static str,
    /// The image that it has where the command line names none; `None` where an image is its target.
    pub image: Option<&'static str>,
    /// The setting by whose value the environment is named where the target is one; it is then one of its own, based on this.
    pub named_by: Option<&'static str>,
    /// The settings that a target stands for, and those of such a short form without one.
    pub settings: fn(Option<&str>) -> Result<Given, String>,
}

impl Short {
    /// One that takes no target.
    pub(super) const ALONE: Short =
        Short { form: "", needs: "", image: None, named_by: None, settings: |_| Ok(Vec::new()) };

    /// Whether a target may follow the name.
    #[must_use]
    pub fn takes_target(&self) -> bool {
        !self.form.is_empty()
    }
}

/// The setting that a target is.
pub(super) fn of_target(key: &'static str, target: Option<&str>) -> Given {
    target.map(|target| (key, Value::Text(target.to_owned()))).into_iter().collect()
}

/// The key of `[environments.NAME]` that names the environment without which alone this one is used.
pub const INSTEAD_OF: Setting = harmless("instead_of", Kind::Text, Default::Derived("none")).help(
    "another environment of the study: this one is used only where that one cannot run, such as where \
     there is no KVM",
);

/// The value of [`FRESH`] by which one site serves a whole run.
pub const WHOLE_RUN: &str = "run";

/// The key of `[environments.NAME]` that says how long a site serves.
pub const FRESH: Setting = setting("fresh", Kind::Choice(&["trial", "block", WHOLE_RUN]), Default::Typed("trial"))
    .help("how long one site serves: a new one for each trial, for each block, or one for the whole run");

/// What processes are and can do that others start on machines of theirs.
pub(super) const ON_OTHER_MACHINES: Capabilities = Capabilities::UNKNOWN;

pub(super) const START_LIMIT: Kind = Kind::Time { min: SECOND, max: 24 * HOUR };
pub(super) const START_HELP: &str = "how long it may take, once it runs, until the agent is there";
