//! One file for each command.

pub mod agent;
pub mod doctor;
pub mod history;
pub mod list;
pub mod load;
pub mod plan;
pub mod report;
pub mod resume;
pub mod run;
