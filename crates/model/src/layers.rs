//! The document of `baremark explain`: for each layer of a machine its utilization, saturation and errors, and which layer is saturated.
//!
//! The method is Gregg's (utilization, saturation, errors of every resource). A layer is saturated where work waited for it: the lower end of the
//! interval of that waiting is at least the layer's limit, so that one busy moment is not enough.

use crate::observer::Absence;
use crate::plan::Treatment;
use serde::{Deserialize, Serialize};

/// The name and version of the format.
pub const FORMAT: &str = "baremark-explanation/1";

/// What `baremark explain` found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Explanation {
    /// [`FORMAT`].
    pub format: String,
    /// The run; `null` for the machine as it is now.
    pub run: Option<String>,
    /// One for each treatment and place that was observed.
    pub places: Vec<Diagnosis>,
    /// What could not be observed, and why.
    pub absent: Vec<Absence>,
}

/// The layers of one place while one treatment ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Diagnosis {
    /// The treatment; empty for the whole of a run, or of the machine now.
    pub treatment: Treatment,
    /// Where it was observed.
    pub place: String,
    /// Every layer, from the one below all others to the application.
    pub layers: Vec<LayerRow>,
    /// The saturated layer that the sentence names; `null` where no layer is saturated.
    pub named: Option<String>,
    /// The answer with its evidence.
    pub sentence: String,
    /// What follows from the evidence; empty where nothing does.
    pub advice: String,
}

/// One layer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LayerRow {
    /// Its name.
    pub layer: String,
    /// How much of it was used; `null` where that was not observed, as in the other two.
    pub utilization: Option<Measure>,
    /// How much work waited for it.
    pub saturation: Option<Measure>,
    /// What went wrong in it.
    pub errors: Option<Measure>,
    /// The least lower end of the saturation's interval with which it is saturated, in the saturation's unit.
    pub limit: f64,
    /// Whether it is; `null` where its saturation was not observed or has no interval.
    pub saturated: Option<bool>,
}

/// One quantity with its 95 % interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Measure {
    /// What it is.
    pub what: String,
    /// Its unit.
    pub unit: String,
    /// The mean over windows of time; of a run the estimate over trials.
    pub value: f64,
    /// Lower limit of its interval; `null` where there are too few windows or trials.
    pub lo: Option<f64>,
    /// Upper limit.
    pub hi: Option<f64>,
    /// Windows, or trials.
    pub n: usize,
}
