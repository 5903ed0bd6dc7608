//! No cycles among the modules of a crate.
//!
//! A module is a file. It depends on another where one of its paths (`use`, or a path in its code) leads there; a name that
//! is passed on by `pub use` leads to where it is defined. Tests do not count, nor does a declaration `mod child;`, nor that
//! a module passes on names of its own children: a child may use its parent, or a parent its child, but not both.

use crate::source;
use crate::tokens::{close, of_product};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A module's path inside its crate, `[]` for its root.
type Name = Vec<String>;

/// A path in the code and, of an import, the name that it gives.
struct Mention {
    path: Vec<String>,
    /// `None` of a path outside of imports.
    gives: Option<String>,
    public: bool,
}

struct Module {
    children: BTreeSet<String>,
    mentions: Vec<Mention>,
}

type Crate = BTreeMap<Name, Module>;

fn is_name(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
}

/// The paths of one `use`, of which `words` are those up to its semicolon.
fn imports(words: &[String], before: &[String], public: bool, into: &mut Vec<Mention>) {
    let mut path = before.to_vec();
    let mut at = 0;
    while at < words.len() {
        match words[at].as_str() {
            "{" => {
                let inner = &words[at + 1..close(words, at)];
                let mut depth = 0_usize;
                let part = inner.split(|word| {
                    depth = depth + usize::from(word == "{") - usize::from(word == "}");
                    depth == 0 && word == ","
                });
                return part.filter(|part| !part.is_empty()).for_each(|part| imports(part, &path, public, into));
            }
            "as" => return into.push(Mention { path, gives: words.get(at + 1).cloned(), public }),
            "::" => {}
            name => path.push(name.to_owned()),
        }
        at += 1;
    }
    if path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    let gives = path.last().cloned();
    into.push(Mention { path, gives, public });
}

fn module(words: &[String]) -> Module {
    let mut module = Module { children: BTreeSet::new(), mentions: Vec::new() };
    let mut at = 0;
    while at < words.len() {
        let next = |ahead: usize| words.get(at + ahead).map_or("", String::as_str);
        match words[at].as_str() {
            "mod" if next(2) == ";" => {
                module.children.insert(next(1).to_owned());
                at += 3;
            }
            "use" => {
                let end = words[at..].iter().position(|word| word == ";").map_or(words.len(), |length| at + length);
                let public = at > 0 && matches!(words[at - 1].as_str(), "pub" | ")");
                imports(&words[at + 1..end], &[], public, &mut module.mentions);
                at = end;
            }
            first if is_name(first) && next(1) == "::" && (at == 0 || words[at - 1] != "::") => {
                let mut path = vec![first.to_owned()];
                while words.get(at + 1).is_some_and(|word| word == "::")
                    && words.get(at + 2).is_some_and(|word| is_name(word))
                {
                    path.push(words[at + 2].clone());
                    at += 2;
                }
                module.mentions.push(Mention { path, gives: None, public: false });
                at += 1;
            }
            _ => at += 1,
        }
    }
    module
}

/// Reads a module and those below it. `folder` is where its children lie.
fn read(file: &Path, folder: &Path, name: &Name, into: &mut Crate) {
    let module = module(&of_product(file));
    for child in &module.children {
        let below = folder.join(child);
        let files = [folder.join(format!("{child}.rs")), below.join("mod.rs")];
        let name: Name = name.iter().chain([child]).cloned().collect();
        if let Some(file) = files.iter().find(|file| file.exists()) {
            read(file, &below, &name, into);
        }
    }
    into.insert(name.clone(), module);
}

/// Names are passed on by so many modules at most.
const DEEPEST: usize = 6;

/// The module to which `path` leads from `from`; `None` for what is no module of this crate.
fn resolve(modules: &Crate, from: &Name, path: &[String], depth: usize) -> Option<Name> {
    let first = path.first()?.as_str();
    let (mut at, mut rest) = match first {
        "crate" => (Name::new(), &path[1..]),
        "self" => (from.clone(), &path[1..]),
        "super" => {
            let up = path.iter().take_while(|word| *word == "super").count();
            (from[..from.len().checked_sub(up)?].to_vec(), &path[up..])
        }
        _ if modules[from].children.contains(first) => (from.clone(), path),
        // A name that an import of this module gives.
        _ if depth < DEEPEST && path.len() > 1 => {
            let given = |mention: &&Mention| mention.gives.as_deref() == Some(first) && mention.path != path;
            let import = modules[from].mentions.iter().find(given)?;
            let path: Vec<String> = import.path.iter().chain(&path[1..]).cloned().collect();
            return resolve(modules, from, &path, depth + 1);
        }
        _ => return None,
    };
    while let Some(next) = rest.first() {
        let below: Name = at.iter().chain([next]).cloned().collect();
        if !modules.contains_key(&below) {
            break;
        }
        (at, rest) = (below, &rest[1..]);
    }
    let passed_on = |mention: &&Mention| mention.public && mention.gives.as_ref() == rest.first();
    if at != *from
        && depth < DEEPEST
        && !rest.is_empty()
        && let Some(import) = modules.get(&at)?.mentions.iter().find(passed_on)
    {
        let path: Vec<String> = import.path.iter().chain(&rest[1..]).cloned().collect();
        return resolve(modules, &at, &path, depth + 1).or(Some(at));
    }
    modules.contains_key(&at).then_some(at)
}

/// The modules that each module uses, with a path that leads there.
fn uses(modules: &Crate) -> BTreeMap<&Name, BTreeMap<Name, String>> {
    let of_module = |(name, module): (&Name, &Module)| {
        let mut used = BTreeMap::new();
        for mention in &module.mentions {
            let Some(target) = resolve(modules, name, &mention.path, 0) else { continue };
            let own_child = mention.public && target.starts_with(name);
            if target != *name && !own_child {
                used.entry(target).or_insert_with(|| mention.path.join("::"));
            }
        }
        used
    };
    modules.iter().map(|entry| (entry.0, of_module(entry))).collect()
}

/// Every set of modules in which each leads to each, of more than one.
fn cycles(uses: &BTreeMap<&Name, BTreeMap<Name, String>>) -> Vec<BTreeSet<Name>> {
    let reach = |from: &Name| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(name) = open.pop() {
            open.extend(uses[&name].keys().filter(|next| seen.insert((*next).clone())).cloned());
        }
        seen
    };
    let reached: BTreeMap<Name, BTreeSet<Name>> = uses.keys().map(|name| ((*name).clone(), reach(name))).collect();
    let mut found: Vec<BTreeSet<Name>> = Vec::new();
    for (name, to) in &reached {
        let knot: BTreeSet<Name> = to.iter().filter(|other| reached[*other].contains(name)).cloned().collect();
        if knot.len() > 1 && !found.contains(&knot) {
            found.push(knot);
        }
    }
    found
}

fn label(name: &Name) -> String {
    if name.is_empty() { "crate".to_owned() } else { name.join("::") }
}

/// The cycles of a crate, each as its modules and the paths that make it.
fn found_in(folder: &Path) -> Vec<(Vec<String>, String)> {
    let mut modules = Crate::new();
    let root = ["lib.rs", "main.rs"].map(|root| folder.join(root)).into_iter().find(|root| root.exists()).unwrap();
    read(&root, folder, &Name::new(), &mut modules);
    let uses = uses(&modules);
    let in_words = |knot: &BTreeSet<Name>| {
        let inside = |name: &Name| uses[name].iter().filter(|(to, _)| knot.contains(*to)).collect::<Vec<_>>();
        let lines = knot.iter().flat_map(|name| inside(name).into_iter().map(move |to| (name, to)));
        lines.map(|(from, (to, path))| format!("  {} -> {} by {path}\n", label(from), label(to))).collect::<String>()
    };
    cycles(&uses).iter().map(|knot| (knot.iter().map(label).collect(), in_words(knot))).collect()
}

#[test]
fn modules_of_a_crate_have_no_cycles() {
    let mut wrong = String::new();
    for (name, folder) in source::crates() {
        for (knot, lines) in found_in(&folder) {
            wrong += &format!(
                "{name}: {} need each other; move what both need into a module of its own\n{lines}",
                knot.join(" ")
            );
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// A crate of these files, and its cycles.
fn cycles_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    found_in(folder.path()).into_iter().map(|(knot, _)| knot).collect()
}

#[test]
fn a_cycle_is_found_by_every_form_of_a_path() {
    let root = ("lib.rs", "mod a; mod b; mod c;");
    let b = ("b.rs", "pub struct B; use crate::c::{self, C as D};");
    let c = |text| ("c.rs", text);
    let knot = [["a", "b", "c"]];
    let of = |a: &'static str, text| cycles_of(&[root, ("a.rs", a), b, c(text)]);
    assert_eq!(of("use super::b::B;", "use crate::a;"), knot);
    assert_eq!(of("fn f() -> crate::b::B { todo!() }", "fn f() { super::a::f() }"), knot);
    assert_eq!(of("use crate::{b::{B}, c};", "use crate::{a as x}; fn f() { x::f() }"), knot);
    assert_eq!(of("fn f() {}", "use crate::a; // crate::b::B"), Vec::<Vec<String>>::new());
    assert_eq!(
        of("use crate::b::B;", "#[cfg(test)] mod tests { use crate::a; } fn f() { \"crate::a::f\" }"),
        Vec::<Vec<String>>::new()
    );
}

#[test]
fn a_parent_and_its_child_are_one_cycle_only_if_both_use_each_other() {
    let child = ("a/child.rs", "use super::Own; pub struct Child;");
    let of = |a: &'static str| {
        cycles_of(&[("lib.rs", "mod a; mod b;"), ("a.rs", a), child, ("b.rs", "use crate::a::Child;")])
    };
    assert_eq!(of("mod child; pub struct Own;"), Vec::<Vec<String>>::new());
    assert_eq!(of("mod child; pub use child::Child; pub struct Own;"), Vec::<Vec<String>>::new());
    assert_eq!(of("mod child; pub struct Own; fn f() { child::f() }"), [["a", "a::child"]]);
    let passed_on = ("a.rs", "mod child; pub use child::Child; use crate::b; pub struct Own;");
    let through = cycles_of(&[("lib.rs", "mod a; mod b;"), passed_on, child, ("b.rs", "use crate::a::Child;")]);
    assert_eq!(through, [["a", "a::child", "b"]]);
}
