//! Names of the layout files in the HDF5 file.

use crate::exit::Failure;
use mainstay_engine::printable_path;
use std::path::{Component, Path, PathBuf};

/// Makes HDF5 look for relative names from the folder of the file; without it, HDF5 uses the working directory.
pub const PREFIX: &str = "HDF5_EXTFILE_PREFIX='${ORIGIN}'";

/// The name of `file`: absolute, which works from everywhere, or relative to the folder `from`. Both paths are
/// canonical.
pub fn name(file: &Path, from: Option<&Path>) -> Result<String, Failure> {
    let path = from.map_or_else(|| file.to_owned(), |from| relative(file, from));
    path.into_os_string().into_string().map_err(|path| {
        Failure::refused(format!(
            "HDF5 needs file names in UTF-8, and {} is not; --copy makes a file that needs no other",
            printable_path(Path::new(&path))
        ))
    })
}

fn relative(file: &Path, from: &Path) -> PathBuf {
    let shared = file.components().zip(from.components()).take_while(|(one, other)| one == other).count();
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(file.components().skip(shared)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_names_lead_there() {
        let cases = [
            ("/a/space/layout", "/a", "space/layout"),
            ("/a/space/layout", "/a/b/c", "../../space/layout"),
            ("/a/space/layout", "/a/space", "layout"),
            ("/a/space/layout", "/", "a/space/layout"),
            ("/a/space/layout", "/a/spac", "../space/layout"),
        ];
        for (file, from, expected) in cases {
            assert_eq!(name(Path::new(file), Some(Path::new(from))).unwrap(), expected);
            assert_eq!(name(Path::new(file), None).unwrap(), file);
        }
    }
}
