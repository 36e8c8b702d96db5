//! The variables named in the program's file, by the names that programmers know: `step`, not `_ZL4step`.

use crate::capture::ranges::Range;
use object::{
    NativeEndian, elf,
    elf::FileHeader64,
    read::elf::{FileHeader as _, Sym as _},
};

const ENDIAN: NativeEndian = NativeEndian;

/// Bound on the bytes of all names: so many times the bytes of the file. Names may share bytes, so a short file could have
/// names without end.
const NAMES_TIMES: usize = 4;

/// A variable of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Symbol {
    pub(super) name: String,
    /// The source file of a variable that is visible only in that file.
    pub(super) source: Option<String>,
    pub(super) range: Range,
    /// The Rust compiler has made it.
    pub(super) is_of_rust: bool,
}

/// The variables with names, in the file's addresses; none if the file is stripped.
pub(super) fn symbols(file: &[u8]) -> Result<Vec<Symbol>, String> {
    let odd = |error| format!("it cannot be read: {error}");
    let sections = FileHeader64::<NativeEndian>::parse(file).and_then(|header| header.sections(ENDIAN, file));
    let table = sections.and_then(|sections| sections.symbols(ENDIAN, file, elf::SHT_SYMTAB)).map_err(odd)?;
    let (mut all, mut source, mut room) = (Vec::new(), None, file.len().saturating_mul(NAMES_TIMES));
    for symbol in table.iter() {
        let name = table.symbol_name(ENDIAN, symbol).map_err(odd)?;
        room = room.checked_sub(name.len()).ok_or("it cannot be read: its names are longer than the file")?;
        let name = String::from_utf8_lossy(name).into_owned();
        // The symbols of a source file follow its name; global symbols come last.
        if symbol.st_type() == elf::STT_FILE {
            source = name.rsplit('/').next().filter(|name| !name.is_empty()).map(str::to_owned);
        } else if symbol.st_type() == elf::STT_OBJECT && !symbol.is_undefined(ENDIAN) && symbol.st_size(ENDIAN) > 0 {
            let (at, bytes) = (symbol.st_value(ENDIAN), symbol.st_size(ENDIAN));
            let range = at..at.checked_add(bytes).ok_or("it cannot be read: a symbol beyond all memory")?;
            let source = source.clone().filter(|_| symbol.st_bind() == elf::STB_LOCAL);
            all.push(Symbol { is_of_rust: is_of_rust(&name), name: plain(&name), source, range });
        }
    }
    Ok(all)
}

/// The name in the source code, if it is easily found, in characters that a region's name may have.
fn plain(name: &str) -> String {
    let in_module = name.strip_prefix("__").and_then(|name| name.split_once("_MOD_"));
    let name = match in_module {
        Some((module, variable)) => format!("{module}::{variable}"),
        None => of_cxx(name).unwrap_or_else(|| name.to_owned()),
    };
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_.-:[]".contains(c);
    name.chars().map(|c| if allowed(c) { c } else { '_' }).collect()
}

/// A name of C++ that has only namespaces and classes before it: `_ZN4deep5scaleE`, `_ZL4step`.
fn of_cxx(name: &str) -> Option<String> {
    let rest = name.strip_prefix("_Z")?;
    let (mut rest, is_nested) = match rest.strip_prefix('N') {
        Some(rest) => (rest, true),
        None => (rest, false),
    };
    let mut parts = Vec::new();
    loop {
        rest = rest.strip_prefix('L').unwrap_or(rest);
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let length: usize = rest[..digits].parse().ok()?;
        let part = rest[digits..].get(..length)?;
        parts.push(if part == "_GLOBAL__N_1" { "anonymous" } else { part });
        rest = &rest[digits + length..];
        match (is_nested, rest) {
            (true, "E") | (false, "") => return Some(parts.join("::")),
            (true, _) => {}
            (false, _) => return None,
        }
    }
}

/// Whether a symbol's name was made by the Rust compiler.
fn is_of_rust(name: &str) -> bool {
    const HASH: usize = "17h0123456789abcdefE".len();
    let name = name.split('.').next().unwrap_or(name);
    let hash = name.len().checked_sub(HASH).and_then(|at| name.get(at..)).unwrap_or("");
    let is_hash = hash.starts_with("17h") && hash.ends_with('E');
    name.starts_with("_R") || (name.starts_with("_ZN") && is_hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_rust_are_told_from_those_of_c_and_fortran() {
        for name in [
            "_ZN3std6thread4main17h0123456789abcdefE",
            "_RNvCs1234_7mycrate3foo",
            "_ZN1a17h0123456789abcdefE.0.llvm.12",
        ] {
            assert!(is_of_rust(name), "{name}");
        }
        for name in ["field", "__fields_MOD_u", "_ZN5solve5fieldE", "_ZStL8__ioinit", "counter.0", "R", "_ZNö"] {
            assert!(!is_of_rust(name), "{name}");
        }
    }

    #[test]
    fn names_are_those_of_the_source() {
        for (name, in_source) in [
            ("step", "step"),
            ("count.0", "count.0"),
            ("block_", "block_"),
            ("__fields_MOD_u", "fields::u"),
            ("_ZN4deep5scaleE", "deep::scale"),
            ("_ZL4step", "step"),
            ("_ZN12_GLOBAL__N_14deepE", "anonymous::deep"),
            ("_ZN4deepL5scaleE", "deep::scale"),
            ("_ZZ4mainE4step", "_ZZ4mainE4step"),
            ("_ZN99xE", "_ZN99xE"),
            ("_ZNö", "_ZN_"),
            ("a$b/c", "a_b_c"),
        ] {
            assert_eq!(plain(name), in_source);
        }
    }
}
