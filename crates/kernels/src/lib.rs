//! Measured inner loops. They know no clock, no operating system and no experiment.
//!
//! Each kernel takes its memory from the caller, declares its work alongside its code, keeps the state of every rank in
//! lines of its own, and can check what it has done with code that shares nothing with the measured loop but the
//! definition. Measured loops are plain functions with a symbol of their own, so that a test can read their machine code.
#![expect(unsafe_code, reason = "measured loops work on raw memory: no bounds check may be in them")]
#![expect(clippy::cast_possible_truncation, reason = "64-bit targets only: a word is an index")]

pub mod dgemm;
pub mod fingerprint;
pub mod fma;
pub mod hpl;
pub mod isa;
pub mod laps;
pub mod loads;
pub mod pointer_chase;
pub mod random_access;
pub mod stream;

mod cell;
mod gemm;
mod numbers;
mod share;
#[cfg(test)]
mod test_bed;
