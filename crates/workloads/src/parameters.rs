//! Parameters and memory that several workloads have alike.

use baremark_kernels::isa;
use baremark_model::arm::{ExecutorKind, ResolvedArm};
use baremark_model::descriptor::Descriptor;
use baremark_model::knob::{Default, InvalidValue, Kind, Knob};
use baremark_model::machine::Isa;
use baremark_model::seam::{Arena, MemoryError, Owner, Workload, WorkloadError};
use baremark_model::units::Bytes;

/// The instruction set of a loop: a knob that several workloads share.
pub const ISA: Knob =
    Knob::new("isa", Kind::Choice(&["widest", "baseline", "avx2", "avx512"]), Default::Typed("widest"))
        .help("the instruction set of the loop; widest is the widest that this machine has");

/// The instruction set that [`ISA`] names, if this machine has it.
pub fn chosen_isa(arm: &ResolvedArm) -> Result<Isa, WorkloadError> {
    let isa = match ISA.get::<String>(arm)?.as_str() {
        "widest" => isa::widest(),
        "baseline" => Isa::Baseline,
        "avx2" => Isa::Avx2,
        _ => Isa::Avx512,
    };
    if isa::is_available(isa) {
        return Ok(isa);
    }
    Err(odd(&ISA, format!("{isa:?}"), format!("this machine has {:?} at most; write isa = \"widest\"", isa::widest())))
}

/// What tables of kernels say where they say nothing of their own: every body runs on threads, in the virtual machine, and not at all.
pub const KERNELS: Descriptor = Descriptor {
    executors: &[ExecutorKind::Direct, ExecutorKind::Microvm, ExecutorKind::Null],
    short_phases: true,
    alternates: |_| true,
    ..Descriptor::JOB
};

/// A size for all ranks together that each rank has its own equal share of.
pub struct Shared {
    /// All of it.
    pub total: Bytes,
    /// Among so many ranks.
    pub ranks: u64,
}

/// What `knob` is set to, to be shared out among the ranks of all parts.
pub fn shared_size(arm: &ResolvedArm, knob: &Knob) -> Result<Shared, WorkloadError> {
    let total: Bytes = knob.get(arm)?;
    match u64::try_from(arm.all_ranks()) {
        Ok(ranks) if ranks > 0 => Ok(Shared { total, ranks }),
        _ => Err(odd(knob, total, "an arm needs at least one rank")),
    }
}

/// One span of `bytes` for each rank.
pub fn own_spans(arm: &ResolvedArm, bytes: u64) -> Vec<u64> {
    vec![bytes; arm.ranks]
}

/// After `shared` spans that are everybody's, each rank's own.
pub fn own_after(shared: usize, arm: &ResolvedArm) -> Vec<Owner> {
    std::iter::repeat_n(Owner::Shared, shared).chain((0..arm.ranks).map(Owner::Rank)).collect()
}

/// Spans of so many words, in bytes.
pub fn spans_of(words: Vec<usize>) -> Vec<u64> {
    words.into_iter().map(|words| 8 * words as u64).collect()
}

/// Spans of so many words out of the arena, one after the other.
pub fn take<'m>(arena: &'m dyn Arena, words: &[usize]) -> Result<Vec<&'m mut [u64]>, MemoryError> {
    words.iter().map(|&words| arena.take_words(words)).collect()
}

/// The memory of all spans of all parts of an arm; `None` where its parameters are refused.
pub fn spans_together(workload: &dyn Workload, arm: &ResolvedArm) -> Option<u64> {
    let each: u64 = workload.spans(arm).ok()?.iter().sum();
    each.checked_mul(arm.parts.max(1) as u64)
}

/// The number that `knob` is set to, of a problem that only all ranks together can solve.
pub fn whole(arm: &ResolvedArm, knob: &Knob) -> Result<usize, WorkloadError> {
    let value: u64 = knob.get(arm)?;
    if arm.parts > 1 {
        let why = format!("one problem cannot be divided over {} machines; write count = 1", arm.parts);
        return Err(odd(knob, value, why));
    }
    usize::try_from(value).map_err(|error| odd(knob, value, error.to_string()))
}

/// A parameter that the workload refuses.
pub fn odd(knob: &Knob, value: impl ToString, why: impl Into<String>) -> WorkloadError {
    WorkloadError::Parameter { key: knob.key.to_owned(), value: value.to_string(), why: why.into() }
}

/// The same refusal as a mistake in a study.
pub fn misfit(refusal: WorkloadError) -> InvalidValue {
    match refusal {
        WorkloadError::Parameter { key, value, why } => {
            InvalidValue { key: Some(key.clone()), ..InvalidValue::new(format!("{key} = {value} cannot be"), why) }
        }
        WorkloadError::InvalidValue(misfit) => misfit,
        WorkloadError::Memory(why) => InvalidValue::new(why.what, why.why),
    }
}
