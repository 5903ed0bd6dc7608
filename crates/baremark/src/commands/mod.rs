//! One file for each command.

pub mod agent;
pub mod at;
pub mod auction;
pub mod auction_run;
pub mod carry;
pub mod check;
pub mod compare;
pub mod completions;
pub mod desktop;
pub mod doctor;
pub mod echo;
pub mod guest;
pub mod history;
pub mod import;
pub mod keep;
pub mod list;
pub mod load;
pub mod man;
pub mod plan;
pub mod predict;
pub mod report;
pub mod resume;
pub mod run;
pub mod tend;
pub mod top;
pub mod verify_scale;
