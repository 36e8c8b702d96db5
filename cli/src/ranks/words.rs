//! The words for a compiler: those of the user, with ours around them.

use super::installed::Installed;
use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

/// The library of the modules' object files. A program that passes a handle as class(*) needs it.
pub const MODULES: &str = "mainstay_modules";

/// The result of a call of the compiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Makes {
    /// No file, as with `--version`.
    Nothing,
    /// An object, an assembly, or a list of dependencies.
    Object,
    Library,
    Program,
    /// The user's flags say all about it: a static program, or several objects in one.
    Other,
}

/// Options whose next word is no input.
const ONE_WORD: [&str; 27] = [
    "-o",
    "-I",
    "-L",
    "-D",
    "-U",
    "-l",
    "-x",
    "-J",
    "-B",
    "-T",
    "-u",
    "-z",
    "-e",
    "-MF",
    "-MT",
    "-MQ",
    "-include",
    "-imacros",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-module",
    "-Xlinker",
    "-Xpreprocessor",
    "-Xassembler",
    "-target",
    "--param",
];

impl Makes {
    pub fn of(arguments: &[OsString]) -> Makes {
        let has = |names: &[&str]| arguments.iter().any(|word| names.iter().any(|name| word == name));
        if has(&["-c", "-S", "-E", "-M", "-MM", "-fsyntax-only"]) {
            return Makes::Object;
        }
        if !has_input(arguments) && !is_shown(arguments) {
            return Makes::Nothing;
        }
        match () {
            () if has(&["-shared"]) => Makes::Library,
            () if has(&["-r", "-static", "-static-pie", "-no-pie", "-nopie"]) => Makes::Other,
            () => Makes::Program,
        }
    }
}

fn has_input(arguments: &[OsString]) -> bool {
    let mut is_value = false;
    arguments.iter().any(|word| {
        let is_option = word.as_encoded_bytes().starts_with(b"-") && word != "-";
        let is_input = !is_option && !is_value;
        is_value = ONE_WORD.iter().any(|option| word == option);
        is_input
    })
}

/// Is the command to be printed only?
pub fn is_shown(arguments: &[OsString]) -> bool {
    arguments.iter().any(|word| is_show(word))
}

fn is_show(word: &OsStr) -> bool {
    word == "-show" || word == "--show"
}

/// The command. `own` are flags for the language, which the user's may change.
pub fn words(compiler: &[OsString], own: &[&str], arguments: &[OsString], folders: &Folders) -> Vec<OsString> {
    let makes = Makes::of(arguments);
    let mut words = compiler.to_vec();
    let given = arguments.iter().filter(|word| !is_show(word)).cloned();
    if makes == Makes::Nothing {
        words.extend(given);
        return words;
    }
    // The user's own flag comes later, and wins.
    words.push(if makes == Makes::Library { "-fPIC" } else { "-fPIE" }.into());
    words.extend(own.iter().map(OsString::from));
    words.extend(given);
    words.extend(folders.headers.iter().map(|folder| with("-I", folder)));
    if makes == Makes::Program {
        words.push("-pie".into());
    }
    if makes != Makes::Object {
        if let Some(modules) = &folders.modules {
            words.extend([with("-L", modules), format!("-l{MODULES}").into()]);
        }
        words.extend([with("-L", &folders.library), "-lmpi".into()]);
        // For libraries of the user's that were linked to libmpifort or libmpicxx.
        words.extend(["-Xlinker".into(), "-rpath-link".into(), "-Xlinker".into(), folders.library.clone().into()]);
    }
    words
}

/// The folders that a compiler looks into.
pub struct Folders {
    pub headers: Vec<PathBuf>,
    /// That of the modules of Fortran, with the library of their object files.
    pub modules: Option<PathBuf>,
    pub library: PathBuf,
}

impl Folders {
    pub fn of(installed: &Installed) -> Folders {
        let library = installed.libraries.join("mpich");
        Folders { headers: vec![installed.headers.clone()], modules: None, library }
    }

    /// With those for Fortran.
    pub fn of_fortran(installed: &Installed, modules: Option<PathBuf>) -> Folders {
        let folders = Folders::of(installed);
        let headers = folders.headers.into_iter().chain([installed.share.clone()]).chain(modules.clone()).collect();
        Folders { headers, modules, ..folders }
    }
}

fn with(option: &str, folder: &Path) -> OsString {
    let mut word = OsString::from(option);
    word.push(folder);
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    fn told(arguments: &str) -> String {
        let folders = Folders { headers: vec!["/i".into()], modules: None, library: "/l".into() };
        let words = words(&split("cc -m64"), &["-own"], &split(arguments), &folders);
        words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn flags_are_those_for_the_file_that_is_made() {
        const LINK: &str = "-L/l -lmpi -Xlinker -rpath-link -Xlinker /l";
        assert_eq!(told("-O2 a.c -o a"), format!("cc -m64 -fPIE -own -O2 a.c -o a -I/i -pie {LINK}"));
        assert_eq!(told("-c a.c"), "cc -m64 -fPIE -own -c a.c -I/i");
        assert_eq!(told("-E -x c -"), "cc -m64 -fPIE -own -E -x c - -I/i");
        assert_eq!(told("-shared -o a.so a.o"), format!("cc -m64 -fPIC -own -shared -o a.so a.o -I/i {LINK}"));
        assert_eq!(told("-no-pie a.c"), format!("cc -m64 -fPIE -own -no-pie a.c -I/i {LINK}"));
        for nothing in ["--version", "-v", "-dumpmachine", "-print-prog-name=ld", "-o a -I b"] {
            assert_eq!(told(nothing), format!("cc -m64 {nothing}"));
        }
        assert_eq!(told("-show"), format!("cc -m64 -fPIE -own -I/i -pie {LINK}"));
        assert_eq!(told("-show -c a.c"), "cc -m64 -fPIE -own -c a.c -I/i");
    }
}
