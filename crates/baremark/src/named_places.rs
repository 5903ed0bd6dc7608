//! Environments as `--in` names them, for a program or a study.

use crate::exit::Refusal;
use baremark_model::environments::{self, EnvironmentKind, Given, Short};
use baremark_model::literal::whole;
use baremark_model::problem::near;
use baremark_model::study::Study;
use baremark_model::value::Value;
use toml::Table;

/// The heading of options about environments in help.
pub const HEADING: &str = "Environments";

/// One environment.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its name in the study.
    pub name: String,
    kind: &'static EnvironmentKind,
    /// The settings that its short form has.
    settings: Given,
}

/// The environments that can be typed.
fn typeable() -> impl Iterator<Item = (&'static EnvironmentKind, Short)> {
    environments::ALL.iter().filter_map(|kind| Some((*kind, kind.short?)))
}

/// What can be typed.
fn forms() -> String {
    let mut all: Vec<String> = typeable().map(|(kind, short)| format!("{}{}", kind.name, short.form)).collect();
    let last = all.pop().unwrap_or_default();
    format!("{} or {last}", all.join(", "))
}

/// What `--help` says of `--in`.
pub fn help() -> String {
    let all: Vec<String> = typeable().map(|(kind, short)| format!("{}{}", kind.name, short.form)).collect();
    format!("Environments to run in: {}", all.join(", "))
}

/// The environments of a list, with the image of pods, where one is given.
pub fn places(typed: &[String], image: Option<&str>) -> Result<Vec<Place>, Refusal> {
    let mut places: Vec<Place> = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for text in typed {
        if seen.contains(&text.as_str()) {
            return Err(Refusal::bad_input(format!("{text} is named twice; name each environment once")));
        }
        seen.push(text);
        let (kind, settings) = one(text, image).map_err(|why| Refusal::bad_input(format!("--in {text}: {why}")))?;
        let alike = places.iter().filter(|place| place.kind.name == kind.name).count();
        let own =
            kind.short.and_then(|short| short.named_by).and_then(|key| settings.iter().find(|(of, _)| *of == key));
        let name = match own {
            Some((_, value)) => value.to_string(),
            None if alike == 0 => kind.name.to_owned(),
            None => format!("{}-{}", kind.name, alike + 1),
        };
        places.push(Place { name, kind, settings });
    }
    let takes_image = |place: &Place| place.kind.short.is_some_and(|short| short.image.is_some());
    match image {
        Some(image) if !places.iter().any(takes_image) => Err(Refusal::bad_input(format!(
            "--image {image}: it is the image of pods; add --in kubernetes, or write container:{image}"
        ))),
        _ => Ok(places),
    }
}

/// The environments of a list for a study, which may name its own, and what `[environments.NAME]` gets of each.
pub fn of_study(typed: &[String], study: &Study) -> Result<Vec<(String, Table)>, Refusal> {
    let is_own = |text: &&String| study.environments.contains_key(*text);
    let others: Vec<String> = typed.iter().filter(|text| !is_own(text)).cloned().collect();
    let mut others = places(&others, None)?.into_iter().map(|place| (place.name.clone(), place.settings()));
    let named = typed.iter().map(|text| if is_own(&text) { Some((text.clone(), Table::new())) } else { others.next() });
    Ok(named.flatten().collect())
}

/// The environment that a word names, and the settings that it has.
fn one(text: &str, image: Option<&str>) -> Result<(&'static EnvironmentKind, Given), String> {
    let (word, target) = text.split_once(':').map_or((text, None), |(word, target)| (word, Some(target)));
    let Some((kind, short)) = typeable().find(|(kind, _)| kind.name == word) else {
        let kinds: Vec<&str> = typeable().map(|(kind, _)| kind.name).collect();
        return Err(match near(word, &kinds) {
            Some(near) => format!("unknown; did you mean '{near}'?"),
            None => format!("unknown; write {}", forms()),
        });
    };
    let named = target.filter(|target| !target.is_empty());
    if named.is_some() && !short.takes_target() {
        return Err(format!("{word} takes nothing after a colon"));
    }
    if named.is_none() && !short.needs.is_empty() {
        return Err(format!("{word} needs {}; write {}", short.needs, forms()));
    }
    let mut settings = (short.settings)(named)?;
    let image = short.image.map(|usual| Value::Text(image.unwrap_or(usual).to_owned()));
    settings.extend(image.map(|image| ("image", image)));
    Ok((kind, settings))
}

impl Place {
    /// Whether programs that run there see other files than this machine's.
    pub fn is_another_machine(&self) -> bool {
        !self.kind.can.host_files
    }

    /// Whether it has this machine's files, and folders of its own in the place of some.
    pub fn hides_files(&self) -> bool {
        self.kind.can.host_files && self.kind.can.separates_programs()
    }

    /// What `[environments.NAME]` says of it.
    pub fn settings(&self) -> Table {
        let like = (self.name != self.kind.name).then(|| (environments::LIKE.key, self.kind.name.into()));
        let typed = self.settings.iter().map(|(key, value)| match value {
            Value::Count(count) => (*key, whole(*count)),
            Value::Switch(on) => (*key, (*on).into()),
            other => (*key, other.to_string().into()),
        });
        like.into_iter().chain(typed).map(|(key, value)| (key.to_owned(), value)).collect()
    }
}
