//! The committed headers match the sources. `UPDATE_HEADER=1` (`make header`) writes them.

use std::{env, fs, path::Path};

/// Sources of the header of objects, in the order of the header. The library's header leaves them out.
const OBJECTS: [&str; 5] = [
    "src/objects/tables.rs",
    "src/objects.rs",
    "src/objects/places.rs",
    "src/objects/messages.rs",
    "src/objects/steps.rs",
];
/// The source of the header of ranks in slots.
const RANKS: [&str; 1] = ["src/ranks.rs"];

#[test]
fn the_committed_header_is_current() {
    let crate_directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut config = cbindgen::Config::from_file(crate_directory.join("cbindgen.toml")).unwrap();
    config.after_includes = config.after_includes.map(|text| version() + &text);
    let sources = OBJECTS.iter().chain(&RANKS).map(|source| fs::read_to_string(crate_directory.join(source)).unwrap());
    config.export.exclude = sources.flat_map(|source| public_names(&source)).collect();
    let mut generated = Vec::new();
    cbindgen::generate_with_config(crate_directory, config).unwrap().write(&mut generated);
    compare(crate_directory, "mainstay.h", &generated);
}

#[test]
fn the_committed_header_of_objects_is_current() {
    has_header_of_its_own(&OBJECTS, "cbindgen-objects.toml", "mainstay_objects.h");
}

#[test]
fn the_committed_header_of_ranks_is_current() {
    has_header_of_its_own(&RANKS, "cbindgen-ranks.toml", "mainstay_ranks.h");
}

fn has_header_of_its_own(sources: &[&str], config: &str, header: &str) {
    let crate_directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(crate_directory.join(config)).unwrap();
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in sources {
        builder = builder.with_src(crate_directory.join(source));
    }
    let mut generated = Vec::new();
    builder.generate().unwrap().write(&mut generated);
    compare(crate_directory, header, &generated);
}

fn compare(crate_directory: &Path, name: &str, generated: &[u8]) {
    let generated = for_c(std::str::from_utf8(generated).unwrap());
    let committed = crate_directory.join("include").join(name);
    if env::var_os("UPDATE_HEADER").is_some() {
        fs::write(&committed, &generated).unwrap();
    }
    let current = fs::read_to_string(&committed).unwrap_or_default();
    assert!(current == generated, "capi/include/{name} differs from the sources: run `make header`");
}

/// The version of the library, for the preprocessor.
fn version() -> String {
    let numbers: Vec<&str> = env!("CARGO_PKG_VERSION").split('.').collect();
    let [major, minor, patch] = numbers[..] else { panic!("a version has three numbers: {numbers:?}") };
    format!(
        "\n/* The version that this header is of: MAINSTAY_VERSION_NUMBER grows, 1.2.3 is 10203. */\n\
         #define MAINSTAY_VERSION \"{major}.{minor}.{patch}\"\n\
         #define MAINSTAY_VERSION_NUMBER ({major} * 10000 + {minor} * 100 + {patch})\n"
    )
}

/// The functions and types that a source declares for C.
fn public_names(source: &str) -> Vec<String> {
    let begins = ["pub unsafe extern \"C\" fn ", "pub extern \"C\" fn ", "pub struct ", "pub enum "];
    let name = |line: &str| {
        let rest = begins.iter().find_map(|begin| line.strip_prefix(begin))?;
        Some(rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_').next()?.to_owned())
    };
    source.lines().filter_map(name).collect()
}

/// Short names for statuses and types, and no notes on Rust's safety.
fn for_c(header: &str) -> String {
    let header = header.replace("MAINSTAY_STATUS_", "MAINSTAY_").replace("MAINSTAY_TYPE_", "MAINSTAY_");
    let (mut lines, mut in_safety) = (Vec::new(), false);
    for line in header.lines() {
        in_safety = line.starts_with("// # Safety") || (in_safety && line.starts_with("//"));
        if in_safety {
            // The empty comment line before the note goes with it.
            if lines.last() == Some(&"//") {
                lines.pop();
            }
        } else {
            lines.push(line);
        }
    }
    lines.join("\n") + "\n"
}
