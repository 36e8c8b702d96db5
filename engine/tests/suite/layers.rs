//! The folders of the engine are the stages of a path, and imports point one way along it: none leads back. The same
//! goes for the files of a large folder, in all crates. The files of a small folder are read together, and may import
//! each other.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

type Imports = BTreeMap<String, BTreeSet<String>>;

/// Files and folders in a small folder, at most.
const SMALL: usize = 12;

#[test]
fn no_file_or_folder_imports_what_imports_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let (mut seen, mut circles) = (0, BTreeMap::new());
    for crate_root in ["format", "engine", "objects", "ranks", "files", "capi", "cli", "python", "simulate", "fuzz"]
        .map(|name| root.join(name).join("src"))
    {
        for folder in folders(&crate_root) {
            let imports = imports(&crate_root, &folder);
            seen += imports.values().map(BTreeSet::len).sum::<usize>();
            let name = folder.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            let circle = circle(imports);
            if !circle.is_empty() {
                circles.insert(name, circle);
            }
        }
    }
    assert!(seen > 800, "only {seen} imports were found");
    assert!(circles.is_empty(), "in these folders, these import each other, in a circle: {circles:#?}");
}

/// The folder and all folders below it that are modules.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let inside = entries(folder).into_iter().filter(|path| path.is_dir() && !is_for_tests(path));
    let mut all: Vec<PathBuf> = inside.flat_map(|path| folders(&path)).collect();
    all.extend(root_file(folder).map(|_| folder.to_owned()));
    all
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn is_for_tests(path: &Path) -> bool {
    ["tests", "in_memory"].contains(&path.file_stem().unwrap().to_str().unwrap())
}

/// The file of the folder's own module.
fn root_file(folder: &Path) -> Option<PathBuf> {
    let inside = ["mod.rs", "lib.rs", "main.rs"].map(|name| folder.join(name));
    inside.into_iter().chain([folder.with_extension("rs")]).find(|path| path.exists())
}

/// Removes all modules that import no remaining module, or that no remaining module imports. The rest is in circles.
fn circle(mut imports: Imports) -> Imports {
    let is_outside = |imports: &Imports, name: &String| {
        let is_imported = imports.values().any(|of| of.contains(name));
        !is_imported || !imports[name].iter().any(|of| imports.contains_key(of))
    };
    while let Some(name) = imports.keys().find(|name| is_outside(&imports, name)).cloned() {
        imports.remove(&name);
    }
    imports
}

/// The imports among the files and folders in `folder`; `mod` is the code of its own module.
fn imports(crate_root: &Path, folder: &Path) -> Imports {
    let module_of = |path: &Path| -> Vec<String> {
        let path = path.strip_prefix(crate_root).unwrap().with_extension("");
        let names = path.iter().map(|name| name.to_str().unwrap().to_owned());
        names.filter(|name| !["mod", "lib", "main"].contains(&&**name)).collect()
    };
    let within = module_of(folder);
    let root = root_file(folder).unwrap();
    let inside = entries(folder).into_iter().filter(|path| *path != root && !is_for_tests(path));
    let mut children: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for path in inside {
        children.entry(path.file_stem().unwrap().to_str().unwrap().to_owned()).or_default().extend(files(&path));
    }

    // If the module imports a name from a file in the folder, an import of that name from the module counts as one from
    // the file.
    let (mut names, mut imports) = (BTreeMap::new(), Imports::new());
    let code = code_of(&root);
    let has_code = ["fn ", "impl ", "struct ", "enum ", "trait "].iter().any(|word| code.contains(word));
    for Named { path, is_use, is_public } in paths(&code) {
        let path = path.strip_prefix(&["self".to_owned()][..]).unwrap_or(&path);
        if children.contains_key(&path[0]) && path.len() > 1 {
            if is_use {
                names.insert(path[path.len() - 1].clone(), path[0].clone());
            }
            if has_code && !is_public {
                imports.entry("mod".to_owned()).or_default().insert(path[0].clone());
            }
        }
    }
    for (child, files) in &children {
        let of = imports.entry(child.clone()).or_default();
        for file in files {
            let module = module_of(file);
            for Named { path, .. } in paths(&code_of(file)) {
                let ups = path.iter().take_while(|name| *name == "super").count();
                let full = match &*path[0] {
                    "crate" => path[1..].to_vec(),
                    "super" => [&module[..module.len() - ups.min(module.len())], &path[ups..]].concat(),
                    _ => continue,
                };
                if let Some(name) = full.strip_prefix(&within[..]).and_then(|rest| rest.first()) {
                    let named = names.get(name).map_or("mod", |child| child);
                    of.insert(if children.contains_key(name) { name.clone() } else { named.to_owned() });
                }
            }
        }
        of.remove(child);
    }
    if children.len() <= SMALL {
        let is_file = |name: &String| name != "mod" && !folder.join(name).is_dir();
        for (_, of) in imports.iter_mut().filter(|(name, _)| is_file(name)) {
            of.retain(|other| !is_file(other));
        }
    }
    imports
}

pub fn files(path: &Path) -> Vec<PathBuf> {
    if path.is_dir() {
        return entries(path).into_iter().filter(|path| !is_for_tests(path)).flat_map(|path| files(&path)).collect();
    }
    vec![path.to_owned()]
}

/// The code of a file without comments and without the parts for tests.
pub fn code_of(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = lines.join("\n");
    let code = code.split("\nmod tests {").next().unwrap();
    let mut parts = code.split("#[cfg(test)]\nuse ");
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |code, part| code + part.split_once(';').map_or("", |(_, rest)| rest))
}

struct Named {
    path: Vec<String>,
    is_use: bool,
    is_public: bool,
}

/// All paths of two names or more. A `use` with braces gives one path for each entry.
fn paths(code: &str) -> Vec<Named> {
    let (mut found, mut rest) = (Vec::new(), code);
    let (mut is_use, mut is_public) = (false, false);
    while let Some(start) = rest.find(|character: char| character.is_alphanumeric() || character == '_') {
        // Brackets between two words, as in `pub(super) use`, do not end the statement.
        if rest[..start].contains([';', '{', '}', '=']) {
            (is_use, is_public) = (false, false);
        }
        rest = &rest[start..];
        let mut all = Vec::new();
        rest = tree(rest, &[], &mut all);
        match all.first().map(|path| path.join("::")).as_deref() {
            Some("pub") => is_public = true,
            Some("use") => is_use = true,
            _ => {
                let paths = all.into_iter().filter(|path| path.len() > 1);
                found.extend(paths.map(|path| Named { path, is_use, is_public: is_public && is_use }));
            }
        }
    }
    found
}

/// Reads one path, or a tree of braces with paths that begin with `before`. Returns the rest of the code.
fn tree<'a>(code: &'a str, before: &[String], found: &mut Vec<Vec<String>>) -> &'a str {
    let end = code.find(|character: char| !character.is_alphanumeric() && character != '_').unwrap_or(code.len());
    let path = [before, &[code[..end].to_owned()]].concat();
    let rest = &code[end..];
    let Some(next) = rest.strip_prefix("::") else {
        found.push(path);
        return rest;
    };
    let Some(mut inside) = next.strip_prefix('{') else {
        let is_name = next.starts_with(|character: char| character.is_alphanumeric() || character == '_');
        if is_name {
            return tree(next, &path, found);
        }
        found.push(path);
        return next;
    };
    loop {
        inside = inside.trim_start_matches(|character: char| character.is_whitespace() || character == ',');
        if inside.is_empty() {
            return inside;
        }
        match inside.strip_prefix('}') {
            Some(after) => return after,
            None if inside.starts_with("as ") => {
                inside = &inside[inside.find([',', '}']).unwrap_or(inside.len())..];
            }
            None => {
                let before = inside.len();
                inside = tree(inside, &path, found);
                // A star, or text that is no `use`.
                if inside.len() == before {
                    inside = &inside[inside.chars().next().map_or(0, char::len_utf8)..];
                }
            }
        }
    }
}
