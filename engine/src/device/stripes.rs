//! Stripes of a new file on a parallel file system. They are chosen while the file is empty, and stay.

use super::{Access, Device, FileSystem, Naming, NewFile, Stripes};
use crate::{ground::files::command, printable::printable};
use nix::unistd::geteuid;
use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};
use std::{
    fs, io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
    process::Command,
};

/// CephFS accepts only stripe units and object sizes that are multiples of this.
const CEPH_UNIT_MIN: u64 = 64 << 10;

/// Gives the empty file at `path`, open as `file`, these `stripes` on `file_system`.
pub(super) fn choose(file_system: &FileSystem, file: &fs::File, stripes: Stripes) -> io::Result<()> {
    match file_system {
        FileSystem::Ceph if stripes.is_chosen() => choose_ceph(file, stripes),
        // On Lustre, a tool makes the file with its stripes.
        FileSystem::Lustre { lfs: Some(_) } if stripes.is_chosen() => make_private(file),
        _ => Ok(()),
    }
}

/// Restricts the file that a tool has just made to this user, as all files of a space are. Refuses a file that the tool
/// cannot have made.
fn make_private(file: &fs::File) -> io::Result<()> {
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    let found = file.metadata()?;
    if found.uid() != geteuid().as_raw() || found.len() > 0 {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "another user or process has made or filled it"));
    }
    Ok(())
}

/// Bytes of a stripe of the files that `device` makes with `stripes`; 0 if there are no stripes. Makes and removes the
/// file `probe` if the stripes of a file by default are known only from a file.
pub(crate) fn stripe_bytes(device: &dyn Device, stripes: Stripes, probe: &str) -> io::Result<u64> {
    match stripes.bytes {
        _ if !device.directory().has_stripes() => Ok(0),
        0 => {
            device.open(probe, Access::Write, Some(&NewFile { stripes, ..NewFile::default() }))?;
            let bytes = device.directory().stripe_bytes(probe);
            // If that fails, the next opening removes it.
            let _ = device.name(Naming::Remove(probe));
            bytes
        }
        chosen => Ok(chosen),
    }
}

/// Bytes of a stripe of `file`, at `path`; 0 if it has none.
pub(super) fn of_file(file_system: &FileSystem, path: &Path, file: &fs::File) -> io::Result<u64> {
    match file_system {
        FileSystem::Ceph => ceph(file, "stripe_unit"),
        FileSystem::Lustre { lfs: Some(lfs) } => lustre_stripe_bytes(lfs, path),
        FileSystem::Lustre { lfs: None } | FileSystem::Other => Ok(0),
    }
}

/// Sets the attributes in an order in which each pair is valid: an object is a whole number of stripes.
fn choose_ceph(file: &fs::File, stripes: Stripes) -> io::Result<()> {
    if stripes.bytes > 0 {
        let objects = ceph(file, "object_size")?;
        let objects = if objects.is_multiple_of(stripes.bytes) { objects } else { stripes.bytes };
        set_ceph(file, "stripe_unit", CEPH_UNIT_MIN)?;
        set_ceph(file, "object_size", objects)?;
        set_ceph(file, "stripe_unit", stripes.bytes)?;
    }
    if stripes.count > 0 {
        set_ceph(file, "stripe_count", u64::from(stripes.count))?;
    }
    Ok(())
}

fn ceph(file: &fs::File, field: &str) -> io::Result<u64> {
    let mut value = [0_u8; 64];
    let name = format!("ceph.file.layout.{field}");
    let bytes = fgetxattr(file, &*name, &mut value[..]).map_err(|e| error_about(&name, e.into()))?;
    let text = std::str::from_utf8(&value[..bytes.min(value.len())]).unwrap_or_default();
    let number = text.trim_end_matches('\0').trim().parse();
    number.map_err(|_| {
        error_about(&name, io::Error::new(io::ErrorKind::InvalidData, format!("{text:?} is not a number")))
    })
}

fn set_ceph(file: &fs::File, field: &str, value: u64) -> io::Result<()> {
    let name = format!("ceph.file.layout.{field}");
    let set = fsetxattr(file, &*name, value.to_string().as_bytes(), XattrFlags::empty());
    set.map_err(|e| error_about(&format!("{name} = {value}"), e.into()))
}

fn error_about(what: &str, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// Makes the file at `path` with `stripes`; an error if it exists.
pub(super) fn make_lustre(lfs: &Path, path: &Path, stripes: Stripes) -> io::Result<()> {
    let mut setstripe = command(lfs)?;
    setstripe.arg("setstripe");
    if stripes.count > 0 {
        setstripe.args(["-c", &stripes.count.to_string()]);
    }
    if stripes.bytes > 0 {
        setstripe.args(["-S", &stripes.bytes.to_string()]);
    }
    run(setstripe.arg(path)).map(drop)
}

fn lustre_stripe_bytes(lfs: &Path, path: &Path) -> io::Result<u64> {
    let output = run(command(lfs)?.args(["getstripe", "-S"]).arg(path))?;
    let number = output.split_whitespace().next().and_then(|word| word.parse().ok());
    number.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("lfs getstripe said {output:?}")))
}

fn run(command: &mut Command) -> io::Result<String> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let why = String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("it said nothing").to_owned();
    Err(io::Error::other(format!("lfs failed ({}): {}", output.status, printable(&why))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{io::Write, os::unix::fs::chown, path::PathBuf};

    /// A tool with Lustre's name and answers that records its arguments.
    fn lfs(folder: &Path, body: &str) -> PathBuf {
        let lfs = folder.join("lfs");
        fs::write(&lfs, format!("#!/bin/sh\necho \"$@\" >> {}/asked\n{body}\n", folder.display())).unwrap();
        fs::set_permissions(&lfs, fs::Permissions::from_mode(0o755)).unwrap();
        lfs
    }

    #[test]
    fn lustre_is_asked_by_its_tool() {
        let folder = tempfile::tempdir().unwrap();
        let lfs = lfs(folder.path(), "test \"$1\" = getstripe && echo 1048576; exit 0");
        let path = folder.path().join("file");
        make_lustre(&lfs, &path, Stripes { count: 4, bytes: 1 << 20 }).unwrap();
        make_lustre(&lfs, &path, Stripes { count: 0, bytes: 1 << 20 }).unwrap();
        assert_eq!(lustre_stripe_bytes(&lfs, &path).unwrap(), 1 << 20);
        let asked = fs::read_to_string(folder.path().join("asked")).unwrap();
        let path = path.display();
        assert_eq!(
            asked,
            format!("setstripe -c 4 -S 1048576 {path}\nsetstripe -S 1048576 {path}\ngetstripe -S {path}\n")
        );
    }

    #[test]
    fn what_the_tool_made_is_for_this_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let tool = lfs(folder.path(), "for path; do :; done; umask 022; : > \"$path\"");
        let path = folder.path().join("file");
        let stripes = Stripes { count: 4, bytes: 0 };
        make_lustre(&tool, &path, stripes).unwrap();
        let mut file = fs::File::options().write(true).open(&path).unwrap();
        let mode = || fs::metadata(&path).unwrap().mode() & 0o777;
        assert_eq!(mode(), 0o644);
        let lustre = FileSystem::Lustre { lfs: Some(tool) };
        choose(&lustre, &file, stripes).unwrap();
        assert_eq!(mode(), 0o600);
        // Only root can try that.
        if chown(&path, Some(65534), None).is_ok() {
            assert_eq!(choose(&lustre, &file, stripes).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            chown(&path, Some(geteuid().as_raw()), None).unwrap();
        }
        file.write_all(b"x").unwrap();
        assert_eq!(choose(&lustre, &file, stripes).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn what_the_tool_refuses_is_told_in_its_words() {
        let folder = tempfile::tempdir().unwrap();
        let lfs = lfs(folder.path(), "echo 'setstripe: bad stripe size' >&2; exit 22");
        let error = make_lustre(&lfs, Path::new("file"), Stripes { count: 1, bytes: 1 }).unwrap_err().to_string();
        assert!(error.contains("bad stripe size"), "{error}");
    }
}
