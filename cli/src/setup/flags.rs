//! `mainstay config --cflags --libs`: flags to compile with the library that was installed with this command. The
//! prefix is the folder above the command's folder.

use crate::{
    arguments,
    exit::{Exit, Failure},
    output,
};
use mainstay_engine::printable_path;
use std::{
    env,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

pub fn flags(wanted: &arguments::Config) -> Result<Exit, Failure> {
    let prefix = prefix()?;
    let (include, lib) = (prefix.join("include"), prefix.join("lib"));
    let mut words: Vec<Vec<u8>> = Vec::new();
    if wanted.prefix {
        words.push(quoted(b"", &prefix));
    }
    if wanted.cflags {
        words.push(quoted(b"-I", &include));
    }
    if wanted.libs {
        words.push(quoted(b"-L", &lib));
        words.push(b"-lmainstay".to_vec());
        // A comma would end the path for -Wl.
        match lib.as_os_str().as_bytes().contains(&b',') {
            false => words.push(quoted(b"-Wl,-rpath,", &lib)),
            true => words.extend([b"-Xlinker -rpath -Xlinker".to_vec(), quoted(b"", &lib)]),
        }
    }
    output::bytes(&[words.join(&b' '), b"\n".to_vec()].concat())?;
    Ok(Exit::Good)
}

/// The directories of the header and the library.
fn prefix() -> Result<PathBuf, Failure> {
    let failed = |message| Failure { exit: Exit::System, message };
    let own = env::current_exe().and_then(|path| path.canonicalize());
    let own = own.map_err(|e| failed(format!("the path of this command is unknown: {e}")))?;
    let prefix = own.ancestors().nth(2).unwrap_or(Path::new("/"));
    let missing = |name: &str| !prefix.join(name).exists();
    if missing("include/mainstay.h") || (missing("lib/libmainstay.so") && missing("lib/libmainstay.a")) {
        return Err(failed(format!(
            "there is no include/mainstay.h or no lib/libmainstay.so in {}: this command ({}) was not installed \
             together with the library; use an installed one (`make install`)",
            printable_path(prefix),
            printable_path(&own)
        )));
    }
    Ok(prefix.to_owned())
}

/// One word for a shell.
pub fn quoted(option: &[u8], path: &Path) -> Vec<u8> {
    let word = [option, path.as_os_str().as_bytes()].concat();
    if word.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(byte)) {
        return word;
    }
    let inner = word.split(|byte| *byte == b'\'').collect::<Vec<_>>().join(&br"'\''"[..]);
    [b"'", &inner[..], b"'"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_paths_are_one_word_for_a_shell() {
        let words = [
            ("/usr/local", "-I/usr/local"),
            ("/my files", "'-I/my files'"),
            ("/it's", r"'-I/it'\''s'"),
            ("/$HOME", "'-I/$HOME'"),
        ];
        for (path, expected) in words {
            assert_eq!(quoted(b"-I", Path::new(path)), expected.as_bytes());
        }
    }
}
