//! Environments as they are typed for a program, and the files that it needs in those that are not this machine.

use baremark_model::environments;
use baremark_model::literal::quoted;
use baremark_model::problem::nearest;
use baremark_programs::executable;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What can be typed.
const FORMS: &str =
    "native, microvm, sandbox, container[:IMAGE], qemu[:KERNEL], ssh:HOST[:PORT] or kubernetes[:CONTEXT/NAMESPACE]";
/// The image of pods where none is given: it has the shell and the programs that a pod needs, and nothing else.
const POD_IMAGE: &str = "docker.io/library/busybox:stable";

/// One environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its name in the study.
    pub name: String,
    kind: &'static str,
    target: Option<String>,
    /// Of pods.
    image: String,
}

/// The environments of a list, with the image of pods, where one is given.
pub fn places(typed: &[String], image: Option<&str>) -> Result<Vec<Place>, String> {
    let mut places: Vec<Place> = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for text in typed {
        if seen.contains(&text.as_str()) {
            return Err(format!("{text} is named twice; name each environment once"));
        }
        seen.push(text);
        let (word, target) = text.split_once(':').map_or((text.as_str(), None), |(word, target)| (word, Some(target)));
        let kinds = ["native", "microvm", "sandbox", "container", "qemu", "ssh", KUBERNETES];
        let kind = kinds.into_iter().find(|kind| *kind == word).ok_or_else(|| match nearest(word, &kinds) {
            near if near.starts_with("did you mean") => format!("--in {text}: unknown; {near}"),
            _ => format!("--in {text}: unknown; write {FORMS}"),
        })?;
        match (kind, target.filter(|target| !target.is_empty())) {
            ("ssh", None) => return Err(format!("--in {text}: ssh needs a host; write {FORMS}")),
            (KUBERNETES, Some(target)) => {
                context_and_namespace(target).map_err(|why| format!("--in {text}: {why}"))?;
            }
            ("native" | "microvm" | "sandbox", Some(_)) => {
                return Err(format!("--in {text}: {kind} takes nothing after a colon"));
            }
            _ => {}
        }
        let alike = places.iter().filter(|place| place.kind == kind).count();
        let name = if alike == 0 { kind.to_owned() } else { format!("{kind}-{}", alike + 1) };
        let image = image.unwrap_or(POD_IMAGE).to_owned();
        places.push(Place { name, kind, target: target.map(str::to_owned), image });
    }
    match image {
        Some(image) if !places.iter().any(|place| place.kind == KUBERNETES) => {
            Err(format!("--image {image}: it is the image of pods; add --in kubernetes, or write container:{image}"))
        }
        _ => Ok(places),
    }
}

const KUBERNETES: &str = "kubernetes";

/// The two parts of a target of kubectl, of which one may be empty. A context may have slashes in its name, as those of EKS do; a namespace has
/// none.
fn context_and_namespace(target: &str) -> Result<(&str, &str), String> {
    let split = target.rsplit_once('/');
    split.ok_or_else(|| {
        format!(
            "'{target}' names no namespace; write kubernetes:{target}/NAMESPACE, or /NAMESPACE for the current context"
        )
    })
}

impl Place {
    /// Whether programs that run there see other files than this machine's.
    pub fn is_another_machine(&self) -> bool {
        !environments::can(self.kind).host_files
    }

    /// Whether it has this machine's files, and folders of its own in the place of some.
    pub fn hides_files(&self) -> bool {
        environments::can(self.kind).host_files && environments::can(self.kind).separates_programs()
    }

    /// What `[environments.NAME]` says of it: keys and values as TOML.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let mut settings = Vec::new();
        if self.name != self.kind {
            settings.push(("like", quoted(self.kind)));
        }
        match (self.kind, &self.target) {
            ("container", Some(image)) => settings.push(("image", quoted(image))),
            ("qemu", Some(kernel)) => settings.push(("kernel", quoted(kernel))),
            (KUBERNETES, target) => {
                let target = target.as_deref().and_then(|target| context_and_namespace(target).ok());
                let (context, namespace) = target.unwrap_or_default();
                let named = [("context", context), ("namespace", namespace), ("image", &self.image), ("fresh", "run")];
                settings.extend(
                    named.into_iter().filter(|(_, value)| !value.is_empty()).map(|(key, value)| (key, quoted(value))),
                );
            }
            ("ssh", Some(target)) => {
                let port = target.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
                settings.push(("host", quoted(port.map_or(target.as_str(), |(host, _)| host))));
                settings.extend(port.map(|(_, port)| ("port", port.to_string())));
            }
            _ => {}
        }
        settings
    }
}

/// The files that programs with these words need, and those that are named besides, by their absolute paths.
pub fn files(commands: &[Vec<String>], with: &[PathBuf], folder: &str) -> Result<Vec<String>, String> {
    let folder = Path::new(folder);
    let path = baremark_programs::workshop::search_path();
    let mut files: BTreeSet<PathBuf> = BTreeSet::new();
    for words in commands {
        if let Some(program) = words.first().filter(|name| !name.is_empty() && !name.contains('{')) {
            files.extend(executable::files(&executable::located(program, folder, &path)?, &path)?);
        }
        files.extend(executable::named(words.get(1..).unwrap_or_default(), folder));
    }
    for named in with {
        files.extend(executable::within(&folder.join(named)).map_err(|why| format!("--with {why}"))?);
    }
    let text = |file: PathBuf| {
        file.into_os_string().into_string().map_err(|file| format!("{}: not UTF-8; rename it", file.to_string_lossy()))
    };
    files.into_iter().map(text).collect()
}
