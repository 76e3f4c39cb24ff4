//! The rooms of the house stay apart: what `src/lib.rs` says of dependencies is true of every file.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use doclock::DEPENDENCIES;

struct Source {
    /// Below `src/`.
    path: PathBuf,
    /// Without comments.
    code: String,
}

impl Source {
    /// The module of the list that it belongs to, such as `live` for `live/socket/mod.rs` and `time::clock` for
    /// `time/clock.rs`.
    fn module(&self) -> String {
        let path = self.path.with_extension("");
        let names: Vec<_> = path.components().map(|name| name.as_os_str().to_string_lossy().into_owned()).collect();
        room(&names)
    }

    /// How many steps up lead from its own module to the root.
    fn depth(&self) -> usize {
        let folders = self.path.components().count() - 1;
        folders + usize::from(self.path.file_stem().unwrap() != "mod")
    }

    /// The modules of the list that it names.
    fn imports(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for (position, _) in self.code.match_indices("crate::") {
            found.extend(paths(&self.code[position + "crate::".len()..]).iter().map(|path| room(path)));
        }
        for (position, _) in self.code.match_indices("super::") {
            let chain = &self.code[position..];
            let steps = chain.len() - chain.trim_start_matches("super::").len();
            let (up, rest) = (steps / "super::".len(), paths(&chain[steps..]));
            let is_in_time = self.path.starts_with("time") && self.depth() == 2;
            if up >= self.depth() {
                found.extend(rest.iter().map(|path| room(path)));
            } else if is_in_time && up == 1 {
                found.extend(rest.iter().filter_map(|path| Some(format!("time::{}", path.first()?))));
            }
        }
        found
    }
}

/// The module of the list that a path leads into.
fn room(path: &[String]) -> String {
    match path {
        [first, second, ..] if first == "time" => format!("time::{second}"),
        [first, ..] => first.clone(),
        [] => String::new(),
    }
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let code = text.lines().map(|line| line.split("//").next().unwrap()).collect::<Vec<_>>().join("\n");
                found.push(Source { path: path.strip_prefix(&root).unwrap().to_owned(), code });
            }
        }
    }
    assert!(found.len() > 50);
    found
}

/// The first two names of a path, or of each path of a group: `a::x`, `b::c` and `b::d` of `{a::x::y, b::{c, d}}`.
fn paths(text: &str) -> Vec<Vec<String>> {
    let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    let Some(group) = text.strip_prefix('{') else {
        let end = text.find(|letter| !is_name(letter)).unwrap_or(text.len());
        let rest = text[end..].strip_prefix("::").map(paths).unwrap_or_default();
        let with = |rest: Vec<String>| [text[..end].to_owned()].into_iter().chain(rest).take(2).collect();
        return if rest.is_empty() { vec![with(Vec::new())] } else { rest.into_iter().map(with).collect() };
    };
    let (mut depth, mut found, mut start) = (0, Vec::new(), 0);
    for (position, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            '}' | ',' if depth == 0 => {
                found.extend(paths(group[start..position].trim()));
                start = position + 1;
                if letter == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    found
}

fn allowed(module: &str) -> Option<&'static [&'static str]> {
    DEPENDENCIES.iter().find(|(name, _)| *name == module).map(|(_, others)| *others)
}

#[test]
fn modules_import_only_what_the_list_allows() {
    let modules: BTreeSet<_> = DEPENDENCIES.iter().map(|(name, _)| *name).chain(["app"]).collect();
    let mut wrong = Vec::new();
    for source in sources() {
        let module = source.module();
        if ["lib", "main", "cli", "app", "time::mod"].contains(&module.as_str()) {
            continue;
        }
        let allowed = allowed(&module).unwrap_or_else(|| panic!("{module} is not in the list of src/lib.rs"));
        let imports = source.imports();
        let others = imports.iter().filter(|other| **other != module && modules.contains(other.as_str()));
        let forbidden = others.filter(|other| !allowed.contains(&other.as_str()));
        wrong.extend(forbidden.map(|other| format!("{} imports {other}", source.path.display())));
    }
    assert!(wrong.is_empty(), "not in the list of src/lib.rs: {wrong:#?}");
}

#[test]
fn the_list_has_no_circle() {
    let mut left: BTreeMap<_, BTreeSet<_>> =
        DEPENDENCIES.iter().map(|(name, others)| (*name, others.iter().copied().collect())).collect();
    while !left.is_empty() {
        let free: Vec<_> = left.iter().filter(|(_, others)| others.is_empty()).map(|(name, _)| *name).collect();
        assert!(!free.is_empty(), "a circle among {left:#?}");
        left.retain(|name, _| !free.contains(name));
        for others in left.values_mut() {
            others.retain(|other| !free.contains(other));
        }
    }
}

#[test]
fn calls_and_live_name_no_type_of_the_http_server() {
    for source in sources().iter().filter(|source| ["calls", "live"].contains(&source.module().as_str())) {
        assert!(!source.code.contains("actix"), "{}", source.path.display());
    }
}

/// Each table's entity is called `Model`, and its relations `Relation`, by sea-orm. Each home of storage has its `Writer`.
#[test]
fn no_two_public_types_share_a_name() {
    let mut homes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in sources().iter().filter(|source| !source.path.ends_with("storage/entities.rs")) {
        for line in source.code.lines() {
            let mut words = line.split_whitespace();
            let is_public = words.next().is_some_and(|word| word == "pub");
            if is_public && words.next().is_some_and(|word| ["struct", "enum", "trait", "type"].contains(&word)) {
                let name = words.next().unwrap().split(|letter: char| !letter.is_alphanumeric()).next().unwrap();
                homes.entry(name.to_owned()).or_default().push(source.path.display().to_string());
            }
        }
    }
    homes.retain(|name, homes| homes.len() > 1 && name != "Writer");
    assert!(homes.is_empty(), "{homes:#?}");
}

#[test]
fn a_path_is_found_however_it_is_written() {
    let code = "use crate::{auth::{Caller, Role}, calls::Problem, storage};\nfn f(x: crate::locking::Lock) {}\n\
                pub(in crate::live) fn g() {}\nuse super::super::http::Api;\n\
                use crate::time::{clock::{Clock, ManualClock}, liveness::Life};";
    let source = Source { path: "live/hub.rs".into(), code: code.to_owned() };
    let expected = ["auth", "calls", "storage", "locking", "live", "http", "time::clock", "time::liveness"];
    assert_eq!(source.imports(), expected.map(str::to_owned).into());
    let source = Source { path: "time/expiry.rs".into(), code: "use super::{clock::Clock, liveness};".to_owned() };
    assert_eq!(source.imports(), ["time::clock", "time::liveness"].map(str::to_owned).into());
}
