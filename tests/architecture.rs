//! The rooms of the house stay apart: what `src/lib.rs` says of dependencies is true of every file.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use doclock::{DEPENDENCIES, KNOWN_CIRCLE};

struct Source {
    /// Below `src/`.
    path: PathBuf,
    /// Without comments.
    code: String,
}

impl Source {
    /// The module of the crate's root that it belongs to, such as `live` for `live/socket/mod.rs`.
    fn module(&self) -> String {
        let first = self.path.components().next().unwrap();
        Path::new(first.as_os_str()).file_stem().unwrap().to_string_lossy().into_owned()
    }

    /// How many steps up lead from its own module to the root.
    fn depth(&self) -> usize {
        let folders = self.path.components().count() - 1;
        folders + usize::from(self.path.file_stem().unwrap() != "mod")
    }

    /// The modules of the root that it names.
    fn imports(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for (position, _) in self.code.match_indices("crate::") {
            heads(&self.code[position + "crate::".len()..], &mut found);
        }
        for (position, _) in self.code.match_indices("super::") {
            let chain = &self.code[position..];
            let steps = chain.len() - chain.trim_start_matches("super::").len();
            if steps / "super::".len() >= self.depth() {
                heads(&chain[steps..], &mut found);
            }
        }
        found
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

/// The first names of a path or of a group of paths: `a` and `b` of `{a::x, b::{c, d}}`.
fn heads(path: &str, found: &mut BTreeSet<String>) {
    let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    let Some(group) = path.strip_prefix('{') else {
        found.insert(path.chars().take_while(|letter| is_name(*letter)).collect());
        return;
    };
    let (mut depth, mut name, mut is_head) = (0, String::new(), true);
    for letter in group.chars() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                found.insert(std::mem::take(&mut name));
                is_head = true;
            }
            ':' if depth == 0 => is_head = false,
            letter if depth == 0 && is_head && is_name(letter) => name.push(letter),
            _ => {}
        }
    }
    found.insert(name);
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
        if ["lib", "main", "cli", "app"].contains(&module.as_str()) {
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
fn the_list_has_no_circle_but_the_known_one() {
    let mut left: BTreeMap<_, BTreeSet<_>> =
        DEPENDENCIES.iter().map(|(name, others)| (*name, others.iter().copied().collect())).collect();
    assert!(left.get_mut(KNOWN_CIRCLE.0).unwrap().remove(KNOWN_CIRCLE.1));
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
                pub(in crate::live) fn g() {}\nuse super::super::http::Api;";
    let source = Source { path: "live/hub.rs".into(), code: code.to_owned() };
    let expected = ["auth", "calls", "storage", "locking", "live", "http"];
    assert_eq!(source.imports(), expected.map(str::to_owned).into());
}
