//! The agent: runs bodies at a site, by executors, and tells what happened.

pub mod executors;
