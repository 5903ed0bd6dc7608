//! A workload's parameters as its descriptor defines them, out of a resolved arm.

use baremark_model::arm::ResolvedArm;
use baremark_model::descriptor::{Default, Knob, Value};
use baremark_model::knob::Misfit;
use baremark_model::seam::WorkloadError;
use baremark_model::units::Bytes;

/// The size that `knob` is set to, or its default.
pub fn size(arm: &ResolvedArm, knob: &Knob) -> Result<Bytes, WorkloadError> {
    match (arm.parameters.get(knob.key), knob.default) {
        (Some(&Value::SizeBytes(size)), _) => Ok(size),
        (None, Default::Typed(text)) => text.parse().map_err(|error| odd(knob, text, format!("{error}"))),
        (found, _) => Err(unfit(knob, found, "a size with its unit")),
    }
}

/// The word that `knob` is set to, or its default.
pub fn choice<'a>(arm: &'a ResolvedArm, knob: &Knob) -> Result<&'a str, WorkloadError> {
    match (arm.parameters.get(knob.key), knob.default) {
        (Some(Value::Choice(word)), _) => Ok(word),
        (None, Default::Typed(text)) => Ok(text),
        (found, _) => Err(unfit(knob, found, "one of its words")),
    }
}

/// A parameter that the workload refuses.
pub fn odd(knob: &Knob, value: impl ToString, why: impl Into<String>) -> WorkloadError {
    WorkloadError::Parameter { key: knob.key.to_owned(), value: value.to_string(), why: why.into() }
}

/// The same refusal as a mistake in a study.
pub fn misfit(refusal: WorkloadError) -> Misfit {
    match refusal {
        WorkloadError::Parameter { key, value, why } => {
            Misfit { what: format!("{key} = {value} cannot be"), remedy: why }
        }
        WorkloadError::Memory(why) => Misfit { what: why.what, remedy: why.why },
    }
}

fn unfit(knob: &Knob, found: Option<&Value>, expected: &str) -> WorkloadError {
    odd(knob, found.map_or_else(|| "(not set)".to_owned(), Value::to_string), format!("{expected} is needed"))
}
