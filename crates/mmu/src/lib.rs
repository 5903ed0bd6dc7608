//! Page walks: what MMU virtualization costs a program, predicted before a virtual machine exists.
//!
//! A translation that misses the TLBs is a walk through tables in memory. Nested paging makes the walk two-dimensional,
//! shadow paging keeps it one-dimensional and pays for every change of a guest's tables instead; page sizes decide how
//! often and how far is walked. This crate counts those references for a known processor and a stream of addresses, and turns
//! the counts into relative run times with intervals that carry what is not known about the processor.
//!
//! It measures nothing, starts nothing and prints nothing: programs are traced and results shown by others. The sources of
//! its structure are named where it is built: Bhargava, Serebrin, Spadini & Manne, "Accelerating two-dimensional page walks
//! for virtualized systems" (ASPLOS 2008); Barr, Cox & Rixner, "Translation caching: skip, don't walk" (ISCA 2010);
//! Gandhi, Basu, Hill & Swift, "Efficient memory virtualization" (MICRO 2014) and "Agile paging" (ISCA 2016); Merrifield
//! & Taheri, "Performance implications of extended page tables on virtualized x86 processors" (VEE 2016); the processors'
//! own manuals, in the files under `machines/`.
#![forbid(unsafe_code)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::float_cmp,
    clippy::allow_attributes,
    reason = "addresses are cut into fields on purpose, counts become shares, and 64-bit targets only"
)]

pub mod calibration;
pub mod counts;
pub mod histogram;
pub mod machine;
pub mod page;
pub mod predict;
pub mod prior;
pub mod random;
mod range;
pub mod reference;
pub mod scheme;
pub mod sets;
pub mod show;
pub mod simulator;
pub mod spread;
pub mod statements;
pub mod stream;
pub mod tables;
mod tape;
pub mod time;
pub mod trace;
pub mod validate;
pub mod workload;
