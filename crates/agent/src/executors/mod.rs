//! How a body is run inside an agent.

pub mod conformance;
pub mod direct;
pub mod null;
