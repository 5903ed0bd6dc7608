//! Disks that are mounted by FUSE, which takes /dev/fuse and the superuser.
#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::allow_attributes, unsafe_code, reason = "tests")]

mod replicated;
mod volatile;
