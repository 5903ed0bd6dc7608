//! Which instruction set a measured loop runs with, decided once and never inside a measured region.

use baremark_model::machine::Isa;

/// The widest instruction set that this processor and its operating system have.
#[must_use]
pub fn widest() -> Isa {
    [Isa::Avx512, Isa::Avx2].into_iter().find(|&isa| is_available(isa)).unwrap_or(Isa::Baseline)
}

/// Whether loops for `isa` can run here.
#[must_use]
pub fn is_available(isa: Isa) -> bool {
    match isa {
        Isa::Baseline => true,
        Isa::Avx2 => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"),
        Isa::Avx512 => {
            is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512cd")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
        }
    }
}
