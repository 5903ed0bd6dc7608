//! Changes to a study that are given on the command line: `--set`, `--vary`, `--in`, `--budget`, `--precision` and `--by`, written into its text, so
//! that what is stored and printed is the study that ran.

mod given;

pub use given::by_option;

use crate::context::descriptors;
use crate::exit::Refusal;
use crate::message::say;
use crate::named_places;
use crate::source::{Changed, Source};
use baremark_model::environments;
use baremark_model::former;
use baremark_model::instead;
use baremark_model::knob::Knob;
use baremark_model::literal::{self, quoted};
use baremark_model::problem::{near, nearest};
use baremark_model::study::{self, Study};
use baremark_model::tables;
use baremark_model::units::{Nanos, Share};
use std::collections::BTreeSet;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// Keys of a study and their values.
#[derive(clap::Args, Default)]
#[command(next_help_heading = "Changes to a study")]
pub struct Changes {
    /// Set a key of the study, such as table='256 MiB' or design.quads=8 (repeat for several)
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Vary a key as a factor: a list A,B,C (compared with A) or a range FIRST..LAST[..STEP]
    #[arg(long, value_name = "KEY=VALUES")]
    pub vary: Vec<String>,
    #[arg(long = "in", value_name = "ENVIRONMENTS", value_delimiter = ',', help_heading = named_places::HEADING, help = named_places::help())]
    pub places: Vec<String>,
}

/// What is given for studies and for programs alike.
#[derive(clap::Args, Clone, Default)]
#[command(next_help_heading = "Measurement")]
pub struct Spending {
    /// Metric to compare by; of programs wall_s, cpu_s, NAME or NAME:higher [default: the study's; of programs wall_s]
    #[arg(long, value_name = "METRIC")]
    pub by: Option<String>,
    /// Stop when the 95 % interval is this narrow [default: the study's; of programs 1 %, or half of --fail-above]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub precision: Option<Share>,
    /// Stop after TIME at the latest [default: the study's; of programs 60s]
    #[arg(long, value_name = "TIME")]
    pub budget: Option<Nanos>,
    /// Print the study that would be run, for `baremark run`, and run nothing
    #[arg(long)]
    pub print_study: bool,
}

/// A percentage with or without its sign.
pub fn percent(text: &str) -> Result<Share, String> {
    let typed = if text.trim_end().ends_with('%') { text.to_owned() } else { format!("{text} %") };
    let share: Share = typed.parse().map_err(|why| format!("{why}"))?;
    if (0.0002..=0.5).contains(&share.0) { Ok(share) } else { Err("write a percentage from 0.02 to 50".to_owned()) }
}

/// The study with these changes; as it is without any.
pub fn applied(source: Source, changes: &Changes, spending: &Spending) -> Result<Source, Refusal> {
    let (set, mut vary) = (pairs("--set", &changes.set)?, pairs("--vary", &changes.vary)?);
    let design = spending.precision.is_some() || spending.budget.is_some();
    if set.is_empty() && vary.is_empty() && changes.places.is_empty() && spending.by.is_none() && !design {
        return Ok(source);
    }
    let before = study::parse(&source.name, &source.bytes, &descriptors()).map_err(Refusal::bad_input)?;
    let mut text = String::from_utf8_lossy(&source.bytes).into_owned();
    if !changes.places.is_empty() {
        let named = set.iter().chain(&vary).find(|(key, _)| key.rsplit('.').next() == Some(environments::FACTOR));
        if let Some((key, _)) = named {
            return Err(Refusal::bad_input(format!("--in and {key}: the environments are named twice; leave one out")));
        }
        let (changed, levels) = in_places(text, &before, &changes.places)?;
        text = changed;
        vary.push((environments::FACTOR.to_owned(), levels));
    }
    let is_of_work = !set.is_empty() || !vary.is_empty() || spending.by.is_some();
    let named: Vec<String> = set.iter().chain(&vary).map(|(key, _)| key.clone()).collect();
    text = named.iter().fold(text, |text, key| with_name_of_today(&text, &before, key));
    let mut given = Vec::new();
    for (key, value) in set {
        let place = place_of("--set", &text, &before, &key)?;
        text = put(&text, &place, &typed_value(&value));
        given.push((place, format!("--set {key}={value}")));
    }
    for (key, values) in &vary {
        text = varied(text, &before, (key, values), &named)?;
    }
    text = compared_with_first(text, &source.name, &vary);
    given.extend(vary.iter().map(|(key, values)| {
        let own = key.rsplit('.').next().unwrap_or(key).to_owned();
        let is_place = own == environments::FACTOR && !changes.places.is_empty();
        let typed =
            if is_place { format!("--in {}", changes.places.join(",")) } else { format!("--vary {key}={values}") };
        (vec!["factors".to_owned(), own], typed)
    }));
    // Half of the smallest difference of interest is the coarsest precision.
    let delta = spending.precision.map(|share| Share(2.0 * share.0)).filter(|delta| before.design.delta.0 < delta.0);
    let typed = [
        ("delta", "precision", delta.map(|share| share.to_string())),
        ("precision", "precision", spending.precision.map(|share| share.to_string())),
        ("budget", "budget", spending.budget.map(|time| time.to_string())),
    ];
    for (key, option, value) in typed.into_iter().filter_map(|(key, option, value)| Some((key, option, value?))) {
        let place = ["design", key].map(str::to_owned);
        text = put(&text, &place, &quoted(&value));
        given.push((place.to_vec(), format!("--{option}")));
    }
    if let Some(metric) = &spending.by {
        text = compared_by(&text, &before, metric)?;
    }
    let changed = if is_of_work { Changed::Work } else { Changed::Design };
    Ok(Source { name: source.name, bytes: text.into_bytes(), changed, given })
}

/// The study with the settings of these environments, and what its factor is: one alone is added to what the study compares with, which is else the first.
fn in_places(mut text: String, study: &Study, typed: &[String]) -> Result<(String, String), Refusal> {
    let places = named_places::of_study(typed, study)?;
    let mut names: Vec<String> = places.iter().map(|(name, _)| name.clone()).collect();
    let reference = study.layout.ratio_to.get(environments::FACTOR).map(ToString::to_string);
    let ratio = ["report", "ratio_to", environments::FACTOR].map(str::to_owned);
    let is_written = |text: &str| DeTable::parse(text).is_ok_and(|text| find(text.get_ref(), &ratio).is_some());
    match reference.filter(|level| !names.contains(level)) {
        Some(reference) if names.len() == 1 => names.insert(0, reference),
        Some(_) if is_written(&text) => text = put(&text, &ratio, &quoted(&names[0])),
        _ => {}
    }
    for (name, settings) in places {
        let place = |key: &str| ["environments", name.as_str(), key].map(str::to_owned);
        text = settings.iter().fold(text, |text, (key, value)| put(&text, &place(key), &value.to_string()));
    }
    let levels: Vec<String> = names.iter().map(|name| quoted(name)).collect();
    Ok((text, format!("[{}]", levels.join(", "))))
}

/// Each as key and value.
fn pairs(option: &str, typed: &[String]) -> Result<Vec<(String, String)>, Refusal> {
    let pair = |typed: &String| match typed.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() && !value.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(Refusal::bad_input(format!(
            "{option} {typed}: expected KEY=VALUE; write such as {option} size='1 GiB'"
        ))),
    };
    typed.iter().map(pair).collect()
}

/// A value as TOML: as it is typed where TOML reads it so, else a string.
fn typed_value(typed: &str) -> String {
    let text = format!("value = {typed}");
    let is_value = !typed.contains('\n') && DeTable::parse(&text).is_ok_and(|table| table.get_ref().len() == 1);
    if is_value { typed.to_owned() } else { quoted(typed) }
}

/// The section and key that are meant, from the outermost: as typed where it begins with a section, or else the one place that ends so.
fn place_of(option: &str, text: &str, study: &Study, key: &str) -> Result<Vec<String>, Refusal> {
    let own = study.workloads.iter().filter_map(|chosen| Some(chosen.descriptor.section?.name));
    let sections: Vec<&str> = study::SECTIONS.iter().copied().chain(own).collect();
    if let Some((section, _)) = key.split_once('.').filter(|(section, _)| sections.contains(section)) {
        let known = taking(text, study, &key[section.len() + 1..]);
        let whole = known.into_iter().find(|place| place.join(".") == key);
        return Ok(whole.unwrap_or_else(|| key.split('.').map(str::to_owned).collect()));
    }
    let taking = taking(text, study, key);
    let names: Vec<String> = taking.iter().map(|place| place.join(".")).collect();
    match taking.as_slice() {
        [one] => Ok(one.clone()),
        [] => {
            let known = known(study);
            let known: Vec<&str> =
                known.iter().map(|(_, knob)| knob.key).collect::<BTreeSet<_>>().into_iter().collect();
            let hint = match near(key.rsplit('.').next().unwrap_or(key), &known) {
                Some(near) => format!("did you mean '{near}'?"),
                None => "`baremark list keys` and `baremark list workloads` name them".to_owned(),
            };
            Err(Refusal::bad_input(format!("{option} {key}: this study takes no such key; {hint}")))
        }
        _ => Err(Refusal::bad_input(format!("{option} {key}: several sections take it; write {}", names.join(" or ")))),
    }
}

/// Where the study has the key; if nowhere, which of its sections take it. The key may begin with a part of its section, such as `stream.page`.
fn taking(text: &str, study: &Study, key: &str) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    if let Ok(document) = DeTable::parse(text) {
        typed(document.get_ref(), &mut Vec::new(), &mut all);
    }
    let ends_so = |place: &Vec<String>| format!(".{}", place.join(".")).ends_with(&format!(".{key}"));
    let mut found: Vec<Vec<String>> = all.into_iter().filter(ends_so).collect();
    if found.is_empty() {
        let place = |(section, knob): (Vec<String>, &Knob)| section.into_iter().chain([knob.key.to_owned()]).collect();
        found = known(study).into_iter().map(place).filter(ends_so).collect();
    }
    found
}

/// Adds the places of all values in a table and those below it.
fn typed(table: &DeTable<'_>, above: &mut Vec<String>, all: &mut Vec<Vec<String>>) {
    for (name, value) in table {
        above.push(name.get_ref().to_string());
        match value.get_ref() {
            DeValue::Table(table) => typed(table, above, all),
            _ => all.push(above.clone()),
        }
        above.pop();
    }
}

/// Every key that the sections of a study take, without those of environments.
fn known(study: &Study) -> Vec<(Vec<String>, &'static Knob)> {
    let fixed = [("study", tables::STUDY), ("design", tables::DESIGN), ("report", tables::REPORT)];
    let of = |section: Vec<String>, knobs: &'static [Knob]| knobs.iter().map(move |knob| (section.clone(), knob));
    let mut known: Vec<_> =
        fixed.into_iter().flat_map(|(section, knobs)| of(vec![section.to_owned()], knobs)).collect();
    for chosen in &study.workloads {
        let mut section = vec!["workload".to_owned()];
        section.extend((study.workloads.len() > 1).then(|| chosen.descriptor.kind.to_owned()));
        known.extend(of(section, chosen.descriptor.parameters));
    }
    known.extend(of(vec!["factors".to_owned()], tables::FACTORS));
    known
}

/// The text with a value for this key: in place of the one that it has, else as the first line of its section, else in a section at the end.
fn put(text: &str, place: &[String], value: &str) -> String {
    let Some((key, section)) = place.split_last() else { return text.to_owned() };
    let line = format!("{} = {value}\n", literal::key(key));
    if let Some(span) = DeTable::parse(text).ok().and_then(|document| Some(find(document.get_ref(), place)?.span())) {
        return format!("{}{value}{}", &text[..span.start], &text[span.end..]);
    }
    let header = format!("[{}]", section.iter().map(|part| literal::key(part)).collect::<Vec<_>>().join("."));
    let is_header = |of: &str| of.split('#').next().unwrap_or_default().replace(' ', "").trim() == header;
    let after = |at: usize| {
        let end: usize = text.split_inclusive('\n').take(at + 1).map(str::len).sum();
        format!("{}{line}{}", &text[..end], &text[end..])
    };
    // A line that looks like it may be one of a string.
    let has_key = |text: &String| DeTable::parse(text).is_ok_and(|document| find(document.get_ref(), place).is_some());
    let lines = text.lines().enumerate().filter(|(_, of)| is_header(of));
    let found = lines.map(|(at, _)| after(at)).find(has_key);
    found.unwrap_or_else(|| format!("{}\n\n{header}\n{line}", text.trim_end()))
}

/// The text without this key, and the lines on which it stands; where others stand there too, as in an inline table, without the key and its comma. As it is where
/// neither leaves all others.
fn without(text: &str, place: &[String]) -> String {
    let Ok(document) = DeTable::parse(text) else { return text.to_owned() };
    let Some((name, value)) = entry(document.get_ref(), place) else { return text.to_owned() };
    let mut others = places(document.get_ref());
    others.retain(|other| !other.starts_with(place));
    let leaves_others = |text: &String| DeTable::parse(text).is_ok_and(|document| places(document.get_ref()) == others);
    let found = [without_lines(text, &value.span()), without_entry(text, &(name.span().start..value.span().end))];
    found.into_iter().find(leaves_others).unwrap_or_else(|| text.to_owned())
}

fn without_lines(text: &str, span: &Range<usize>) -> String {
    let begin = text[..span.start].rfind('\n').map_or(0, |at| at + 1);
    let end = text[span.end..].find('\n').map_or(text.len(), |at| span.end + at + 1);
    format!("{}{}", &text[..begin], &text[end..])
}

/// Without what is at `span` of an inline table, and the comma that comes after it, or else before it.
fn without_entry(text: &str, span: &Range<usize>) -> String {
    let (before, after) = (&text[..span.start], &text[span.end..]);
    if let Some(after) = after.trim_start().strip_prefix(',') {
        return format!("{before}{}", after.trim_start());
    }
    format!("{}{after}", before.trim_end().strip_suffix(',').unwrap_or(before))
}

/// The places of all values of a study.
fn places(document: &DeTable<'_>) -> BTreeSet<Vec<String>> {
    let mut all = Vec::new();
    typed(document, &mut Vec::new(), &mut all);
    all.into_iter().collect()
}

fn find<'t>(table: &'t DeTable<'t>, place: &[String]) -> Option<&'t Spanned<DeValue<'t>>> {
    entry(table, place).map(|(_, value)| value)
}

/// A key and its value, each with where it stands.
fn entry<'t>(
    table: &'t DeTable<'t>,
    place: &[String],
) -> Option<(&'t Spanned<DeString<'t>>, &'t Spanned<DeValue<'t>>)> {
    let (first, rest) = place.split_first()?;
    let found = table.iter().find(|(name, _)| name.get_ref() == first.as_str())?;
    match (rest, found.1.get_ref()) {
        ([], _) => Some(found),
        (_, DeValue::Table(table)) => entry(table, rest),
        _ => None,
    }
}

/// The text with the name of today for `key`, where it has it by a former name.
fn with_name_of_today(text: &str, study: &Study, key: &str) -> String {
    let Ok(document) = DeTable::parse(text) else { return text.to_owned() };
    let is_meant = |place: &Vec<String>, now: &str| {
        let section = place[..place.len() - 1].iter().map(String::as_str);
        let whole: Vec<&str> = section.chain([now]).collect();
        format!(".{}", whole.join(".")).ends_with(&format!(".{key}"))
    };
    let found = places(document.get_ref()).into_iter().find_map(|place| {
        let now = now_of(study, &place).filter(|now| is_meant(&place, now))?;
        Some((entry(document.get_ref(), &place)?.0.span(), now))
    });
    let Some((span, now)) = found else { return text.to_owned() };
    format!("{}{}{}", &text[..span.start], literal::key(&now), &text[span.end..])
}

/// What the last part of a place is called today, where a study has it by a former name.
fn now_of(study: &Study, place: &[String]) -> Option<String> {
    let (key, section) = place.split_last()?;
    // A factor by this name is one that a command declares.
    let of_factors = ["factors", "report"].contains(&section.first()?.as_str());
    if of_factors && study.factors.iter().any(|factor| factor.key == *key) {
        return None;
    }
    let all = || study.workloads.iter().map(|chosen| chosen.descriptor.kind).collect::<Vec<&str>>();
    let section: Vec<&str> = section.iter().map(String::as_str).collect();
    let kinds = match section[..] {
        ["workload", kind] => Some(vec![kind]),
        ["workload"] => Some(all()),
        ["command"] | ["commands", _] => Some(Vec::new()),
        _ => of_factors.then(all),
    };
    let path = place.join(".");
    let in_section = || Some(former::path_now(&path)).filter(|now| *now != path);
    let last = |path: String| path.rsplit('.').next().unwrap_or_default().to_owned();
    kinds.and_then(|kinds| former::key_now_of(&kinds, key)).or_else(|| in_section().map(last))
}

/// The study with the key as a factor, which it then is nowhere else. `named` are the keys that are given on the command line.
fn varied(text: String, study: &Study, (key, values): (&str, &str), named: &[String]) -> Result<String, Refusal> {
    let mut places = taking(&text, study, key);
    if places.is_empty() {
        // It says what is wrong, unless the key begins with a section.
        places.push(place_of("--vary", &text, study, key)?);
    }
    let own = places[0].last().cloned().unwrap_or_default();
    // A factor is one of every workload: a key of one of several is none.
    if study.workloads.len() > 1 && key.contains('.') && places[0][0] == "workload" {
        let why = format!("a factor is varied for every workload; write --vary {own}={values}");
        return Err(Refusal::bad_input(format!("--vary {key}={values}: {why}")));
    }
    let levels = levels(values).map_err(|why| Refusal::bad_input(format!("--vary {key}={values}: {why}")))?;
    // One of several workloads may hold a factor at a level of its own.
    let fixed = |place: &&Vec<String>| study.workloads.len() == 1 && place[0] == "workload";
    let mut text = places.iter().filter(fixed).fold(text, |text, place| without(&text, place));
    if own == environments::FACTOR {
        // Whoever names the environments has them all: none stands for one that is not among them.
        let there = texts(&levels);
        let is_alone = |name: &&String| instead::replaces(study, name).is_some_and(|first| !there.contains(&first));
        let alone = study.environments.keys().filter(is_alone);
        let place = |name: &String| ["environments", name, environments::INSTEAD_OF.key].map(str::to_owned);
        text = alone.fold(text, |text, name| without(&text, &place(name)));
        text = without_idle(text, study, &there, named);
    }
    Ok(put(&text, &["factors".to_owned(), own], &format!("[{}]", levels.join(", "))))
}

/// The study with a ratio to the first value of a list of `vary`, where it has no ratio: who lists two databases asks which of them is faster. A range is a scan.
fn compared_with_first(text: String, file: &str, vary: &[(String, String)]) -> String {
    let parsed = |text: &str| study::parse(file, text.as_bytes(), &descriptors()).ok();
    let report = ["report", "ratio_to"].map(str::to_owned);
    let first = |document: &DeTable<'_>, (key, values): &(String, String)| {
        let own = key.rsplit('.').next()?;
        let listed = find(document, &["factors".to_owned(), own.to_owned()])?.get_ref().as_array()?;
        let is_list = listed.len() > 1 && !values.contains("..");
        Some(format!("{{ {} = {} }}", literal::key(own), &text[listed.first().filter(|_| is_list)?.span()]))
    };
    let with_ratio = || {
        let document = DeTable::parse(&text).ok()?;
        let document = document.get_ref();
        let asks_none = find(document, &report).is_none() && parsed(&text)?.layout.ratio_to.is_empty();
        let ratio = vary.iter().filter(|_| asks_none).find_map(|varied| first(document, varied))?;
        // A place that runs no work is none to compare with.
        Some(put(&text, &report, &ratio)).filter(|text| parsed(text).is_some())
    };
    with_ratio().unwrap_or(text)
}

/// The study without factors that apply to none of these environments, which would be refused. Those that somebody has asked for stay: they are given on the command
/// line, or a table has them, or something is divided by a level of theirs.
fn without_idle(text: String, study: &Study, there: &[String], named: &[String]) -> String {
    let has = |key: &str, name: &String| tables::applies(key, environments::kind_of(name, &study.environments));
    let is_named = |key: &str| named.iter().any(|typed| format!(".{typed}").ends_with(&format!(".{key}")));
    let is_shown = |text: &str, key: &str| {
        let Ok(document) = DeTable::parse(text) else { return true };
        let at =
            |place: &[&str]| find(document.get_ref(), &place.iter().map(|of| (*of).to_owned()).collect::<Vec<_>>());
        let is_it = |of: &str| at(&["report", of]).is_some_and(|value| value.get_ref().as_str() == Some(key));
        is_it("rows") || is_it("columns") || at(&["report", "ratio_to", key]).is_some()
    };
    let is_idle = |key: &&str| !there.is_empty() && !there.iter().any(|name| has(key, name)) && !is_named(key);
    let (mut text, mut gone) = (text, Vec::new());
    for key in tables::MACHINE_FACTORS.iter().copied().filter(is_idle) {
        if is_shown(&text, key) {
            continue;
        }
        let less = without(&text, &["factors".to_owned(), key.to_owned()]);
        if less != text {
            gone.push(key);
            text = less;
        }
    }
    if !gone.is_empty() {
        let (factors, of) = (gone.join(", "), there.join(", "));
        say(format_args!("notice: taken out of [factors], for it applies to none of {of}: {factors}"));
    }
    text
}

/// The texts among values as TOML.
fn texts(levels: &[String]) -> Vec<String> {
    let text = format!("value = [{}]", levels.join(", "));
    let Ok(table) = DeTable::parse(&text) else { return Vec::new() };
    let all = table.get_ref().get("value").and_then(|value| value.get_ref().as_array());
    all.into_iter().flatten().filter_map(|value| value.get_ref().as_str().map(str::to_owned)).collect()
}

/// Values as TOML: a list, or a range of whole numbers.
fn levels(values: &str) -> Result<Vec<String>, String> {
    if let Some(list) = values.strip_prefix('[').and_then(|values| values.strip_suffix(']')) {
        return Ok(vec![list.to_owned()]);
    }
    match range(values)? {
        Some(numbers) => Ok(numbers.iter().map(u64::to_string).collect()),
        None => Ok(values.split(',').map(|value| typed_value(value.trim())).collect()),
    }
}

/// The whole numbers of FIRST..LAST or FIRST..LAST..STEP; `None` for what has no `..`, and for paths, which may go up.
///
/// # Errors
/// A text that is not a range, or has too many numbers.
pub fn range(typed: &str) -> Result<Option<Vec<u64>>, String> {
    if !typed.contains("..") || typed.contains('/') {
        return Ok(None);
    }
    let wrong = || "not a range of whole numbers; write FIRST..LAST or FIRST..LAST..STEP, such as 2..8..2".to_owned();
    let numbers: Vec<u64> = typed.split("..").map(|part| part.parse().ok()).collect::<Option<_>>().ok_or_else(wrong)?;
    let (first, last, step) = match numbers[..] {
        [first, last] => (first, last, 1),
        [first, last, step] if step > 0 => (first, last, step),
        _ => return Err(wrong()),
    };
    if first > last || (last - first) / step >= study::MOST_LEVELS as u64 {
        return Err(format!("from 1 to {} numbers, the first the smallest; write such as 1..8", study::MOST_LEVELS));
    }
    Ok(Some((first..=last).step_by(usize::try_from(step).unwrap_or(usize::MAX)).collect()))
}

/// The study compared by this metric of its workload.
fn compared_by(text: &str, study: &Study, metric: &str) -> Result<String, Refusal> {
    let [only] = study.workloads.as_slice() else {
        let sections: Vec<String> =
            study.workloads.iter().map(|chosen| format!("workload.{}.metric", chosen.descriptor.kind)).collect();
        let remedy = format!("set {}", sections.join(" or "));
        return Err(Refusal::bad_input(format!("--by {metric}: this study has several workloads; {remedy}")));
    };
    let metrics: Vec<&str> = only.descriptor.metrics.iter().map(|metric| metric.key).collect();
    if !metrics.contains(&metric) {
        let hint = nearest(metric, &metrics);
        return Err(Refusal::bad_input(format!("--by {metric}: {} has no such metric; {hint}", only.descriptor.kind)));
    }
    let report = |key: &str| ["report".to_owned(), key.to_owned()];
    let text = put(text, &report("metric"), &quoted(metric));
    // Others that get a ratio are other ones.
    let document = DeTable::parse(&text).ok();
    let also = document.as_ref().and_then(|document| match find(document.get_ref(), &report("also"))?.get_ref() {
        DeValue::String(also) => Some(also.split(',').map(|of| of.trim().to_owned()).collect()),
        DeValue::Array(also) => Some(also.iter().filter_map(|of| of.get_ref().as_str().map(str::to_owned)).collect()),
        _ => None,
    });
    let Some(also) = also.filter(|also: &Vec<String>| also.iter().any(|of| of == metric)) else { return Ok(text) };
    let others: Vec<String> = also.iter().filter(|of| *of != metric).map(|of| quoted(of)).collect();
    Ok(match others.as_slice() {
        [] => without(&text, &report("also")),
        others => put(&text, &report("also"), &format!("[{}]", others.join(", "))),
    })
}

#[cfg(test)]
mod tests {
    use super::{Changes, Spending, applied, descriptors, put, range, study, typed_value, without};
    use crate::source::{SHIPPED, Source, shipped};
    use baremark_model::units::{Nanos, Share};

    const STUDY: &str = "\
# Why.
[study]
title = \"a\" # the question

[workload]
kind = \"stream\"
kernel = \"triad\"   # the one

[factors]
environment = [\"native\", \"microvm\"]
";

    fn changed(set: &[&str], vary: &[&str], spending: &Spending) -> Result<String, String> {
        let of = |typed: &[&str]| typed.iter().map(|typed| (*typed).to_owned()).collect();
        let source = Source::new("file".to_owned(), STUDY.as_bytes().to_vec());
        let changes = Changes { set: of(set), vary: of(vary), ..Changes::default() };
        let changed = applied(source, &changes, spending).map_err(|refusal| refusal.message.clone())?;
        Ok(String::from_utf8(changed.bytes).unwrap_or_default())
    }

    #[test]
    fn a_study_without_changes_keeps_its_bytes_and_its_name() {
        let source = Source::new("file".to_owned(), b"no study".to_vec());
        let same = applied(source, &Changes::default(), &Spending::default()).map(|source| (source.name, source.bytes));
        assert_eq!(same.ok(), Some(("file".to_owned(), b"no study".to_vec())));
    }

    #[test]
    fn a_value_is_replaced_where_it_stands_and_comments_stay() {
        let text = changed(&["kernel=copy", "study.title=b c"], &[], &Spending::default()).unwrap_or_default();
        assert!(text.contains("kernel = \"copy\"   # the one\n"), "{text}");
        assert!(text.contains("title = \"b c\" # the question\n") && text.starts_with("# Why.\n"), "{text}");
    }

    #[test]
    fn a_new_key_goes_into_its_section_or_into_a_new_one() {
        let spending = Spending { budget: Some(Nanos(300_000_000_000)), ..Spending::default() };
        let text = changed(&["page=2m"], &[], &spending).unwrap_or_default();
        assert!(text.contains("[factors]\npage = \"2m\"\nenvironment = "), "{text}");
        assert!(text.ends_with("\n\n[design]\nbudget = \"5 min\"\n"), "{text}");
    }

    #[test]
    fn a_key_that_is_varied_is_no_parameter_any_more() {
        let text = changed(&[], &["kernel=copy,triad", "ranks=1..3..2"], &Spending::default()).unwrap_or_default();
        assert!(!text.contains("# the one"), "{text}");
        assert!(text.contains("kernel = [\"copy\", \"triad\"]\n") && text.contains("ranks = [1, 3]\n"), "{text}");
        let text = changed(&[], &["environment=native,sandbox"], &Spending::default()).unwrap_or_default();
        assert!(text.contains("[factors]\nenvironment = [\"native\", \"sandbox\"]\n"), "{text}");
    }

    #[test]
    fn a_list_is_compared_with_its_first_value_where_nothing_else_is() {
        let ratio = |vary: &[&str]| {
            let text = varied(STUDY, vary);
            let study = study::parse("file", text.as_bytes(), &descriptors()).expect("it is a study");
            let levels = study.layout.ratio_to.iter().map(|(key, level)| format!("{key} = {level}"));
            levels.collect::<Vec<_>>().join(", ")
        };
        assert_eq!(ratio(&["kernel=copy,triad", "environment=native"]), "kernel = copy");
        assert_eq!(ratio(&["environment=native", "ranks=1..3", "kernel=copy,triad"]), "kernel = copy");
        assert_eq!(ratio(&["environment=container,sandbox"]), "environment = container");
        assert_eq!(ratio(&["kernel=copy,triad"]), "environment = native");
        for none in ["ranks=1..3", "kernel=copy"] {
            assert_eq!(ratio(&["environment=native", none]), "");
        }
    }

    /// It was refused, for its sandbox stood for a container that was not there any more.
    #[test]
    fn environments_that_are_named_are_all_used() {
        let text = "\
[study]
title = \"a\"
[workload]
kind = \"fma\"
[factors]
environment = [\"native\", \"container\", \"sandbox\"]
[environments.sandbox]
instead_of = \"container\"   # where no engine is installed
fresh = \"run\"
";
        let varied = |environments: &str| {
            let source = Source::new("file".to_owned(), text.as_bytes().to_vec());
            let changes = Changes { vary: vec![format!("environment={environments}")], ..Changes::default() };
            let changed = applied(source, &changes, &Spending::default()).map_err(|refusal| refusal.message);
            String::from_utf8_lossy(&changed.expect("it is a study").bytes).into_owned()
        };
        let alone = varied("native,sandbox");
        assert!(alone.contains("[environments.sandbox]\nfresh = \"run\"\n"), "{alone}");
        let both = varied("[\"container\", \"sandbox\"]");
        assert!(both.contains("instead_of = \"container\""), "{both}");
    }

    /// The options of `--in` were refused with a list of what `run` takes for programs.
    #[test]
    fn a_study_runs_in_the_environments_that_are_named_for_it() {
        let own = format!("{STUDY}[environments.volume]\nlike = \"container\"\nvolumes = [\"/tmp:/tmp\"]\n");
        let ratio = "[report]\nratio_to = { environment = \"native\" }   # the one\n";
        let within = |text: &str, places: &[&str], set: &[&str]| {
            let source = Source::new("file".to_owned(), text.as_bytes().to_vec());
            let of = |typed: &[&str]| typed.iter().map(|typed| (*typed).to_owned()).collect();
            let changes = Changes { places: of(places), set: of(set), ..Changes::default() };
            let changed = applied(source, &changes, &Spending::default()).map_err(|refusal| refusal.message)?;
            let text = String::from_utf8_lossy(&changed.bytes).into_owned();
            let study = study::parse("file", text.as_bytes(), &descriptors()).map_err(|why| why.to_string())?;
            let factor = study.factors.iter().find(|factor| factor.key == "environment");
            let levels = factor.map(|factor| factor.levels.iter().map(ToString::to_string).collect::<Vec<_>>());
            let first = study.layout.ratio_to.get("environment").map(ToString::to_string);
            Ok::<_, String>((levels.unwrap_or_default().join(","), first.unwrap_or_default(), text))
        };
        for (text, places, levels, first) in [
            (STUDY, &["native", "sandbox"][..], "native,sandbox", "native"),
            (STUDY, &["sandbox"], "native,sandbox", "native"),
            (STUDY, &["native"], "native", ""),
            (STUDY, &["container", "sandbox"], "container,sandbox", "container"),
            (&format!("{STUDY}{ratio}"), &["container", "sandbox"], "container,sandbox", "container"),
            (&own, &["native", "volume", "ssh:host:24"], "native,volume,ssh", "native"),
        ] {
            let (found, against, text) = within(text, places, &[]).unwrap_or_else(|why| panic!("{places:?}: {why}"));
            assert_eq!((found.as_str(), against.as_str()), (levels, first), "{text}");
        }
        let (_, _, text) = within(&own, &["container:alpine", "ssh:host:24"], &[]).expect("it is a study");
        assert!(text.contains("[environments.container]\nimage = \"alpine\"\n"), "{text}");
        assert!(text.contains("[environments.ssh]\n") && text.contains("port = 24\n"), "{text}");
        let why = within(STUDY, &["sandbx"], &[]).expect_err("it is none");
        assert!(why.starts_with("--in sandbx: unknown; did you mean 'sandbox'?"), "{why}");
        let why = within(STUDY, &["native"], &["factors.environment=native"]).expect_err("both name them");
        assert!(why.contains("the environments are named twice"), "{why}");
    }

    fn varied(text: &str, vary: &[&str]) -> String {
        let source = Source::new("file".to_owned(), text.as_bytes().to_vec());
        let vary = vary.iter().map(|typed| (*typed).to_owned()).collect();
        let changed = applied(source, &Changes { vary, ..Changes::default() }, &Spending::default());
        String::from_utf8(changed.map_err(|refusal| refusal.message).expect("it is a study").bytes).expect("text")
    }

    /// They were taken out, and nobody said so.
    #[test]
    fn a_factor_that_somebody_asks_for_stays_where_no_environment_has_it() {
        let head = STUDY.replace("\"microvm\"]\n", "\"microvm\"]\nhost_backing = \"2m\"\n");
        let typed = varied(&head, &["count=1,2", "environment=native"]);
        assert!(typed.contains("count = [1, 2]\n") && !typed.contains("host_backing"), "{typed}");
        let later = varied(&head, &["environment=native", "factors.count=1,2"]);
        assert!(later.contains("count = [1, 2]\n"), "{later}");
        let counts = head.replace("host_backing = \"2m\"", "count = [1, 2]");
        for report in ["columns = \"count\"", "rows = \"count\"", "ratio_to = { count = 1 }"] {
            let shown = varied(&format!("{counts}[report]\n{report}\n"), &["environment=native"]);
            assert!(shown.contains("count = [1, 2]\n"), "{shown}");
        }
        assert!(!varied(&counts, &["environment=native"]).contains("count"));
    }

    #[test]
    fn what_is_taken_out_of_an_inline_table_leaves_the_others() {
        let (head, _) = STUDY.split_once("[factors]").expect("it has factors");
        for (factors, left) in [
            (
                r#"{ environment = ["native", "microvm"], host_backing = "2m", ranks = [1, 2] }"#,
                r#"{ environment = ["native", "container"], ranks = [1, 2] }"#,
            ),
            (
                r#"{ environment = ["native", "microvm"], ranks = [1, 2], host_backing = "2m" }"#,
                r#"{ environment = ["native", "container"], ranks = [1, 2] }"#,
            ),
        ] {
            let text = varied(&format!("factors = {factors}\n{head}"), &["environment=native,container"]);
            assert!(text.starts_with(&format!("factors = {left}\n")), "{text}");
        }
        // Where a key cannot be cut out alone, nothing is.
        let dotted = "a = { b.c = 1, d = 2 }\n";
        assert_eq!(without(dotted, &["a", "b", "c"].map(str::to_owned)), dotted);
    }

    /// It was refused as varied twice, once by its former name.
    #[test]
    fn a_key_that_a_study_has_by_a_former_name_is_changed_by_the_one_of_today() {
        let head = "[study]\ntitle = \"a\"\n[workload]\nkind = ";
        let factor = format!(
            "{head}\"start-up\"\n[factors]\nplace = [\"process\", \"microvm\"]\nat_once = [1, 4]\n\
             [report]\nrows = \"at_once\"\ncolumns = \"place\"\n"
        );
        let text = varied(&factor, &["server_environment=process"]);
        assert!(text.contains("\nserver_environment = [\"process\"]\n") && !text.contains("\nplace"), "{text}");
        let study = study::parse("file", text.as_bytes(), &descriptors());
        assert!(study.is_ok_and(|study| study.layout.columns == "server_environment"), "{text}");
        let text = varied(&format!("{head}\"sessions\"\ntime = \"3 s\"\n"), &["duration=1s,2s"]);
        assert!(text.contains("[factors]\nduration = [\"1s\", \"2s\"]\n") && !text.contains("time ="), "{text}");
    }

    #[test]
    fn a_key_of_several_sections_is_named_with_a_part_of_its_section() {
        let text = "\
[study]
title = \"a\"
[workload]
kind = [\"stream\", \"random-access\"]
[workload.stream]
page = \"2m\"
";
        let changed = |set: &str| {
            let source = Source::new("file".to_owned(), text.as_bytes().to_vec());
            let changes = Changes { set: vec![set.to_owned()], ..Changes::default() };
            applied(source, &changes, &Spending::default()).map_err(|refusal| refusal.message)
        };
        let text = |set: &str| {
            changed(set).map(|source| String::from_utf8_lossy(&source.bytes).into_owned()).unwrap_or_default()
        };
        assert!(text("random-access.table=8 MiB").contains("\n[workload.random-access]\ntable = \"8 MiB\"\n"));
        assert!(text("stream.page=4k").contains("[workload.stream]\npage = \"4k\"\n"));
        let why = changed("phase_limit=1").err().unwrap_or_default();
        assert!(why.contains("takes no such key"), "{why}");
        let both = applied(
            shipped(&SHIPPED[0]),
            &Changes { set: vec!["page=4k".to_owned()], ..Changes::default() },
            &Spending::default(),
        );
        let why = both.err().map(|refusal| refusal.message).unwrap_or_default();
        assert!(why.starts_with("--set page: several sections take it; write "), "{why}");
        assert!(why.contains("workload.stream.page") && why.contains("factors.page"), "{why}");
    }

    /// A factor of the standard study that STREAM holds at one level.
    #[test]
    fn what_one_of_several_workloads_holds_stays_when_a_factor_is_varied() {
        let changes = Changes { vary: vec!["factors.page=4k".to_owned()], ..Changes::default() };
        let changed = applied(shipped(&SHIPPED[0]), &changes, &Spending::default());
        let text = changed.map(|source| String::from_utf8_lossy(&source.bytes).into_owned()).unwrap_or_default();
        let study = study::parse("standard", text.as_bytes(), &descriptors()).map(|study| study.factors);
        let levels = study.map(|factors| factors.into_iter().find(|of| of.key == "page").map(|of| of.levels.len()));
        assert!(levels.is_ok_and(|levels| levels == Some(1)), "{text}");
        assert!(text.contains("metric = \"triad_mb_per_s\"\npage = \"2m\"\n"), "{text}");
    }

    #[test]
    fn what_is_wrong_names_the_key_and_what_would_be_right() {
        let wrong = |set: &str| changed(&[set], &[], &Spending::default()).err().unwrap_or_default();
        assert!(
            wrong("kernal=copy").starts_with("--set kernal: this study takes no such key; did you mean"),
            "{}",
            wrong("kernal=copy")
        );
        assert!(wrong("kernel").contains("expected KEY=VALUE"), "{}", wrong("kernel"));
        let by = Spending { by: Some("speed".to_owned()), ..Spending::default() };
        let why = changed(&[], &[], &by).err().unwrap_or_default();
        assert!(why.starts_with("--by speed: stream has no such metric; "), "{why}");
    }

    #[test]
    fn a_run_of_a_changed_study_is_stored_under_its_name_without_values() {
        let source = Source::new("/srv/mine.toml".to_owned(), STUDY.as_bytes().to_vec());
        let changes = Changes { set: vec!["title=secret".to_owned()], ..Changes::default() };
        let changed = applied(source, &changes, &Spending::default()).map(|source| source.stored_name());
        assert_eq!(changed.ok().as_deref(), Some("/srv/mine.toml (changed)"));
    }

    #[test]
    fn a_precision_brings_the_smallest_difference_of_interest_with_it() {
        let spending = Spending { precision: Some(Share(0.06)), ..Spending::default() };
        let text = changed(&["design.delta=10 %"], &[], &spending).unwrap_or_default();
        assert!(text.contains("delta = \"12 %\"\n") && text.contains("precision = \"6 %\"\n"), "{text}");
    }

    #[test]
    fn the_metric_of_the_comparison_is_not_among_the_others() {
        let text = STUDY.to_owned() + "\n[report]\nalso = \"triad_mb_per_s, copy_mb_per_s\"\n";
        let source = Source::new("file".to_owned(), text.into_bytes());
        let by = Spending { by: Some("copy_mb_per_s".to_owned()), ..Spending::default() };
        let changed = applied(source, &Changes::default(), &by).map(|source| (source.name, source.bytes)).ok();
        let (name, text) = changed.unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        assert!(text.ends_with("[report]\nmetric = \"copy_mb_per_s\"\nalso = [\"triad_mb_per_s\"]\n"), "{text}");
        assert_eq!(name, "file");
    }

    #[test]
    fn values_are_typed_as_toml_reads_them_else_they_are_text() {
        let values =
            [("3", "3"), ("true", "true"), ("[1, 2]", "[1, 2]"), ("1 GiB", "\"1 GiB\""), ("a\"b", "\"a\\\"b\"")];
        values.iter().for_each(|(typed, value)| assert_eq!(typed_value(typed), *value, "{typed}"));
        assert!(!typed_value("1\nb = 2").contains("\nb = 2\n"));
    }

    #[test]
    fn ranges_have_a_step_and_an_end() {
        assert_eq!(range("2..8..3"), Ok(Some(vec![2, 5, 8])));
        assert_eq!(range("2..3"), Ok(Some(vec![2, 3])));
        assert_eq!(range("a,b"), Ok(None));
        assert_eq!(range("../old,../new"), Ok(None), "paths");
        for wrong in ["8..2", "1..2..0", "1..300", "a..b", "1..2..3..4", "1.."] {
            assert!(range(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn text_that_is_no_study_is_left_alone() {
        assert_eq!(without("not = [", &["not".to_owned()]), "not = [");
        assert_eq!(put("a = 1", &[], "2"), "a = 1");
    }
}
