//! The nouns of baremark and the seams between its parts.
//!
//! Everything that two crates must agree on is here: units, descriptor tables, the study's syntax tree and the plan that
//! is resolved from it, the frames on the wire, events, the result document, and the traits behind which workloads,
//! executors and environments hide. It does no I/O, starts nothing, reads no clock and holds no unsafe code, so that
//! every crate can stand on it and nothing it says depends on a machine.
#![forbid(unsafe_code)]

pub mod arm;
pub mod beat;
pub mod codes;
pub mod command;
pub mod comparison;
pub mod config;
pub mod conformance;
pub mod courier;
pub mod descriptor;
pub mod disk_latency;
pub mod distinct;
pub mod disturbed;
pub mod document;
pub mod ensemble;
pub mod environments;
pub mod event;
pub mod fingerprint;
pub mod flow_control;
pub mod former;
pub mod hdr;
pub mod histogram;
pub mod identity;
pub mod image;
pub mod imported;
pub mod instead;
pub mod job;
pub mod joined;
pub mod knob;
pub mod layers;
pub mod literal;
pub mod loading;
pub mod machine;
pub mod maximum;
pub mod metric;
pub mod observation;
pub mod observer;
pub mod order;
pub mod page_size;
pub mod parameters;
pub mod peer;
pub mod percentile;
pub mod placement;
pub mod plan;
pub mod problem;
pub mod protection;
pub mod published;
pub mod qos;
pub mod quantity;
pub mod reference;
pub mod renamed;
pub mod scale;
#[cfg(test)]
mod schema;
pub mod seam;
pub mod second_look;
pub mod shown;
pub mod site;
pub mod spawned;
pub mod study;
pub mod tables;
pub mod team;
pub mod timeline;
pub mod unit;
pub mod units;
pub mod value;
pub mod verify;
pub mod view;
pub mod wire;
