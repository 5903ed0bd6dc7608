//! The reference page of study files, rendered from the tables that the parser reads.
//!
//! It is Markdown and has no text of its own about any single key: what is wrong on the page is wrong in a table, and is
//! mended there. It refuses nothing and knows no file; whoever calls it writes the page.

use crate::command;
use crate::descriptor::Descriptor;
use crate::environments::{self, EnvironmentKind};
use crate::knob::{Default, Kind, Knob};
use crate::metric::Better;
use crate::tables;
use crate::value::{GIVEN, Side};
use std::fmt::{self, Write};

const HEAD: &str = "\
# Study file reference

<!-- Generated from the tables of keys; edit those, not this page. -->

A study is a TOML file of a few sections. Words are in quotation marks, and so do sizes, durations
and percentages, which are typed with their unit: `\"1 GiB\"`, `\"50 ms\"`, `\"1 %\"`. A key or a value that is not on this
page is refused before anything runs.
";
const FACTORS: &str = "\
What is varied: each key takes one level or a list of levels, and every combination is a treatment. The parameters of the
workload may stand here too, instead of in `[workload]`.
";
const OBSERVE: &str = "\
System activity that is recorded, where the work runs and on this machine; it never fails a trial. `which` may also be a list.
";
const ENVIRONMENTS: &str = "\
What can be set about an environment: NAME is its name, below which its keys are listed.

NAME may also be one of your own, which is a further level of the factor `environment`; then `like` names the environment that it extends, and only
what differs needs to be set. So two guests or containers of different settings are in one study, in the same
blocks:

```toml
[factors]
environment = [\"native\", \"container\", \"unfiltered\"]

[environments.unfiltered]
like = \"container\"
seccomp = \"off\"
```
";
const RATIO_TO: &str = "\
`ratio_to` is a table of levels that make a treatment a denominator, such as `{ environment = \"native\" }`. Without it
several environments are compared with native, if it is one of them.
";
const WORKLOAD: &str = "\
`kind` names the workload and is required; the other keys are that workload's parameters, listed under its name below.

`kind` may be a list: then all of these workloads run in the same blocks, they are the study's first factor, and each has a
section of its own, `[workload.KIND]`, for its parameters. A factor of `[factors]` set there is held at that level for it. A
control such as `fma` among them lets the report say what computing alone loses.
One whose size the study leaves open, and which this machine cannot have, is left out and named with the reason.
";
const ONE_OF_SEVERAL: &str = "\
In addition to the workload's own parameters and the factors that are held for it:
";

const COMMAND: &str = "\
An external program as the workload `command`. Its texts (`argv`, `setup`, `prepare`, `cleanup`, `directory`, `stdin`, `beside`, files,
environment, `per` and the rules of success) may hold placeholders: `{key}` of its own parameters, and those given below. `${key}` is
left alone, `{{key}` is a literal `{key}`. No shell is involved. `baremark init` prints a complete example. Sections and lists below it:

- `[command.parameters]`: `key = default`, a whole number, `true`, `false` or a text; may be varied in `[factors]`.
- `[command.quick]`: what `--quick` takes for a parameter, where that is less.
- `prepare`: a list of programs with their arguments that are run before every run, unmeasured, in the same folder.
- `setup`: such a list, run on this machine before the first trial of a run, and once more when the run is resumed. Programs
  that are the same for several treatments are run once.
- `cleanup`: such a list, run on this machine after the last trial of a run, also of one that is interrupted.
- `[command.files]`: `name = text`, put into the folder before every run.
- `[command.bring]`: `name = path`, files of this machine, programs included, that are brought to the site and put into the folder before every run; argv names them as `{folder}/name`.
- `[command.environment]`: `NAME = text`, environment variables.
- `[command.needs]`: `program = \"Debian package\"`, programs without which the site is refused; text with a space in it says how else to get one.
  A program that is not on the search path is looked for in baremark's own folder.
";
const COMMANDS: &str = "\
Several external programs, compared with each other: NAME is a level of the factor `command`. Each section takes the keys, sections and
lists of `[command]` but for parameters, quick, success, reading and metrics, which all programs share; what it does not say is as in
`[command]`, and files and variables are added to those.

```toml
[factors]
command = [\"old\", \"new\"]

[commands.old]
argv = [\"./old\", \"in.dat\"]

[commands.new]
argv = [\"./new\", \"in.dat\"]

[report]
columns = \"command\"
ratio_to = { command = \"old\" }
```
";
const READING: &str = "\
One metric, the headline's first. Every program also has those of the workload `command` (below). `[command.reading]` gives defaults for the
keys from `from` on.
";

/// The page, for a program that has these workloads.
#[must_use]
pub fn study_reference(workloads: &[&Descriptor]) -> String {
    let mut page = HEAD.to_owned();
    let sections = [
        ("[study]", "", tables::STUDY),
        ("[workload]", WORKLOAD, &[]),
        ("[workload.KIND]", ONE_OF_SEVERAL, tables::OF_ONE_WORKLOAD),
        ("[factors]", FACTORS, tables::FACTORS),
        ("[observe]", OBSERVE, crate::observer::OBSERVE),
        ("[design]", "", tables::DESIGN),
        ("[report]", RATIO_TO, tables::REPORT),
    ];
    for (name, text, knobs) in sections {
        // A `String` takes whatever is written to it.
        let _ = section(&mut page, name, text, knobs);
    }
    let _ = command(&mut page);
    let _ = section(&mut page, "[environments.NAME]", ENVIRONMENTS, &[environments::LIKE]);
    for kind in environments::ALL {
        let _ = one_environment(&mut page, kind);
    }
    page.push_str("\n## Workloads\n");
    for workload in workloads {
        let _ = one_workload(&mut page, workload);
    }
    page
}

fn section(page: &mut String, name: &str, text: &str, knobs: &[Knob]) -> fmt::Result {
    write!(page, "\n## `{name}`\n")?;
    if !text.is_empty() {
        write!(page, "\n{text}")?;
    }
    keys(page, knobs)
}

fn command(page: &mut String) -> fmt::Result {
    section(page, "[command]", COMMAND, command::COMMAND)?;
    write!(page, "\n| given placeholder | meaning |\n|---|---|\n")?;
    for (key, meaning) in GIVEN {
        writeln!(page, "| `{{{key}}}` | {meaning} |")?;
    }
    for (_, ending, meaning) in Side::ENDINGS {
        writeln!(page, "| `{{KEY{ending}}}` | {meaning} |")?;
    }
    section(page, "[command.metrics.NAME]", READING, command::READING)?;
    section(page, "[command.success]", "", command::SUCCESS)?;
    section(page, "[command.beside]", "", command::BESIDE)?;
    section(page, "[commands.NAME]", COMMANDS, &[])
}

fn one_environment(page: &mut String, kind: &EnvironmentKind) -> fmt::Result {
    write!(page, "\n### `{}`\n\n{}.", kind.name, capital(kind.help))?;
    if kind.settings.is_empty() {
        return writeln!(page, " Nothing can be set about it.");
    }
    writeln!(page)?;
    keys(page, &kind.knobs())
}

fn one_workload(page: &mut String, workload: &Descriptor) -> fmt::Result {
    let executors: Vec<String> = workload.executors.iter().map(ToString::to_string).collect();
    write!(page, "\n### `{}`\n\n", workload.kind)?;
    writeln!(page, "{}. Defined by: {}. Runs in: {}.", capital(workload.help), workload.source, executors.join(", "))?;
    keys(page, workload.parameters)?;
    if let Some(section) = workload.section {
        write!(page, "\nThe study's section `[{}]` describes {}.\n", section.name, section.help)?;
    }
    if !workload.quick.is_empty() {
        let smaller: Vec<String> = workload.quick.iter().map(|(key, value)| typed(workload, key, value)).collect();
        write!(page, "\n`--quick` takes at most {}.\n", smaller.join(", "))?;
    }
    write!(page, "\n| metric | unit | better | meaning |\n|---|---|---|---|\n")?;
    for metric in workload.metrics {
        let better = match metric.better {
            Better::Higher => "higher",
            Better::Lower => "lower",
        };
        writeln!(page, "| `{}` | {} | {better} | {} |", metric.key, cell(metric.unit), cell(metric.help))?;
    }
    Ok(())
}

fn keys(page: &mut String, knobs: &[Knob]) -> fmt::Result {
    if knobs.is_empty() {
        return Ok(());
    }
    write!(page, "\n| key | takes | default | meaning |\n|---|---|---|---|\n")?;
    for knob in knobs {
        let default = match knob.default {
            Default::Required => "required".to_owned(),
            Default::Typed(text) => format!("`{}`", cell(&as_toml(knob.kind, text))),
            Default::Derived(how) => cell(how),
        };
        writeln!(page, "| `{}` | {} | {default} | {} |", knob.key, cell(&knob.takes()), cell(knob.help))?;
    }
    Ok(())
}

fn typed(workload: &Descriptor, key: &str, value: &str) -> String {
    let kind = workload.parameter(key).map_or(Kind::Text, |knob| knob.kind);
    format!("`{key} = {}`", as_toml(kind, value))
}

/// A value as a study file has it.
fn as_toml(kind: Kind, text: &str) -> String {
    match kind {
        Kind::Count { .. } | Kind::Switch => text.to_owned(),
        Kind::Words => {
            let words: Vec<String> = text.split_whitespace().map(|word| format!("\"{word}\"")).collect();
            format!("[{}]", words.join(", "))
        }
        _ => format!("\"{text}\""),
    }
}

/// Text that cannot end its cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn capital(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or_else(String::new, |first| first.to_uppercase().chain(rest).collect())
}
