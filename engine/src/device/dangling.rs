//! Finds a broken link in a path, for the message of an error. "No such directory" alone does not help if the user sees
//! a link there, and only its target was moved away.

use crate::printable::printable_path;
use std::{fs, path::Path};

/// A message if `path`, or the nearest directory above it, is a broken link.
pub(crate) fn dangling(path: &Path) -> Option<String> {
    let is_there = |path: &&Path| fs::symlink_metadata(path).is_ok();
    let nearest = path.ancestors().find(is_there)?;
    let target = fs::read_link(nearest).ok().filter(|_| fs::metadata(nearest).is_err())?;
    let link = if nearest == path { "it".to_owned() } else { printable_path(nearest) };
    Some(format!("{link} is a link to {}, which does not exist", printable_path(&target)))
}

#[cfg(test)]
mod tests {
    use super::dangling;
    use std::{fs, os::unix::fs::symlink};

    #[test]
    fn only_a_link_to_nothing_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("there")).unwrap();
        symlink("gone", at("broken")).unwrap();
        symlink("there", at("whole")).unwrap();
        assert_eq!(dangling(&at("broken")).as_deref(), Some("it is a link to gone, which does not exist"));
        let above = format!("{} is a link to gone, which does not exist", at("broken").display());
        assert_eq!(dangling(&at("broken/space")), Some(above));
        for name in ["there", "whole", "whole/none", "none"] {
            assert_eq!(dangling(&at(name)), None, "{name}");
        }
    }
}
