//! Files that the output of a command never replaces.

use crate::support::{MAINSTAY, Ran, Space};
use std::{fs, os::unix::fs::symlink, path::Path, process::Command};

/// `report -o` and `status --prometheus` overwrote a layout. As root, `--prometheus` also overwrote the link of a
/// device.
#[test]
fn no_file_of_a_space_and_no_device_is_replaced() {
    let space = Space::with(2, 2);
    let layout = space.layout();
    let (before, link) = (fs::read(&layout).unwrap(), space.directory.path().join("link"));
    symlink("/dev/null", &link).unwrap();
    let run = |words: &[&str]| Command::new(MAINSTAY).args(words).output().map(Ran::of).unwrap();
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let (path, of_space, link_path) = (&text(&space.path())[..], &text(&layout)[..], &text(&link)[..]);
    run(&["report", path, "-o", of_space]).refused(4, &["is a file of the space"]);
    run(&["status", path, "--prometheus", of_space]).refused(4, &["is a file of the space"]);
    run(&["status", path, "--prometheus", link_path]).refused(4, &["exists and is no regular file"]);
    run(&["view", path, "--hdf5", link_path, "--force"]).refused(4, &["exists and is no regular file"]);
    run(&["view", path, "--hdf5", space.directory.path().to_str().unwrap(), "--force"])
        .refused(4, &["no regular file"]);
    // A page can go to a device, as to a file.
    assert_eq!(run(&["report", path, "-o", link_path]).code, 0);
    assert!(fs::read(&layout).unwrap() == before && link.is_symlink());
}
