//! Reports: from the result document to what people and programs read.
//!
//! Everything here is a pure function from data to text: nothing is printed, opened or asked. The document is first turned
//! into an outline (sentences, tables, flags, provenance), which the terminal and the HTML page then only lay out, so
//! that no two reports of one run can say different things. Numbers are rounded by the width of their interval and never
//! show digits that it does not support.
#![forbid(unsafe_code)]

pub mod check_document;
pub mod commands;
pub mod comparison;
pub mod csv;
pub mod figure;
pub mod heat_map;
pub mod history;
pub mod html;
pub mod import;
pub mod joined;
pub mod json;
pub mod layers;
pub mod live;
pub mod load;
pub mod maximum;
pub mod open_metrics;
pub mod plot;
pub mod progress;
pub mod scale;
pub mod site;
mod slope;
pub mod summary;
pub mod terminal;

mod activity;
mod agreement;
mod answer;
mod application;
mod axis;
mod chart;
mod course;
mod crowd;
mod curve;
mod details;
mod grid;
mod guest_disks;
mod knee;
mod lane;
mod latency;
mod mark;
mod next_step;
mod number;
mod observed_at;
mod order_entry;
mod outline;
mod page;
mod per_workload;
mod provenance;
mod published;
mod published_page;
mod roofline;
mod section;
mod sections;
mod svg;
mod text;
mod tile;
mod timeline;
mod treatment;
mod unmeasured;
mod wake_up;
mod web_farm;
mod words;

pub use next_step::block_ns;
pub use number::estimate;
pub use published_page::published_page;
pub use text::{Color, Style, beside, one_line, printable};
pub use words::at_once;
