//! What `baremark explain` prints: the answer, then a line for each layer.

use crate::number;
use crate::text::{Paint, Style, beside, clean, left, width};
use crate::treatment::list;
use baremark_model::layers::{Diagnosis, Explanation, LayerRow, Measure};
use std::fmt::Write as _;

/// The explanation as text: each place with its sentence, what follows from it, and its layers.
#[must_use]
pub fn render(explanation: &Explanation, style: &Style) -> String {
    let mut text = String::new();
    for place in &explanation.places {
        let _ = writeln!(text, "{}", style.paint(Paint::Strong, &heading(place)));
        text.push_str(&beside("Answer  ", &clean(&place.sentence), style));
        if !place.advice.is_empty() {
            text.push_str(&beside("Advice  ", &format!("{}.", clean(&place.advice)), style));
        }
        text.push('\n');
        for layer in &place.layers {
            text.push_str(&row(layer, style));
        }
        text.push('\n');
    }
    for absence in &explanation.absent {
        text.push_str(&beside("Absent  ", &format!("{}: {}", clean(&absence.observer), clean(&absence.reason)), style));
    }
    style.plain(&text)
}

/// "environment native, page 4k: this machine"
fn heading(place: &Diagnosis) -> String {
    let levels: Vec<(&str, &str)> =
        place.treatment.iter().map(|(factor, level)| (factor.as_str(), level.as_str())).collect();
    let seen = clean(&place.place);
    if levels.is_empty() { seen } else { format!("{}: {seen}", list(&levels)) }
}

fn row(layer: &LayerRow, style: &Style) -> String {
    const WIDEST: &str = "application tier";
    let state = match layer.saturated {
        Some(true) => "saturated",
        Some(false) => "ok",
        None => "not observed",
    };
    let head = format!("  {}  {}  ", left(&layer.layer, width(WIDEST)), left(state, width("not observed")));
    let measures = [&layer.utilization, &layer.saturation, &layer.errors].into_iter().flatten();
    let says: Vec<String> = measures.map(measure).collect();
    beside(&head, &says.join("; "), style)
}

fn measure(measure: &Measure) -> String {
    let value = number::estimate(measure.value, measure.lo, measure.hi);
    let unit = if measure.unit.is_empty() { String::new() } else { format!(" {}", clean(&measure.unit)) };
    format!("{value}{unit} {}", clean(&measure.what))
}
