//! Any external program as a workload: what a study says of it in `[command]`.
//!
//! The study defines the parameters and the metrics, so the descriptor of such a workload is made from the study instead
//! of standing in this program. An arm carries the whole description among its parameters; its texts hold placeholders,
//! which the agent fills in at the site. No text ever passes through a shell. Where a study compares programs, each has a
//! name in `[commands]`, and the names are the levels of the factor `command`.

use crate::arm::{ExecutorKind, ResolvedArm};
use crate::descriptor::{Descriptor, joined};
use crate::knob::{Default, InvalidValue, Kind, Knob};
use crate::metric::{Aggregate, Better, Metric};
use crate::page_size::PageSize;
use crate::units::{Nanos, SECOND};
use crate::value::{Program, Value};
use std::sync::{Mutex, PoisonError};

mod keys;
mod metrics;

pub use keys::{BESIDE, COMMAND, READING, READING_DEFAULTS, SUCCESS};
pub use metrics::{
    CALL_COST, CONTEXT_SWITCHES, CPU, EXIT_COST, EXIT_SHARE, EXITLESS_CALLS, EXITLESS_FALLBACKS, FORWARDED_CALLS,
    GUEST_FAULTS, GUEST_SIGNALS, GUEST_START, IN_GUEST, MAJOR_FAULTS, ONE_CPU, PAGE_FAULTS, PEAK_MEMORY, POLLING_CPU,
    PROTECTED, RUN_TIMES, RUN_TIMES_OF, SYSTEM, USER, USUAL, VM_EXITS, WALL,
};

/// The workload's kind, the study's section, the factor whose levels are programs, and the key under which an arm carries its program.
pub const KIND: &str = "command";
/// The section of a study's programs by name.
pub const NAMED: &str = "commands";
/// What [`Program::inherit`] names to pass on every environment variable.
pub const EVERY_VARIABLE: &str = "*";

/// `text` with every placeholder `{key}` replaced by what `value` gives for it. `${key}` is left alone, since it is some
/// other program's; `{{key}` is a literal `{key}`.
///
/// # Errors
/// The first key for which `value` gives nothing.
pub fn fill(text: &str, mut value: impl FnMut(&str) -> Option<String>) -> Result<String, String> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        let (before, from) = rest.split_at(open);
        filled.push_str(before);
        let doubled = from.starts_with("{{") && placeholder(&from[1..]).is_some();
        match placeholder(from) {
            _ if doubled => {
                let key = placeholder(&from[1..]).unwrap_or_default();
                filled.push_str(&from[1..key.len() + 3]);
                rest = &from[key.len() + 3..];
            }
            Some(key) if !before.ends_with('$') => {
                filled.push_str(&value(key).ok_or_else(|| key.to_owned())?);
                rest = &from[key.len() + 2..];
            }
            _ => {
                filled.push('{');
                rest = &from[1..];
            }
        }
    }
    filled.push_str(rest);
    Ok(filled)
}

/// `text` so that [`fill`] gives it back, but for the placeholders of `keys`.
#[must_use]
pub fn escape(text: &str, keys: &[&str]) -> String {
    let mut escaped = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        if c == '{' && placeholder(&text[at..]).is_some_and(|key| !keys.contains(&key) || text[..at].ends_with('{')) {
            escaped.push('{');
        }
        escaped.push(c);
    }
    escaped
}

/// The key of the placeholder with which `text` begins.
fn placeholder(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('{')?;
    let key = &inner[..inner.find('}')?];
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    (key.bytes().next()?.is_ascii_lowercase() && key.bytes().all(word)).then_some(key)
}

/// How long a run of a program may take: a knob that every workload which runs programs has, by which the lab knows how
/// long it must wait.
pub const TIMEOUT: Knob =
    Knob::new("timeout", Kind::Time { min: SECOND, max: 168 * 3600 * SECOND }, Default::Typed("10 min")).help(
        "how long one run of the program may take, without its preparation, before it is killed with all its \
         processes",
    );

/// Page size of the guest's leaf entries where a program runs in the microVM.
pub const GUEST_PAGE: Knob = Knob::new("guest_page", Kind::Page, Default::Typed("2m")).help(
    "page size of the microVM's guest page tables; memory itself is the program's own, as natively. \
     Applies to microvm",
);

/// The page size of an arm's guest.
#[must_use]
pub fn guest_page(arm: &ResolvedArm) -> PageSize {
    match arm.parameters.get(GUEST_PAGE.key) {
        Some(Value::Page(page)) => *page,
        _ => PageSize::Large,
    }
}

/// Whether a polling thread answers system calls of a program in the microVM.
pub const EXITLESS: Knob = Knob::new("exitless", Kind::Choice(&["off", "on"]), Default::Typed("off")).help(
    "whether a thread that polls on a CPU of its own answers system calls of a program in the microVM \
     without an exit: those that do not depend on the calling thread and wait for nobody. The CPU is \
     spent on it; at least 2 must be allowed. Applies to microvm",
);

/// Whether an arm has a polling thread.
#[must_use]
pub fn is_exitless(arm: &ResolvedArm) -> bool {
    matches!(arm.parameters.get(EXITLESS.key), Some(Value::Choice(state)) if state == "on")
}

/// Whether memory of a program in the microVM is given when it is mapped.
pub const PREFAULT: Knob = Knob::new("prefault", Kind::Choice(&["off", "on"]), Default::Typed("off")).help(
    "whether the host gives a program in the microVM private memory when the program maps it, not when it \
     first touches it; the time that this takes is part of the run as before. Stacks, memory that is \
     reserved alone, and what is larger than the available memory are left out. Applies to microvm",
);

/// Whether an arm has its memory when it is mapped.
#[must_use]
pub fn is_prefaulted(arm: &ResolvedArm) -> bool {
    matches!(arm.parameters.get(PREFAULT.key), Some(Value::Choice(state)) if state == "on")
}

/// By these parameters workloads that choose it say how long a phase is measured, and how long it runs before that.
pub const DURATION: &str = "duration";
/// See [`DURATION`].
pub const WARM_UP: &str = "warm_up";
/// The time under load after it, in workloads that have one.
pub const RAMP_DOWN: &str = "ramp_down";
/// How the gaps of an open loop are made, in workloads that have one.
pub const ARRIVAL: Knob = Knob::new("arrival", Kind::Choice(&["constant", "poisson"]), Default::Typed("constant"))
    .help("inter-arrival time distribution of an open loop");

/// How long a phase of an arm lasts, where its workload says so by [`DURATION`], [`WARM_UP`] and [`RAMP_DOWN`].
#[must_use]
pub fn phase_time(arm: &ResolvedArm) -> Option<Nanos> {
    let time = |key: &str| match arm.parameters.get(key) {
        Some(Value::TimeNs(time)) => Some(time.0),
        _ => None,
    };
    let around = [WARM_UP, RAMP_DOWN].map(|key| time(key).unwrap_or(0));
    Some(Nanos(around.into_iter().fold(time(DURATION)?, u64::saturating_add)))
}

/// Refuses a phase that its [`TIMEOUT`] would cut short.
///
/// # Errors
/// What would be right.
pub fn fits_timeout(arm: &ResolvedArm) -> Result<(), InvalidValue> {
    match (phase_time(arm), arm.parameters.get(TIMEOUT.key)) {
        (Some(phase), Some(Value::TimeNs(timeout))) if phase.0 >= timeout.0 => {
            let ramps_down = matches!(arm.parameters.get(RAMP_DOWN), Some(Value::TimeNs(time)) if time.0 > 0);
            let after = if ramps_down { format!(", {WARM_UP} and {RAMP_DOWN}") } else { format!(" and {WARM_UP}") };
            let what = format!("{DURATION}{after} are {phase} together, and the timeout is {timeout}");
            Err(InvalidValue::new(what, format!("write a shorter {DURATION}, or a longer {}", TIMEOUT.key)))
        }
        _ => Ok(()),
    }
}

/// The length of an epoch of protection.
pub const PROTECT: Knob =
    Knob::new("protect", Kind::Choice(&["none", "5 ms", "20 ms", "100 ms"]), Default::Typed("none")).help(
        "protection by checkpoints: after each epoch of this length the program is stopped and its changed \
         pages are copied to a secondary process; of programs that run natively or in the microVM",
    );

/// The rate of the link to the secondary.
pub const LINK_RATE: Knob = Knob::new("link_mbit", Kind::Count { min: 1, max: 1_000_000 }, Default::Typed("10000"))
    .help("rate of the link to the secondary in 10^6 bit/s; with protect alone");

/// The delay of the link to the secondary.
pub const LINK_DELAY: Knob = Knob::new("link_delay", Kind::Time { min: 0, max: 1_000_000_000 }, Default::Typed("0 s"))
    .help("one-way delay of the link to the secondary, in both directions, by a proxy; with protect alone");

const PROGRAM: Knob = Knob::new(KIND, Kind::Text, Default::Derived("the section [command]")).help(
    "the program, which is described in the section [command]; as a factor, names of programs that are \
     described in [commands.NAME]",
);

static BARE_METRICS: [Metric; 35] = joined(&[&USUAL, &RUN_TIMES, &IN_GUEST, &PROTECTED]);
static BARE_PARAMETERS: [Knob; 8] = [PROGRAM, TIMEOUT, GUEST_PAGE, EXITLESS, PREFAULT, PROTECT, LINK_RATE, LINK_DELAY];

/// The workload as far as it is known without a study.
pub static BARE: Descriptor = Descriptor {
    kind: KIND,
    help: "any external program; the section [command] says how it is run and where its metrics stand",
    source: "the study",
    parameters: &BARE_PARAMETERS,
    metrics: &BARE_METRICS,
    executors: &[ExecutorKind::Direct, ExecutorKind::Microvm],
    alternates: |_| true,
    check,
    ..Descriptor::JOB
};

/// The program that an arm carries.
#[must_use]
pub fn of_arm(arm: &ResolvedArm) -> Option<&Program> {
    match arm.parameters.get(KIND) {
        Some(Value::Program(program)) => Some(program),
        _ => None,
    }
}

fn check(arm: &ResolvedArm) -> Result<(), InvalidValue> {
    match of_arm(arm) {
        Some(_) => Ok(()),
        None => Err(InvalidValue::new(
            "'command' names no program".to_owned(),
            "describe it in a section [command] with argv = [\"program\", \"argument\"], or several in [commands.NAME]"
                .to_owned(),
        )),
    }
}

/// The descriptor of a workload that is this program. It lives as long as the process, once for each program.
#[must_use]
pub fn descriptor(program: &Program) -> &'static Descriptor {
    static KNOWN: Mutex<Vec<(Program, &'static Descriptor)>> = Mutex::new(Vec::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, found)) = known.iter().find(|(known, _)| known == program) {
        return found;
    }
    let made: &'static Descriptor = Box::leak(Box::new(made(program)));
    known.push((program.clone(), made));
    made
}

/// The descriptor of a workload `kind` whose results were imported: its metrics are those of `program`, and nothing of it can be run.
/// It lives as long as the process.
#[must_use]
pub fn imported(kind: &str, program: &Program) -> &'static Descriptor {
    Box::leak(Box::new(Descriptor { kind: leak(kind), parameters: &[], executors: &[], ..*descriptor(program) }))
}

fn made(program: &Program) -> Descriptor {
    let knobs = program.parameters.iter().map(|declared| {
        Knob::new(
            leak(&declared.key),
            match declared.default {
                Value::Count(_) => Kind::Count { min: 0, max: u64::MAX },
                Value::Switch(_) => Kind::Switch,
                _ => Kind::Text,
            },
            Default::Typed(leak(&declared.default.to_string())),
        )
        .help("a parameter that the study declares")
    });
    let readings = program.metrics.iter().map(|reading| Metric {
        key: leak(&reading.key),
        unit: leak(&reading.unit),
        better: reading.better,
        // A program says no more of its metrics: several copies of it do the work of all at the cost of each.
        together: match reading.better {
            Better::Higher => Aggregate::Sum,
            Better::Lower => Aggregate::Mean,
        },
        help: leak(&reading.help),
    });
    let quick = program
        .parameters
        .iter()
        .filter_map(|declared| declared.quick.as_ref().map(|quick| (leak(&declared.key), leak(&quick.to_string()))));
    Descriptor {
        parameters: Vec::leak(BARE_PARAMETERS.into_iter().chain(knobs).collect()),
        metrics: Vec::leak(readings.chain(BARE_METRICS).collect()),
        quick: Vec::leak(quick.collect()),
        ..BARE
    }
}

fn leak(text: &str) -> &'static str {
    String::leak(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_has_all_its_parts_and_must_end_before_its_timeout() {
        let mut arm = ResolvedArm::native(1, PageSize::Small);
        let seconds = |count: u64| Value::TimeNs(Nanos(count * 1_000_000_000));
        for (key, count) in [(DURATION, 10), (WARM_UP, 2), (TIMEOUT.key, 15)] {
            arm.parameters.insert(key.to_owned(), seconds(count));
        }
        assert_eq!((phase_time(&arm), fits_timeout(&arm)), (Some(Nanos(12_000_000_000)), Ok(())));
        arm.parameters.insert(RAMP_DOWN.to_owned(), seconds(3));
        assert_eq!(phase_time(&arm), Some(Nanos(15_000_000_000)));
        let why = fits_timeout(&arm).expect_err("it would be cut short").to_string();
        assert!(why.starts_with("duration, warm_up and ramp_down are 15 s together, and the timeout is 15 s"), "{why}");
    }

    fn filled(text: &str) -> Result<String, String> {
        fill(text, |key| (key == "threads").then(|| "4".to_owned()))
    }

    #[test]
    fn placeholders_are_filled_and_what_belongs_to_other_programs_is_left() {
        assert_eq!(filled("--threads={threads}").as_deref(), Ok("--threads=4"));
        let foreign = "run ${steps} {\"a\": {\"b\": 1}} x{3} {A} {} { print } {";
        assert_eq!(filled(foreign).as_deref(), Ok(foreign));
        assert_eq!(filled("{{threads} {threads}{threads}").as_deref(), Ok("{threads} 44"));
        assert_eq!(filled("{thread}"), Err("thread".to_owned()));
    }

    #[test]
    fn what_is_escaped_is_filled_as_it_was() {
        for text in ["{other}", "{{threads}", "${other} x {", "{{{other}}", "{print} {print $1}", "plain"] {
            assert_eq!(filled(&escape(text, &["threads"])).as_deref(), Ok(text), "{text}");
        }
        assert_eq!(filled(&escape("-t {threads} {other}", &["threads"])).as_deref(), Ok("-t 4 {other}"));
    }

    #[test]
    fn a_literal_brace_is_written_as_two() {
        assert_eq!(filled("{{print}").as_deref(), Ok("{print}"));
        assert_eq!(filled("{{{threads}").as_deref(), Ok("{{threads}"));
    }
}
