//! `baremark doctor`: is this machine fit to measure, what is noisy, what can be used, and what to change.

mod features;

use crate::context::microvm_missing;
use crate::exit::{Exit, Refusal};
use crate::json::document as document_of;
use crate::source;
use baremark_lab::fitness::{Finding, Glimpse, Grade, Sandbox, judge};
use baremark_model::environments;
use baremark_model::machine::MachineFacts;
use baremark_model::seam::TickRate;
use baremark_report::beside;
use baremark_sys::control_group::{self, Controller, Version};
use baremark_sys::{machine, tsc_gaps};
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

/// Shown by `--help`.
pub const EXAMPLES: &str = "\
Examples:
  baremark doctor
  baremark doctor --machine FOLDER      # a recorded machine";

/// For how long stalls are measured.
const LOOK: Duration = Duration::from_millis(500);

/// The examination of this machine, or of a recorded one, as text or JSON.
pub fn run(recorded: Option<&Path>, json: bool) -> Result<(String, Exit), Refusal> {
    if let Some(path) = recorded {
        return of_recorded(path, json);
    }
    let recovered = crate::changes::describe(&crate::changes::recover()?);
    let facts = machine::this();
    let lost = facts.clock.map(|clock| tsc_gaps::measure(LOOK, tsc_gaps::THRESHOLD, TickRate(clock.tsc_hz)));
    let limits = crate::context::limits(crate::data::usual())?;
    let glimpse = Glimpse {
        lost_share: lost.map(|lost| lost.lost_share),
        longest_gap_ns: lost.map_or(0.0, |lost| lost.longest_ns),
        microvm_missing: microvm_missing(&limits),
        mmu: baremark_microvm::mmu_virtualization().to_string(),
        control_groups: Some([Controller::Memory, Controller::Cpu].map(version)),
        sandbox: Some(sandbox()?),
    };
    Ok((shown(&facts, &glimpse, &recovered, &features::all(&limits)?, json), Exit::Success))
}

/// The examination of a recorded machine, by its files alone.
fn of_recorded(path: &Path, json: bool) -> Result<(String, Exit), Refusal> {
    let _machine = source::machine(path)?;
    let facts = machine::this();
    let missing = microvm_missing(&crate::context::limits(Vec::new())?);
    let mmu = "unknown from files".to_owned();
    let glimpse = Glimpse { microvm_missing: missing, mmu, ..Glimpse::default() };
    Ok((shown(&facts, &glimpse, &[], &[], json), Exit::Success))
}

/// The findings, after what became of the changes of runs that were killed; then features, of which a recorded machine shows none.
fn shown(
    facts: &MachineFacts,
    glimpse: &Glimpse,
    recovered: &[String],
    features: &[features::Listed],
    json: bool,
) -> String {
    let findings = judge(facts, glimpse);
    if json {
        let document = serde_json::json!({
            "findings": findings, "features": features, "machine": facts, "recovered": recovered,
        });
        return document_of("baremark-doctor/1", document);
    }
    let mut text: String = recovered.iter().map(|line| format!("{line}\n")).chain([describe(&findings)]).collect();
    if !features.is_empty() {
        text.push_str(&features::describe(features, &crate::watch::style()));
    }
    text
}

/// What a sandbox has and lacks here, or why there is none.
fn sandbox() -> Result<Result<Sandbox, String>, Refusal> {
    let layered = environments::ALL.iter().find(|kind| kind.settings.iter().any(|of| of.key == environments::LAYERS));
    let mut found = match crate::places::found(layered.map_or("", |kind| kind.name))? {
        Ok(found) => found,
        Err(why) => return Ok(Err(why)),
    };
    let mut of = |key: &str| found.remove(key).unwrap_or_default();
    Ok(Ok(Sandbox { has: of(environments::LAYERS), lacks: of(environments::LACKS) }))
}

/// The version of the control groups that limit this here.
fn version(controller: Controller) -> Option<u8> {
    control_group::interface(controller).map(|version| match version {
        Version::One => 1,
        Version::Two => 2,
    })
}

fn describe(findings: &[Finding]) -> String {
    let mut text = String::new();
    let style = crate::watch::style();
    for finding in findings {
        let mark = match finding.grade {
            Grade::Good => "ok      ",
            Grade::Note => "note    ",
            Grade::Concern => "concern ",
            Grade::Missing => "missing ",
        };
        text.push_str(&beside(&format!("{mark} {:<20} ", finding.subject), &finding.found, &style));
        if let Some(remedy) = finding.remedy {
            text.push_str(&beside(&format!("{:>29} -> ", ""), remedy, &style));
        }
    }
    let concerns = findings.iter().filter(|finding| finding.grade >= Grade::Concern).count();
    let _ = match concerns {
        0 => writeln!(text, "\nThis machine is fit to measure."),
        1 => writeln!(text, "\nOne finding to fix or consider before you trust small differences."),
        _ => writeln!(text, "\n{concerns} findings to fix or consider before you trust small differences."),
    };
    text
}
