//! Publishes a whole file, that is, gives it its name: copy, sync, hashes, link, rename, sync.
//!
//! Invariants:
//! - The name changes in one step, and only after the bytes and their hashes are durable.
//! - The older generation has its link in `kept` before the name goes to the new one.

use crate::{
    claims,
    copy::{self, carry},
    file::{Identity, Named},
    kept::{
        beside, current, data_path, generations, identity, is_changed, manifest_path, note_name, prune, sync_folder,
    },
    manifest::{self, Manifest},
    stage::Id,
    writing::writing_path,
};
use rustix::{
    fs::{FallocateFlags, Gid, Timespec, Timestamps, Uid, fallocate, fchmod, fchown, futimens, statvfs},
    io::Errno,
};
use std::{
    fs::{self, File, OpenOptions, Permissions},
    io, iter,
    ops::Range,
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

/// A whole file to publish.
#[derive(Debug, Clone)]
pub struct Parcel {
    pub id: Id,
    pub named: Named,
    /// The path of its bytes: in the stage, or `writing_path` if the program wrote to the target's file system.
    pub staged: PathBuf,
    pub is_through: bool,
    pub keep: u32,
    /// The file that was under the name when this one was closed.
    pub replaces: Option<Identity>,
    /// The job and the node that must have the claim of the name.
    pub claim: Option<(String, String)>,
}

/// Sets room aside for a staged file. The program learns at `close` that there is none.
pub fn reserve(named: &Named, id: Id, staged: &Path) -> io::Result<()> {
    // One that cannot be read, or has no holes, is a single part.
    let whole = || fs::metadata(staged).map_or_else(|_| Vec::new(), |found| iter::once(0..found.len()).collect());
    let parts = File::open(staged).and_then(|file| copy::parts(&file)).unwrap_or_else(|_| whole());
    let bytes: u64 = parts.iter().map(|part| part.end - part.start).sum();
    beside(&named.folder, "writing")?;
    let path = writing_path(&named.folder, id);
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path)?;
    if bytes == 0 {
        return Ok(());
    }
    let set_aside = |part: &Range<u64>| fallocate(&file, FallocateFlags::KEEP_SIZE, part.start, part.end - part.start);
    let given = match parts.iter().try_for_each(set_aside) {
        // The file system cannot set room aside: compare with the free bytes.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => match statvfs(&named.folder) {
            Ok(found) if found.f_bavail.saturating_mul(found.f_frsize) < bytes => Err(Errno::NOSPC),
            _ => Ok(()),
        },
        given => given,
    };
    given.map_err(|error| {
        let _ = fs::remove_file(&path);
        error.into()
    })
}

/// Copies the bytes and their hashes to the target's file system, durably. They get no name here.
pub fn bring(parcel: &Parcel) -> io::Result<()> {
    let from = File::open(&parcel.staged)?;
    let bytes = from.metadata()?.len();
    let Named { folder, .. } = &parcel.named;
    let path = writing_path(folder, parcel.id);
    let hashes = if parcel.is_through {
        let hashes = copy::hash_all(&from, bytes)?;
        from.sync_all()?;
        hashes
    } else {
        reserve(&parcel.named, parcel.id, &parcel.staged)?;
        carry(&from, &path, bytes)?
    };
    take_over(&from, &parcel.named.path(), &path)?;
    let modified = fs::metadata(&path)?.modified()?;
    manifest::write(&path.with_extension("hashes"), parcel.id, bytes, modified, &hashes)
}

/// Sets the rights and the times of the new file. If it replaces a file, it gets the rights of that file.
fn take_over(staged: &File, replaced: &Path, path: &Path) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    let new = staged.metadata()?;
    let rights = fs::symlink_metadata(replaced).ok().filter(fs::Metadata::is_file);
    let (owner, group) = rights.as_ref().map_or((new.uid(), new.gid()), |old| (old.uid(), old.gid()));
    // Only root may give a file away.
    let _ = fchown(&file, Some(Uid::from_raw(owner)), Some(Gid::from_raw(group)));
    fchmod(&file, rustix::fs::Mode::from_raw_mode(new.mode() & 0o7777))?;
    let time = |seconds, nanos| Timespec { tv_sec: seconds, tv_nsec: nanos };
    let last_access = time(new.atime(), new.atime_nsec());
    let last_modification = time(new.mtime(), new.mtime_nsec());
    futimens(&file, &Timestamps { last_access, last_modification })?;
    file.sync_all()
}

/// Gives the bytes their name. A helper may call it again after a kill.
pub fn name(named: &Named, id: Id, keep: u32) -> io::Result<()> {
    let (folder, file) = (&named.folder, named.name());
    let writing = writing_path(folder, id);
    if !writing.exists() {
        // The file got its name before the kill, or from a helper on another node.
        return Ok(());
    }
    beside(folder, "kept")?;
    note_name(folder, file)?;
    let numbers = generations(folder, file)?;
    let mut generation = numbers.first().map_or(1, |newest| newest + 1);
    // A killed helper may have made the link.
    let own = identity(&writing);
    let linked_before = numbers.into_iter().find(|number| identity(&data_path(folder, file, *number)) == own);
    let linked = loop {
        if let Some(number) = linked_before {
            generation = number;
            break Ok(());
        }
        match fs::hard_link(&writing, data_path(folder, file, generation)) {
            // Another node has published a generation of this name.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => generation += 1,
            linked => break linked,
        }
    };
    let hashes = writing.with_extension("hashes");
    let placed = match linked {
        Ok(()) => fs::rename(hashes, manifest_path(folder, file, generation)),
        // The file system has no links, so Mainstay keeps no generations there, and finds no damage.
        Err(_) => fs::remove_file(hashes),
    };
    match placed {
        Err(error) if error.kind() == io::ErrorKind::NotFound && linked_before.is_some() => {}
        placed => placed?,
    }
    sync_folder(&folder.join(crate::file::BESIDE).join("kept"))?;
    fs::rename(&writing, named.path())?;
    sync_folder(folder)?;
    prune(folder, file, keep)
}

/// Whether the parcel has its name already: a helper was killed before it could remove the record.
pub fn is_named(parcel: &Parcel) -> bool {
    has_name(&parcel.named, parcel.id)
}

/// Whether the staged file `id` is under its name.
pub fn has_name(named: &Named, id: Id) -> bool {
    let (folder, name) = (&named.folder, named.name());
    let Ok(Some(generation)) = current(folder, name) else { return false };
    Manifest::open(&manifest_path(folder, name, generation)).is_ok_and(|manifest| manifest.is_of(id))
}

/// Whether a program without Mainstay has written a file under the name since the parcel was closed.
pub fn is_outdated(parcel: &Parcel) -> bool {
    if let Some((job, node)) = &parcel.claim
        && claims::find(&parcel.named, job).is_none_or(|claim| claim.node != *node)
    {
        return true;
    }
    let found = parcel.named.identity();
    if found.is_none() || found == parcel.replaces {
        return false;
    }
    // A generation was published in order.
    let (folder, name) = (&parcel.named.folder, parcel.named.name());
    current(folder, name).is_ok_and(|found| found.is_none_or(|number| is_changed(folder, name, number)))
}

/// The rights for a new staged file: those of the file that it will replace.
pub fn rights(named: &Named) -> Option<Permissions> {
    let found = fs::symlink_metadata(named.path()).ok().filter(fs::Metadata::is_file)?;
    Some(Permissions::from_mode(found.mode() & 0o7777))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::{self, Judged};
    use std::ffi::OsStr;

    fn publish(folder: &Path, name: &str, bytes: &[u8], keep: u32) {
        let memory = tempfile::tempdir_in("/dev/shm").unwrap();
        let staged = memory.path().join("staged");
        fs::write(&staged, bytes).unwrap();
        let named = Named::in_folder(folder, OsStr::new(name)).unwrap();
        let parcel =
            Parcel { id: Id::after(None, 1), named, staged, is_through: false, keep, replaces: None, claim: None };
        bring(&parcel).unwrap();
        assert!(!is_named(&parcel));
        super::name(&parcel.named, parcel.id, keep).unwrap();
        assert!(is_named(&parcel));
    }

    #[test]
    fn a_damaged_file_gives_way_to_the_newest_older_generation_that_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (folder, name) = (folder.path(), OsStr::new("restart"));
        for content in [b"first!", b"second", b"third!"] {
            publish(folder, "restart", content, 3);
            assert_eq!(fs::read(folder.join(name)).unwrap(), content);
        }
        assert_eq!(kept::judge(folder, name).unwrap(), Judged::Good { generation: 3 });
        // A medium changes no time.
        let flip = |path: PathBuf| {
            let mut bytes = fs::read(&path).unwrap();
            bytes[2] ^= 1;
            let modified = fs::metadata(&path).unwrap().modified().unwrap();
            fs::write(&path, bytes).unwrap();
            File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
        };
        flip(folder.join(name));
        assert_eq!(kept::judge(folder, name).unwrap(), Judged::Instead { generation: 3, older: 2 });
        flip(manifest_path(folder, name, 2));
        assert_eq!(kept::judge(folder, name).unwrap(), Judged::Instead { generation: 3, older: 1 });
        flip(data_path(folder, name, 1));
        assert_eq!(kept::judge(folder, name).unwrap(), Judged::Lost { generation: 3 });
    }

    #[test]
    fn a_file_that_a_program_changes_in_place_is_not_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let (folder, name) = (folder.path(), OsStr::new("restart"));
        publish(folder, "restart", b"old", 2);
        publish(folder, "restart", b"new", 2);
        let set_time = |seconds| {
            let modified = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            File::options().write(true).open(folder.join(name)).unwrap().set_modified(modified).unwrap();
        };
        // Another time alone is no change, and the manifest gets that time.
        set_time(1);
        assert!(!kept::is_changed(folder, name, 2));
        assert_eq!(kept::judge(folder, name).unwrap(), Judged::Good { generation: 2 });
        fs::write(folder.join(name), b"by hand").unwrap();
        assert_eq!(kept::judge(folder, name).unwrap(), Judged::Changed { generation: 2 });
        assert!(kept::is_changed(folder, name, 2));
        set_time(1);
        assert_eq!(kept::judge(folder, name).unwrap(), Judged::Instead { generation: 2, older: 1 });
    }

    #[test]
    fn generations_beyond_those_to_keep_go_and_a_foreign_file_is_left_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let (folder, name) = (folder.path(), OsStr::new("restart"));
        (0..5).for_each(|n| publish(folder, "restart", &[n], 2));
        assert_eq!(kept::generations(folder, name).unwrap(), [5, 4]);
        kept::restore(folder, name, 4).unwrap();
        assert_eq!((fs::read(folder.join(name)).unwrap(), kept::current(folder, name).unwrap()), (vec![3], Some(4)));
        fs::remove_file(folder.join(name)).unwrap();
        fs::write(folder.join(name), b"by hand").unwrap();
        assert_eq!(kept::judge(folder, name).unwrap(), Judged::Unknown);
    }

    #[test]
    fn a_renamed_file_takes_its_newest_generation_along() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        publish(folder, "a", b"of a", 2);
        publish(folder, "b", b"of b", 2);
        kept::rename((folder, OsStr::new("a")), (folder, OsStr::new("b")), rustix::fs::RenameFlags::empty()).unwrap();
        assert_eq!(fs::read(folder.join("b")).unwrap(), b"of a");
        assert_eq!(kept::judge(folder, OsStr::new("b")).unwrap(), Judged::Good { generation: 2 });
        assert!(kept::generations(folder, OsStr::new("a")).unwrap().is_empty());
    }
}
