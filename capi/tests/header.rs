//! The committed header is the one that the sources give. `UPDATE_HEADER=1` (`make header`) writes it.

use std::{env, fs, path::Path};

#[test]
fn the_committed_header_is_current() {
    let crate_directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(crate_directory.join("cbindgen.toml")).unwrap();
    let mut generated = Vec::new();
    cbindgen::generate_with_config(crate_directory, config).unwrap().write(&mut generated);
    let generated = for_c(&String::from_utf8(generated).unwrap());
    let committed = crate_directory.join("include/mainstay.h");
    if env::var_os("UPDATE_HEADER").is_some() {
        fs::write(&committed, &generated).unwrap();
    }
    let current = fs::read_to_string(&committed).unwrap_or_default();
    assert!(current == generated, "capi/include/mainstay.h is not what the sources give: run `make header`");
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
