//! Where the numbers come from, and how to have them again.

use crate::number::{count, percent};
use crate::text::clean;
use crate::treatment::Factors;
use crate::words::at_once;
use baremark_model::codes::Origin;
use baremark_model::document::{Document, RunHead, UsedEnvironment};
use baremark_model::event::TrialStatus;
use baremark_model::imported::PLACE;
use serde_json::Value;

/// The lines of provenance: a word and what it says.
pub(crate) fn lines(document: &Document) -> Vec<(&'static str, String)> {
    let run = &document.run;
    let mut lines = Vec::new();
    lines.push(("machine", machine(run).unwrap_or_else(|| "not recorded".to_owned())));
    let fixed = Factors::of(run).fixed();
    if !fixed.is_empty() {
        lines.push(("fixed", fixed.join(", ")));
    }
    let parameters: Vec<String> =
        run.parameters.iter().map(|(key, value)| format!("{} {}", clean(key), clean(value))).collect();
    if !parameters.is_empty() {
        lines.push(("parameters", parameters.join(", ")));
    }
    let places: Vec<String> = run
        .environments
        .iter()
        .filter(|of| of.name == of.place && !run.set_otherwise(of).is_empty())
        .map(|of| format!("{}: {}", clean(&of.name), settings(run, of)))
        .collect();
    if !places.is_empty() {
        lines.push(("places", places.join("; ")));
    }
    lines.extend(mitigations(run).map(|text| ("mitigations", text)));
    lines.push(("run", format!("{}, {}", clean(&run.id), when(run))));
    let looks = match (document.looks.len() as u64, last_width(document)) {
        (0, _) => String::new(),
        (n, None) => format!("; {}", analyses(n)),
        (n, Some(width)) => format!("; {}, the widest half-width ±{width} at the last", analyses(n)),
    };
    lines.push(("blocks", format!("{}; {}{looks}", blocks(document), tally(document))));
    let stopped = run.stop_reason.as_deref().map_or_else(|| "not yet".to_owned(), clean);
    lines.push(("stopped", stopped));
    lines.push(("design", design(run)));
    if let Some(published) = &run.published {
        lines.push(("published", clean(published)));
    }
    lines.push(("version", format!("baremark {}", clean(&run.version))));
    lines.push(("reproduce", reproduce(run)));
    lines
}

/// What the kernel does about the processor's vulnerabilities, of those that it has; `None` where it does not say.
fn mitigations(run: &RunHead) -> Option<String> {
    let of = |(name, says): (&String, &String)| {
        let does = says.strip_prefix("Mitigation: ").map_or_else(|| clean(says), clean);
        format!("{}: {does}", clean(name))
    };
    let known = &run.machine.kernel.mitigations;
    let affected: Vec<String> = known.iter().filter(|(_, says)| !says.starts_with("Not affected")).map(of).collect();
    match (known.is_empty(), affected.is_empty()) {
        (true, _) => None,
        (false, true) => Some("none needed".to_owned()),
        (false, false) => Some(affected.join("; ")),
    }
}

/// Blocks of the run that are complete; in documents that do not say, those that were begun.
pub(crate) fn blocks(document: &Document) -> u64 {
    let begun = || document.trials.iter().map(|trial| trial.block + 1).max().unwrap_or(0);
    document.run.blocks.unwrap_or_else(begun)
}

/// `backing = 2m, pin = 0 1`: what is set otherwise.
pub(crate) fn settings(run: &RunHead, of: &UsedEnvironment) -> String {
    let words = |(key, value): (&str, &str)| format!("{} = {}", clean(key), clean(value));
    run.set_otherwise(of).into_iter().map(words).collect::<Vec<_>>().join(", ")
}

/// The trials' tally: "40 trials, of which 38 count".
pub(crate) fn tally(document: &Document) -> String {
    let all = document.trials.len() as u64;
    let counting = document.trials.iter().filter(|trial| trial.status == TrialStatus::Ok).count() as u64;
    let trials = count(all, "trial");
    if all == counting { format!("{trials}, all count") } else { format!("{trials}, of which {counting} count") }
}

/// The widest half-width at the last interim analysis, where there was one.
pub(crate) fn last_width(document: &Document) -> Option<String> {
    document.looks.last()?.half_width.map(percent)
}

fn analyses(n: u64) -> String {
    if n == 1 { "1 interim analysis".to_owned() } else { format!("{n} interim analyses") }
}

/// The command that runs it again.
pub(crate) fn reproduce(run: &RunHead) -> String {
    let quick = if run.mode.quick { " --quick" } else { "" };
    let check = if run.mode.self_check { " --aa" } else { "" };
    let file = clean(&run.file);
    if run.environments.iter().any(|of| of.name == PLACE) {
        return "by the program that measured: the results were imported".to_owned();
    }
    // A study that a command line has made: that line.
    if matches!(Origin::of(&run.file), Origin::Load | Origin::Command(_)) {
        return file;
    }
    // What was changed stands in the study that is stored with the run.
    if matches!(Origin::of(&run.file), Origin::Changed(_)) {
        return format!("baremark show {} >study.toml && baremark run study.toml{quick}{check}", clean(&run.id));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    let file = if file.chars().all(plain) { file } else { format!("'{}'", file.replace('\'', "'\\''")) };
    format!("baremark run {file}{quick}{check}")
}

fn when(run: &RunHead) -> String {
    match &run.ended {
        Some(ended) => format!("{} to {}", clean(&run.started), clean(ended)),
        None => format!("begun {}", clean(&run.started)),
    }
}

fn design(run: &RunHead) -> String {
    let design = &run.design;
    // A program's phase lasts as long as its run, a load's or an application's as its parameters say.
    let phases = match run.parameters.contains_key("timeout") {
        true => String::new(),
        false => format!("phases of {}, ", design.phase),
    };
    let (precision, delta, budget, seed) = (design.precision, design.delta, design.budget, design.seed);
    let how = run.duet.map(|duet| format!("programs {}, ", at_once(duet))).unwrap_or_default();
    format!("precision {precision}, delta {delta}, budget {budget}, {phases}{how}seed {seed}")
}

/// The machine in one line, of what its facts tell; `None` when they tell nothing.
pub(crate) fn machine(run: &RunHead) -> Option<String> {
    let facts = serde_json::to_value(&run.machine).ok()?;
    let text = |path: &str| facts.pointer(path).and_then(Value::as_str).map(clean).filter(|text| !text.is_empty());
    let number = |path: &str| facts.pointer(path).and_then(Value::as_u64);
    let parts = [
        text("/cpu/model_name"),
        number("/cpu/sockets").filter(|&n| n > 1).map(|n| count(n, "socket")),
        number("/cpu/logical_cpus").map(|n| count(n, "CPU")),
        number("/memory/total_bytes").map(memory),
        text("/kernel/release").map(|release| format!("Linux {release}")),
        text("/virtualization/hypervisor_vendor").map(|vendor| format!("under {}", hypervisor(&vendor))),
    ];
    let told: Vec<String> = parts.into_iter().flatten().collect();
    (!told.is_empty()).then(|| told.join(", "))
}

/// The hypervisor's name for the twelve letters by which it signs in CPUID leaf 0x4000_0000.
fn hypervisor(vendor: &str) -> &str {
    match vendor.trim() {
        "KVMKVMKVM" => "KVM",
        "VMwareVMware" => "VMware",
        "Microsoft Hv" => "Hyper-V",
        "XenVMMXenVMM" => "Xen",
        "TCGTCGTCGTCG" => "QEMU's emulation (TCG)",
        "bhyve bhyve" => "bhyve",
        other => other,
    }
}

#[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
fn memory(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / (1_u64 << 30) as f64)
}
