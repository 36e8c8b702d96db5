//! The folders of the engine are the stages of a path, and imports point one way along it: none leads back.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

type Imports = BTreeMap<String, BTreeSet<String>>;

#[test]
fn no_folder_imports_what_imports_it() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut imports = Imports::new();
    let folders: Vec<_> = fs::read_dir(&source).unwrap().map(|entry| entry.unwrap().path()).collect();
    for path in folders.iter().filter(|path| !path.ends_with("lib.rs")) {
        let folder = path.file_stem().unwrap().to_str().unwrap().to_owned();
        read(path, imports.entry(folder).or_default());
    }
    assert!(imports.len() > 15 && imports["session"].contains("place"), "{imports:?}");
    // What imports nothing that is left goes first, until only circles are there.
    while let Some(folder) =
        imports.iter().find(|(name, of)| !of.iter().any(|of| of != *name && imports.contains_key(of)))
    {
        let folder = folder.0.clone();
        imports.remove(&folder);
    }
    imports.iter_mut().for_each(|(name, of)| {
        of.remove(name);
    });
    assert!(imports.is_empty(), "these import each other, in a circle: {imports:?}");
}

/// What the files below `path` import, but for tests.
fn read(path: &Path, imports: &mut BTreeSet<String>) {
    if path.is_dir() {
        let inside = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        return inside.filter(|path| !path.ends_with("tests")).for_each(|path| read(&path, imports));
    }
    if path.ends_with("tests.rs") || path.ends_with("in_memory.rs") {
        return;
    }
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let code = lines.split("\nmod tests {").next().unwrap();
    for (at, _) in code.match_indices("crate::") {
        let path = &code[at + "crate::".len()..];
        match path.strip_prefix('{') {
            Some(group) => first_names(group, imports),
            None => drop(imports.insert(word(path))),
        }
    }
}

/// The first name of each path of `use crate::{…}`.
fn first_names(group: &str, imports: &mut BTreeSet<String>) {
    let mut depth = 0;
    let mut begins = true;
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => return,
            '}' => depth -= 1,
            ',' if depth == 0 => begins = true,
            _ if begins && !character.is_whitespace() => {
                imports.insert(word(&group[at..]));
                begins = false;
            }
            _ => {}
        }
    }
}

fn word(path: &str) -> String {
    path.chars().take_while(|character| character.is_alphanumeric() || *character == '_').collect()
}
