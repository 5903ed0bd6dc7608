//! What strangers write: the fuzz targets over mutated seeds, and files that are made to take time and memory.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::float_cmp,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::allow_attributes,
    unsafe_code,
    dead_code,
    unused_imports,
    missing_docs,
    reason = "a test crate; each suite uses a part of what is common"
)]

#[path = "../../../../fuzz/src/bodies.rs"]
mod bodies;
#[path = "../common/mod.rs"]
mod common;
#[path = "../../../../fuzz/src/files.rs"]
mod files;
mod fuzzed;
mod large;
#[path = "../../../../fuzz/src/mutate.rs"]
mod mutate;
#[path = "../../../../fuzz/src/series.rs"]
mod series;
#[path = "../../../model/tests/model/specimen.rs"]
mod specimen;
#[path = "../../../../fuzz/src/targets.rs"]
mod targets;
#[path = "../../../../fuzz/src/traces.rs"]
mod traces;

use common::*;
