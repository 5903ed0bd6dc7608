//! Workloads that exist only here: every kind of parameter once, and one of everything that can be refused.

use baremark_model::arm::{ExecutorKind, ResolvedArm};
use baremark_model::descriptor::{Descriptor, Footprint, HeldBy, size_of};
use baremark_model::knob::{Default, InvalidValue, Kind, Knob};
use baremark_model::metric::{Aggregate, Better, Metric};
use baremark_model::value::Value;

/// All of them, as `study::parse` takes them.
pub const WORKLOADS: &[&Descriptor] = &[&RANDOM_ACCESS, &COMMAND];

/// Like random access: a table, a variant, and a parameter of every other kind.
pub static RANDOM_ACCESS: Descriptor = Descriptor {
    kind: "random-access",
    help: "random updates of a table",
    source: "HPC Challenge",
    parameters: &[
        Knob {
            key: "table",
            kind: Kind::Size { min: 1 << 20, max: 1 << 40 },
            default: Default::Typed("1 GiB"),
            help: "the table's size over all ranks; a power of two",
        },
        Knob {
            key: "variant",
            kind: Kind::Choice(&["update", "chase"]),
            default: Default::Typed("update"),
            help: "whether an access depends on the one before",
        },
        Knob {
            key: "lookahead",
            kind: Kind::Count { min: 1, max: 1024 },
            default: Default::Typed("128"),
            help: "updates in flight per rank",
        },
        Knob {
            key: "pause",
            kind: Kind::Time { min: 0, max: 1_000_000_000 },
            default: Default::Typed("0 ns"),
            help: "the rest between two rounds",
        },
        Knob {
            key: "skew",
            kind: Kind::Percent { min: 0.0, max: 1.0 },
            default: Default::Typed("0 %"),
            help: "the share of accesses that go to the first page",
        },
        Knob {
            key: "prefetch",
            kind: Kind::Switch,
            default: Default::Typed("false"),
            help: "whether the next access is prefetched",
        },
        Knob {
            key: "stream",
            kind: Kind::Count { min: 0, max: u64::MAX },
            default: Default::Derived("the study's seed"),
            help: "where the random sequence starts",
        },
    ],
    metrics: &[
        Metric {
            key: "gups",
            unit: "GUP/s",
            better: Better::Higher,
            together: Aggregate::Sum,
            help: "updates per second, in 10^9",
        },
        Metric {
            key: "latency_ns",
            unit: "ns",
            better: Better::Lower,
            together: Aggregate::Mean,
            help: "time per access of one rank",
        },
    ],
    footprint: Some(Footprint { key: "table", bytes: |arm| size_of(arm, "table"), held: HeldBy::Agent }),
    executors: &[ExecutorKind::Direct, ExecutorKind::Microvm, ExecutorKind::Null],
    short_phases: true,
    alternates: |_| true,
    quick: &[("table", "64 MiB")],
    check: power_of_two,
    ..Descriptor::JOB
};

/// Like an external program: it needs an operating system, and a parameter that has no default.
pub static COMMAND: Descriptor = Descriptor {
    kind: "command",
    help: "any program",
    source: "the study",
    parameters: &[Knob { key: "program", kind: Kind::Text, default: Default::Required, help: "the program to run" }],
    metrics: &[Metric {
        key: "elapsed_s",
        unit: "s",
        better: Better::Lower,
        together: Aggregate::Mean,
        help: "from start to exit",
    }],
    short_phases: true,
    alternates: |_| true,
    ..Descriptor::JOB
};

fn power_of_two(arm: &ResolvedArm) -> Result<(), InvalidValue> {
    match arm.parameters.get("table") {
        Some(Value::SizeBytes(size)) if !size.0.is_power_of_two() => Err(InvalidValue::new(
            format!("table = {size} is not a power of two"),
            "write one, such as \"1 GiB\"".to_owned(),
        )),
        _ => Ok(()),
    }
}
