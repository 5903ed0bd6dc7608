//! Environments as they are typed for a program, and the files that it needs in those that are not this machine.

use crate::exit::Refusal;
use baremark_model::environments::{self, EnvironmentKind, Given, Short};
use baremark_model::literal::whole;
use baremark_model::problem::near;
use baremark_model::value::Value;
use baremark_programs::executable;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use toml::Table;

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

/// The files that programs with these words need, and those that are named besides, by their absolute paths.
pub fn files(commands: &[Vec<String>], with: &[PathBuf], folder: &str) -> Result<Vec<String>, Refusal> {
    let folder = Path::new(folder);
    let path = baremark_programs::workshop::search_path();
    let mut files: BTreeSet<PathBuf> = BTreeSet::new();
    for words in commands {
        if let Some(program) = words.first().filter(|name| !name.is_empty() && !name.contains('{')) {
            let found = executable::located(program, folder, &path).and_then(|file| executable::files(&file, &path));
            files.extend(found.map_err(Refusal::bad_input)?);
        }
        files.extend(executable::named(words.get(1..).unwrap_or_default(), folder));
    }
    for named in with {
        files.extend(
            executable::within(&folder.join(named)).map_err(|why| Refusal::bad_input(format!("--with {why}")))?,
        );
    }
    let text = |file: PathBuf| {
        let unnamed =
            |file: std::ffi::OsString| Refusal::bad_input(format!("{}: not UTF-8; rename it", file.to_string_lossy()));
        file.into_os_string().into_string().map_err(unnamed)
    };
    files.into_iter().map(text).collect()
}
