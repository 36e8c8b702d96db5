//! A job that `mainstay rehearse` runs. An environment variable tells the job and names the directory of the rehearsal.
//!
//! Invariant: the job saves nothing to a space outside of that directory.

use std::{
    env,
    path::{Component, Path, PathBuf, absolute},
};

const VARIABLE: &str = "MAINSTAY_RUN_REHEARSAL";
/// Within that directory: the spaces that the job has elsewhere.
const ELSEWHERE: &str = "elsewhere";

/// Whether `mainstay rehearse` runs this process: then a closing session saves its state once more.
pub fn is_one() -> bool {
    directory().is_some()
}

fn directory() -> Option<PathBuf> {
    env::var_os(VARIABLE).filter(|directory| !directory.is_empty()).map(PathBuf::from)
}

/// The directory of the space that the job calls `path`, absolute.
pub(crate) fn place(path: &Path) -> PathBuf {
    let path = absolute(path).unwrap_or_else(|_| path.to_owned());
    directory().map_or_else(|| path.clone(), |rehearsal| within(&rehearsal, &path))
}

fn within(rehearsal: &Path, path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    if plain.starts_with(rehearsal) {
        return plain;
    }
    rehearsal.join(ELSEWHERE).join(plain.strip_prefix("/").unwrap_or(&plain))
}

#[cfg(test)]
mod tests {
    use super::within;
    use std::path::Path;

    #[test]
    fn no_space_lies_outside_of_the_rehearsal() {
        let all = ["/home/r/space", "/home/r/a/../space", "/home/r/../other", "/scratch/me/space", "/home/rest"];
        let all = all.map(|path| within(Path::new("/home/r"), Path::new(path)));
        let wanted = ["space", "space", "elsewhere/home/other", "elsewhere/scratch/me/space", "elsewhere/home/rest"];
        assert_eq!(all, wanted.map(|path| Path::new("/home/r").join(path)));
    }
}
