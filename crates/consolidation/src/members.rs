//! Members of a tile, as a study's `[tile.members.NAME]` describes them.
//!
//! A member names a workload of this program, the metric that is its throughput, the limit that it must keep and its weight. All other
//! keys are the workload's own parameters, checked against its table.

use crate::guest_operations;
use baremark_model::arm::ResolvedArm;
use baremark_model::command::{DURATION, RAMP_DOWN, TIMEOUT, WARM_UP};
use baremark_model::descriptor::Descriptor;
use baremark_model::knob::{Default, InvalidValue};
use baremark_model::literal::quoted;
use baremark_model::page_size::PageSize;
use baremark_model::problem::nearest;
use baremark_model::units::Nanos;
use baremark_model::value::Value;
use std::collections::BTreeMap;
use toml::de::{DeTable, DeValue};

/// How the parameters of a tile's members begin.
pub const PREFIX: &str = "tile.members.";
/// Keys of a member that are not its workload's.
pub const OWN: [&str; 6] = ["workload", "throughput", "limit", "weight", "reference", "cpus"];
/// The names of a measured time, and of the time before it, among workloads.
const MEASURED: [&str; 2] = [DURATION, "window"];
const BEFORE: [&str; 2] = [WARM_UP, "settle"];

/// The phases of every member's load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phases {
    /// Before the measured time.
    pub warm_up: Nanos,
    /// The measured time.
    pub steady: Nanos,
    /// After it.
    pub ramp_down: Nanos,
}

/// A limit on one of a member's metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// The metric.
    pub metric: String,
    /// What it must stay below, in the metric's unit.
    pub below: f64,
}

/// One member of a tile.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its workload.
    pub workload: String,
    /// The metric that is its throughput.
    pub throughput: String,
    /// What it must keep.
    pub limit: Limit,
    /// Its weight in the geometric mean; 0 for a member that only has to keep its limit.
    pub weight: f64,
    /// The throughput that counts as 1; `None` for that of one tile in the same phase.
    pub reference: Option<f64>,
    /// Its CPUs; empty for those of the arm.
    pub cpus: Vec<usize>,
    /// The workload's parameters, as TOML.
    pub parameters: BTreeMap<String, String>,
}

/// The members that an arm's parameters describe, by name.
///
/// # Errors
/// The first mistake, with the parameter at fault.
pub fn of(arm: &ResolvedArm) -> Result<Vec<Member>, (String, InvalidValue)> {
    let mut all: BTreeMap<&str, BTreeMap<String, String>> = BTreeMap::new();
    for (key, value) in &arm.parameters {
        let (Some((name, own)), Value::Literal(text)) =
            (key.strip_prefix(PREFIX).and_then(|key| key.split_once('.')), value)
        else {
            continue;
        };
        all.entry(name).or_default().insert(own.to_owned(), text.clone());
    }
    if all.is_empty() {
        let remedy = "write [tile.members.NAME] with workload, throughput and limit";
        return Err((PREFIX.trim_end_matches('.').to_owned(), InvalidValue::new("a tile without members", remedy)));
    }
    all.into_iter()
        .map(|(name, keys)| member(name, keys).map_err(|(key, why)| (format!("{PREFIX}{name}.{key}"), why)))
        .collect()
}

/// Hands the texts among the parameters of each member that runs `workload` to `settle`, and keeps those that it adds: what a member names on
/// this machine is read here, where its study is planned.
///
/// # Errors
/// The first of `settle`, with the member's name.
pub fn settle(
    arm: &mut ResolvedArm,
    workload: &str,
    settle: impl Fn(&mut BTreeMap<String, Value>) -> Result<(), InvalidValue>,
) -> Result<(), InvalidValue> {
    let members = of(arm).map_err(|(_, misfit)| misfit)?;
    for member in members.iter().filter(|member| member.workload == workload) {
        let text = |(key, literal): (&String, &String)| Some((key.clone(), Value::Text(unquoted(literal)?)));
        let mut texts: BTreeMap<String, Value> = member.parameters.iter().filter_map(text).collect();
        settle(&mut texts)
            .map_err(|why| InvalidValue::new(format!("member '{}': {}", member.name, why.what), why.remedy))?;
        let added = texts.into_iter().filter(|(key, _)| !member.parameters.contains_key(key));
        for (key, value) in added {
            if let Value::Text(text) = value {
                arm.parameters.insert(format!("{PREFIX}{}.{key}", member.name), Value::Literal(quoted(&text)));
            }
        }
    }
    Ok(())
}

fn member(name: &str, mut keys: BTreeMap<String, String>) -> Result<Member, (String, InvalidValue)> {
    let mut taken = OWN.map(|key| (key, keys.remove(key)));
    let mut take = |key: &str| taken.iter_mut().find(|(own, _)| *own == key).and_then(|(_, text)| text.take());
    let mut text = |key: &'static str, example: &str| {
        let misfit = |what: String| (key.to_owned(), InvalidValue::new(what, format!("write {key} = {example}")));
        let literal = take(key).ok_or_else(|| misfit(format!("member '{name}' has no {key}")))?;
        unquoted(&literal).ok_or_else(|| misfit(format!("{key} = {literal} of member '{name}' must be a string")))
    };
    let (workload, throughput) = (text("workload", "\"auction\"")?, text("throughput", "\"operations_per_s\"")?);
    let typed = text("limit", "\"latency_p95_ms < 500\"")?;
    let misfit = |key: &str, what: String, remedy: &str| (key.to_owned(), InvalidValue::new(what, remedy));
    let limit = limit(&typed).ok_or_else(|| {
        misfit("limit", format!("'{typed}' must be METRIC < NUMBER"), "write limit = \"latency_p95_ms < 500\"")
    })?;
    let mut number = |key: &str, least: f64| match take(key) {
        None => Ok(None),
        Some(text) => match text.parse::<f64>() {
            Ok(number) if number >= least && number.is_finite() => Ok(Some(number)),
            _ => Err(misfit(key, format!("{key} = {text} must be a number from {least}"), "write such as 1.0")),
        },
    };
    let weight = number("weight", 0.0)?.unwrap_or(1.0);
    let reference = number("reference", f64::MIN_POSITIVE)?;
    let cpus = match take("cpus") {
        None => Vec::new(),
        Some(text) => numbers(&text).ok_or_else(|| {
            misfit("cpus", format!("cpus = {text} must be a list of CPUs"), "write such as cpus = [0, 1]")
        })?,
    };
    Ok(Member { name: name.to_owned(), workload, throughput, limit, weight, reference, cpus, parameters: keys })
}

/// A value as TOML, read again.
fn read<T>(literal: &str, take: impl FnOnce(&DeValue<'_>) -> Option<T>) -> Option<T> {
    let text = format!("value = {literal}");
    let document = DeTable::parse(&text).ok()?;
    document.get_ref().get("value").and_then(|value| take(value.get_ref()))
}

fn unquoted(literal: &str) -> Option<String> {
    read(literal, |value| if let DeValue::String(text) = value { Some(text.to_string()) } else { None })
}

fn numbers(literal: &str) -> Option<Vec<usize>> {
    read(literal, |value| {
        let DeValue::Array(items) = value else { return None };
        let number =
            |item: &DeValue<'_>| if let DeValue::Integer(number) = item { number.as_str().parse().ok() } else { None };
        items.iter().map(|item| number(item.get_ref())).collect()
    })
}

fn limit(text: &str) -> Option<Limit> {
    let (metric, below) = text.split_once('<')?;
    let below = below.trim().parse::<f64>().ok().filter(|below| *below > 0.0 && below.is_finite())?;
    let metric = metric.trim();
    (!metric.is_empty()).then(|| Limit { metric: metric.to_owned(), below })
}

impl Member {
    /// Whether it is the infrastructure's work, and not an application's.
    #[must_use]
    pub fn is_infrastructure(&self) -> bool {
        self.workload == guest_operations::KIND
    }

    /// The arm that a member of this workload runs: its defaults, the times of the tile over them, the member's own parameters over both.
    ///
    /// # Errors
    /// A parameter or metric that the workload does not have, or a value that does not fit.
    pub fn arm(&self, of: &'static Descriptor, phases: Phases, ranks: usize) -> Result<ResolvedArm, InvalidValue> {
        let mut arm = ResolvedArm::native(ranks, PageSize::Small);
        for knob in of.parameters {
            if let Default::Typed(text) = knob.default {
                arm.parameters.insert(knob.key.to_owned(), knob.read_text(text)?);
            }
        }
        let mut time = |keys: &[&str], time: Nanos| {
            if let Some(key) = keys.iter().find(|key| of.parameter(key).is_some()) {
                arm.parameters.insert((*key).to_owned(), Value::TimeNs(time));
            }
        };
        time(&MEASURED, phases.steady);
        time(&BEFORE, phases.warm_up);
        time(&[RAMP_DOWN], phases.ramp_down);
        for (key, literal) in &self.parameters {
            let value = self.value(of, key, literal)?;
            arm.parameters.insert(key.clone(), value);
        }
        for metric in [&self.throughput, &self.limit.metric] {
            let known: Vec<&str> = of.metrics.iter().map(|metric| metric.key).collect();
            if !known.contains(&metric.as_str()) {
                let what = format!("member '{}': the workload {} has no metric '{metric}'", self.name, of.kind);
                return Err(InvalidValue::new(what, nearest(metric, &known)));
            }
        }
        (of.check)(&arm)?;
        let wrong = of.section.and_then(|section| (section.check_arm)(&arm).into_iter().next());
        wrong.map_or(Ok(arm), |(_, misfit)| Err(misfit))
    }

    fn value(&self, of: &'static Descriptor, key: &str, literal: &str) -> Result<Value, InvalidValue> {
        let section = of.section.map(|section| section.name);
        if section.is_some_and(|name| key.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))) {
            return Ok(Value::Literal(literal.to_owned()));
        }
        let known: Vec<&str> = of.parameters.iter().map(|knob| knob.key).collect();
        let Some(knob) = of.parameter(key).filter(|knob| knob.key != TIMEOUT.key) else {
            let what = format!("member '{}': the workload {} has no parameter '{key}'", self.name, of.kind);
            return Err(InvalidValue::new(what, nearest(key, &known)));
        };
        // A literal was made of a value, and is one.
        read(literal, |value| Some(knob.read(value))).unwrap_or_else(|| {
            Err(InvalidValue::new(format!("member '{}': {key} = {literal} is not a value", self.name), knob.takes()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web_farm;

    fn arm(lines: &[(&str, &str)]) -> ResolvedArm {
        let plain = ResolvedArm::native(1, PageSize::Small);
        let set = |arm: ResolvedArm, (key, text): &(&str, &str)| {
            arm.with(&format!("{PREFIX}{key}"), Value::Literal((*text).to_owned()))
        };
        lines.iter().fold(plain, set)
    }

    const WEB: [(&str, &str); 5] = [
        ("web.workload", "\"web-farm\""),
        ("web.throughput", "\"requests_per_s\""),
        ("web.limit", "\"latency_p95_ms < 100\""),
        ("web.servers", "1"),
        ("web.rate", "30"),
    ];

    #[test]
    fn a_member_is_its_own_keys_and_parameters_of_its_workload() {
        let members = of(&arm(&WEB)).expect("a member");
        assert_eq!(members.len(), 1);
        let web = &members[0];
        assert_eq!((web.name.as_str(), web.weight, web.reference), ("web", 1.0, None));
        assert_eq!(web.limit, Limit { metric: "latency_p95_ms".to_owned(), below: 100.0 });
        let phases = Phases { warm_up: Nanos(3), steady: Nanos(7), ramp_down: Nanos(5) };
        let arm = web.arm(&web_farm::DESCRIPTOR, phases, 2).expect("it fits");
        assert_eq!(arm.parameters["rate"], Value::Count(30));
        assert_eq!(
            (&arm.parameters["window"], &arm.parameters["settle"]),
            (&Value::TimeNs(Nanos(7)), &Value::TimeNs(Nanos(3)))
        );
        assert_eq!(arm.parameters[RAMP_DOWN], Value::TimeNs(Nanos(5)));
        assert_eq!(arm.parameters["most"], Value::Count(512), "a default");
    }

    #[test]
    fn what_a_member_names_on_this_machine_is_read_where_the_study_is_planned() {
        let mut arm = arm(&WEB);
        let text = "two \"lines\"\n\\ and a tab\t\u{7f}";
        let read = |parameters: &mut BTreeMap<String, Value>| {
            assert_eq!(parameters.keys().collect::<Vec<_>>(), [""; 0], "numbers are left out");
            parameters.insert("job_text".to_owned(), Value::Text(text.to_owned()));
            Ok(())
        };
        settle(&mut arm, "web-farm", read).expect("settled");
        let members = of(&arm).expect("members");
        assert_eq!(unquoted(&members[0].parameters["job_text"]).as_deref(), Some(text));
        settle(&mut arm, "block", |_| panic!("no member is of this workload")).expect("nothing to do");
        let why =
            settle(&mut arm, "web-farm", |_| Err(InvalidValue::new("no file", "name one"))).expect_err("it fails");
        assert_eq!(why.to_string(), "member 'web': no file; name one");
    }

    #[test]
    fn mistakes_name_the_member_and_what_would_be_right() {
        assert!(of(&arm(&[])).is_err());
        for (key, text, said) in [
            ("web.limit", "\"latency_p95_ms\"", "must be METRIC < NUMBER"),
            ("web.limit", "5", "must be a string"),
            ("web.weight", "-1", "must be a number from 0"),
            ("web.reference", "0", "must be a number from"),
            ("web.cpus", "\"0\"", "must be a list of CPUs"),
        ] {
            let (at, why) = of(&arm(&[&WEB[..], &[(key, text)]].concat())).expect_err(key);
            assert_eq!(at, format!("{PREFIX}{key}"));
            assert!(why.to_string().contains(said), "{why}");
        }
        let (at, _) = of(&arm(&WEB[1..])).expect_err("no workload");
        assert_eq!(at, "tile.members.web.workload");
        for (key, text, said) in [
            ("web.rat", "30", "has no parameter 'rat'"),
            ("web.rate", "\"x\"", "rate"),
            ("web.throughput", "\"requests\"", "has no metric 'requests'"),
        ] {
            let members = of(&arm(&[&WEB[..], &[(key, text)]].concat())).expect("members");
            let phases = Phases { warm_up: Nanos(1), steady: Nanos(1), ramp_down: Nanos(1) };
            let why = members[0].arm(&web_farm::DESCRIPTOR, phases, 1).expect_err(key);
            assert!(why.to_string().contains(said), "{why}");
        }
    }
}
