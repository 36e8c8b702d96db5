//! The patterns, as `files/preload/names.c` has them.

use std::{
    env, fs,
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
};

const NAME_BYTES_MAX: usize = libc::NAME_MAX as usize;
/// Names that are never protected: helper files of MPI libraries, hidden files.
const RESERVED: [&[u8]; 6] = [b".*", b"*.locktest.*", b"*_cid-*.sm", b"sem.OMPIO_*", b"*.shfp.*", b"*\n*"];
/// Folders of the system.
const FOREIGN: [&str; 3] = ["/proc", "/dev", "/sys"];

pub struct Patterns {
    matches: Vec<Vec<u8>>,
    exclude: Vec<Vec<u8>>,
    /// Without symbolic links.
    stage: PathBuf,
    /// TMPDIR. `None`: patterns apply there, too.
    temporary: Option<PathBuf>,
}

impl Patterns {
    pub fn new(matches: &[String], exclude: &[String], stage: &Path) -> Patterns {
        let bytes = |patterns: &[String]| patterns.iter().map(|one| one.clone().into_bytes()).collect();
        let temporary = env::var_os("TMPDIR").map(PathBuf::from).filter(|path| path.is_absolute());
        let temporary = temporary.map(|path| fs::canonicalize(&path).unwrap_or(path));
        let is_here = |path: &PathBuf| env::current_dir().is_ok_and(|here| here.starts_with(path));
        Patterns {
            matches: bytes(matches),
            exclude: bytes(exclude),
            stage: fs::canonicalize(stage).unwrap_or_else(|_| stage.to_owned()),
            temporary: temporary.filter(|path| !is_here(path)),
        }
    }

    /// Looks at the last part of `path` only. Nearly all names fail here, without a system call.
    pub fn is_candidate(&self, path: &[u8]) -> bool {
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let matches = |pattern: &Vec<u8>| pattern.contains(&b'/') || glob(pattern, name);
        !name.is_empty()
            && name.len() <= NAME_BYTES_MAX
            && self.matches.iter().any(matches)
            && !RESERVED.iter().any(|pattern| glob(pattern, name))
            && !self.exclude.iter().any(|pattern| !pattern.contains(&b'/') && glob(pattern, name))
    }

    /// Looks at the whole path. `folder` is absolute, without symbolic links. `given` is the program's path, made
    /// absolute.
    pub fn is_wanted(&self, folder: &Path, name: &[u8], given: &Path) -> bool {
        if !self.is_candidate(name) {
            return false;
        }
        let path = [folder.as_os_str().as_bytes(), if folder.parent().is_some() { b"/" } else { b"" }, name].concat();
        let given = plain(given);
        let fits = |pattern: &Vec<u8>| glob(pattern, &path) || glob(pattern, &given);
        let is_temporary = self.temporary.as_ref().is_some_and(|temporary| folder.starts_with(temporary));
        let matches = |pattern: &Vec<u8>| match pattern.contains(&b'/') {
            true => fits(pattern),
            false => !is_temporary && glob(pattern, name),
        };
        self.matches.iter().any(matches) && !self.exclude.iter().any(|pattern| pattern.contains(&b'/') && fits(pattern))
    }

    /// Whether a folder is one of the system, the stage, or Mainstay's own.
    pub fn is_foreign(&self, folder: &Path) -> bool {
        FOREIGN.iter().any(|foreign| folder.starts_with(foreign))
            || folder.starts_with(&self.stage)
            || folder.components().any(|part| part.as_os_str() == crate::file::BESIDE)
    }
}

/// The path without ".", ".." and double slashes. No link is followed.
fn plain(path: &Path) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(parts.pop()),
            Component::Normal(part) => parts.push(part.as_bytes()),
            _ => {}
        }
    }
    parts.iter().flat_map(|part| [b"/", *part].concat()).collect()
}

/// Compares a character with a [set]. The result is the rest after the set, if it fits. `Err`: the set never ends.
fn in_set(set: &[u8], character: u8) -> Result<Option<&[u8]>, ()> {
    let is_negative = matches!(set.first(), Some(b'!' | b'^'));
    let mut at = usize::from(is_negative);
    let (mut is_first, mut is_found) = (true, false);
    let literal = |at: &mut usize| {
        if set.get(*at) == Some(&b'\\') && set.len() > *at + 1 {
            *at += 1;
        }
        let byte = set.get(*at).copied().ok_or(());
        *at += 1;
        byte
    };
    while is_first || set.get(at) != Some(&b']') {
        is_first = false;
        let low = literal(&mut at)?;
        let is_range = set.get(at) == Some(&b'-') && set.get(at + 1).is_some_and(|next| *next != b']');
        let high = if is_range {
            at += 1;
            literal(&mut at)?
        } else {
            low
        };
        is_found |= (low..=high).contains(&character);
    }
    Ok((is_found != is_negative).then(|| &set[at + 1..]))
}

/// Compares a character with the first element of a pattern. The result is the rest of the pattern, if it fits.
fn after_element(pattern: &[u8], character: u8) -> Option<&[u8]> {
    let (first, rest) = pattern.split_first()?;
    match first {
        b'?' => Some(rest),
        b'[' => in_set(rest, character).unwrap_or_else(|()| (character == b'[').then_some(rest)),
        b'\\' if !rest.is_empty() => (rest[0] == character).then(|| &rest[1..]),
        first => (*first == character).then_some(rest),
    }
}

/// '*' and '?' match a slash as well.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut pattern, mut text) = (pattern, text);
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        if let Some((b'*', rest)) = pattern.split_first() {
            pattern = rest;
            star = Some((rest, text));
            continue;
        }
        let Some((character, after)) = text.split_first() else { return pattern.is_empty() };
        if let Some(rest) = after_element(pattern, *character) {
            (pattern, text) = (rest, after);
        } else if let Some((after_star, from)) = star {
            (pattern, text) = (after_star, &from[1..]);
            star = Some((after_star, text));
        } else {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    #[test]
    fn patterns_match_as_in_the_preload_library() {
        let good = [
            ("restart.*", "restart.1"),
            ("*", "x"),
            ("*a*b", "aabab"),
            ("r[0-9]?", "r1x"),
            ("[!a-c]", "d"),
            ("[]]", "]"),
            ("a[b", "a[b"),
            (r"\*", "*"),
            (r"[\]]x", "]x"),
            ("/a/*", "/a/b/c"),
        ];
        let bad = [("restart.*", "restart"), ("r[0-9]?", "rax"), ("[!a-c]", "b"), (r"\*", "x"), ("", "x"), ("a", "")];
        for (pattern, text) in good {
            assert!(glob(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        for (pattern, text) in bad {
            assert!(!glob(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
    }

    #[test]
    fn excluded_and_reserved_names_are_left_alone() {
        let patterns = |matches: &str, exclude: &str| {
            Patterns::new(&[matches.to_owned()], &[exclude.to_owned()], Path::new("/nowhere/stage"))
        };
        let is_wanted = |patterns: Patterns, name: &[u8]| {
            patterns.is_wanted(
                Path::new("/data"),
                name,
                Path::new("/x/../link/.").join(OsStr::from_bytes(name)).as_path(),
            )
        };
        assert!(is_wanted(patterns("*", "b*"), b"a"));
        assert!(!is_wanted(patterns("*", "b*"), b"b1"));
        assert!(!is_wanted(patterns("*", "/data/b*"), b"b1"));
        assert!(!is_wanted(patterns("*", "x"), b".hidden"));
        assert!(!is_wanted(patterns("*", "x"), b"f.locktest.0"));
        assert!(is_wanted(patterns("/data/*", "x"), b"a"));
        assert!(!is_wanted(patterns("/other/*", "x"), b"a"));
        assert!(is_wanted(patterns("/link/*", "x"), b"a"));
        assert!(!is_wanted(patterns("*", "/link/*"), b"a"));
        assert!(patterns("*", "x").is_foreign(Path::new("/data/.mainstay/kept")));
    }
}
