//! Access to a pool, and the reasons for refusal.

use super::{
    super::{Mark, file, is_in_sight, layout::Constants, remove},
    peer::Peer,
    *,
};
use crate::{Error, ErrorKind};
use std::{
    fs::{self, OpenOptions, Permissions},
    os::unix::fs::{FileExt, PermissionsExt, symlink},
    path::PathBuf,
};

fn path_of(pool: &Pool) -> PathBuf {
    file::path_of(&pool.shared.directory, pool.id(), None)
}

fn refusal(directory: &TempDir, pool: &Pool) -> String {
    match Pool::join(directory.path(), pool.id(), 1) {
        Ok(_) => "none".to_owned(),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
            error.to_string()
        }
    }
}

#[test]
fn programs_of_another_user_stay_outside() {
    // SAFETY: the call has no conditions.
    #[allow(unsafe_code)]
    if unsafe { libc::geteuid() } != 0 {
        return eprintln!("skipped: only root can become another user");
    }
    let directory = memory();
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    let pool = pool(&directory, 2, 3);
    let mut other = Peer::start("stranger", &pool);
    let said = other.hear();
    assert!(said.contains("Permission denied"), "{said}");
    other.end();
    assert!(list_of_other_users_files(&pool), "what belongs to another user is refused");
}

/// Root may open every file, so only the check of the owner refuses the file here.
fn list_of_other_users_files(pool: &Pool) -> bool {
    let path = path_of(pool);
    std::os::unix::fs::chown(&path, Some(65534), Some(65534)).unwrap();
    let refused = matches!(Pool::join(&pool.shared.directory, pool.id(), 1),
        Err(Error::PoolRefused { why, .. }) if why == "it belongs to user 65534");
    let unlisted = super::super::list(&pool.shared.directory).unwrap().is_empty();
    std::os::unix::fs::chown(&path, Some(0), Some(0)).unwrap();
    refused && unlisted
}

#[test]
fn every_byte_of_the_header_counts() {
    let directory = memory();
    let pool = pool(&directory, 2, 3);
    let file = pool.shared.file();
    for at in 0..size_of::<Constants>() as u64 {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        for bit in 0..8 {
            file.write_all_at(&[byte[0] ^ 1 << bit], at).unwrap();
            assert_ne!(refusal(&directory, &pool), "none", "byte {at}");
        }
        file.write_all_at(&byte, at).unwrap();
    }
    assert_eq!(refusal(&directory, &pool), "none");
}

#[test]
fn numbers_that_cannot_be_are_refused_under_a_good_checksum() {
    let directory = memory();
    let pool = pool(&directory, 2, 3);
    let file = pool.shared.file();
    let good = pool.shared.constants;
    for (change, of) in [
        ((|c| c.members = 0) as fn(&mut Constants), "members"),
        (|c| c.members = u32::MAX, "members"),
        (|c| c.chunks = 0, "chunks"),
        (|c| c.chunks = u32::MAX, "chunks"),
        (|c| c.chunk_bytes = 0, "chunk_bytes"),
        (|c| c.chunk_bytes = 4097, "chunk_bytes"),
        (|c| c.chunk_bytes = u64::MAX / 4096 * 4096, "chunk_bytes"),
        (|c| c.chunk_bytes += 4096, "chunk_bytes"),
        (|c| c.writes_max = 0, "writes_max"),
        (|c| c.id = [0; 16], "id"),
    ] {
        let mut bad = good;
        change(&mut bad);
        bad.reseal();
        file.write_all_at(zerocopy::IntoBytes::as_bytes(&bad), 0).unwrap();
        assert_ne!(refusal(&directory, &pool), "none", "{of}");
    }
}

#[test]
fn files_that_are_cut_short_or_grew_are_refused() {
    let directory = memory();
    let pool = pool(&directory, 2, 3);
    let bytes = pool.shared.constants.file_bytes();
    // A hostile process truncates the file; the memory must not be touched now.
    let file = OpenOptions::new().write(true).open(path_of(&pool)).unwrap();
    let header = fs::read(path_of(&pool)).unwrap()[..8192].to_vec();
    for end in [bytes + 1, bytes - 1, 2 << 20, 8192, 4096, 80, 79, 8, 0] {
        file.set_len(0).unwrap();
        file.write_all_at(&header, 0).unwrap();
        file.set_len(end).unwrap();
        assert_ne!(refusal(&directory, &pool), "none", "{end} bytes");
    }
    file.set_len(bytes).unwrap();
    file.write_all_at(&header, 0).unwrap();
    assert_eq!(refusal(&directory, &pool), "none");
}

#[test]
fn links_pipes_and_open_modes_are_refused() {
    let directory = memory();
    let pool = pool(&directory, 2, 3);
    let (path, aside) = (path_of(&pool), directory.path().join("aside"));
    fs::hard_link(&path, &aside).unwrap();
    assert!(refusal(&directory, &pool).contains("it has 2 names"));
    fs::remove_file(&path).unwrap();
    symlink(&aside, &path).unwrap();
    assert!(refusal(&directory, &pool).contains("it is a symbolic link"));
    fs::remove_file(&path).unwrap();
    let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: the string ends in a zero.
    #[allow(unsafe_code)]
    let made = unsafe { libc::mkfifo(name.as_ptr(), 0o600) };
    assert_eq!(made, 0);
    assert!(refusal(&directory, &pool).contains("it is not a regular file"));
    fs::remove_file(&path).unwrap();
    fs::rename(&aside, &path).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    assert!(refusal(&directory, &pool).contains("its mode is 640"));
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    assert_eq!(refusal(&directory, &pool), "none");
}

#[test]
fn a_member_is_there_once() {
    let directory = memory();
    let pool = pool(&directory, 3, 4);
    let join = |member| Pool::join(directory.path(), pool.id(), member);
    assert!(join(0).unwrap_err().to_string().contains("member 0 is here already"));
    assert!(join(3).unwrap_err().to_string().contains("none is 3"));
    let other = join(1).unwrap();
    assert!(join(1).is_err());
    drop(other);
    assert!(join(1).unwrap_err().to_string().contains("was here before"));
    join(2).unwrap();
    let elsewhere = memory();
    assert!(Pool::join(elsewhere.path(), pool.id(), 2).unwrap_err().to_string().contains("it is not there"));
}

#[test]
fn whoever_joins_waits_for_a_cleaner_to_end() {
    use crate::device::{ByteLocks, LockFile, LockOutcome};
    let directory = memory();
    let pool = pool(&directory, 2, 3);
    let cleaner = ByteLocks::of(file::open(&path_of(&pool)).unwrap().unwrap());
    assert_eq!(cleaner.try_lock(super::super::layout::CLEANER).unwrap(), LockOutcome::Done);
    std::thread::scope(|scope| {
        let joining = scope.spawn(|| Pool::join(directory.path(), pool.id(), 1));
        // The member has locked its byte: from here on the cleaner sees it.
        while !cleaner.is_locked_in(1, 1).unwrap() {
            std::thread::yield_now();
        }
        assert!(!joining.is_finished());
        drop(cleaner);
        joining.join().unwrap().unwrap();
    });
}

/// Runs `work` in a directory of `bytes` bytes, which only this thread sees and which ends with the thread.
fn in_small_directory(bytes: u64, work: impl FnOnce(&TempDir) + Send) {
    let directory = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| match mount(directory.path(), bytes) {
            Ok(()) => work(&directory),
            Err(error) => eprintln!("skipped: mounting a small file system: {error}"),
        });
    });
}

fn mount(at: &Path, bytes: u64) -> std::io::Result<()> {
    let text = |text: &str| std::ffi::CString::new(text).unwrap();
    let (tmpfs, size, at, root) =
        (text("tmpfs"), text(&format!("size={bytes}")), text(at.to_str().unwrap()), text("/"));
    let none = std::ptr::null();
    // SAFETY: the strings end in zeros; the mount is seen by this thread only.
    #[allow(unsafe_code)]
    let mounted = unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(none, root.as_ptr(), none, libc::MS_REC | libc::MS_PRIVATE, none.cast()) == 0
            && libc::mount(tmpfs.as_ptr(), at.as_ptr(), tmpfs.as_ptr(), 0, size.as_ptr().cast()) == 0
    };
    if mounted { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

#[test]
fn a_directory_that_is_not_there_is_a_setting_that_is_wrong() {
    let directory = memory();
    let file = directory.path().join("file");
    fs::write(&file, []).unwrap();
    for (path, why) in [(directory.path().join("none"), "is not there"), (file, "is no directory")] {
        let error = create(&path, &shape(1, 3)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        let message = format!("pool_directory: {} {why}; make it", path.display());
        assert!(error.to_string().contains(&message), "{error}");
    }
    assert_eq!(files(directory.path()), ["file"]);
}

#[test]
fn a_pool_that_does_not_fit_leaves_nothing() {
    in_small_directory(1 << 20, |directory| {
        let error = create(directory.path(), &shape(1, 32)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PoolFull);
        assert!(error.to_string().contains("`mainstay salvage --all`"), "{error}");
        assert_eq!(files(directory.path()), [""; 0]);
    });
}

#[test]
fn memory_that_is_gone_meanwhile_is_told_to_all_and_tried_again() {
    in_small_directory(4 << 20, |directory| {
        let first = pool(directory, 2, 16);
        let second = Pool::join(directory.path(), first.id(), 1).unwrap();
        let other = directory.path().join("other");
        fs::write(&other, vec![1; 7 << 19]).unwrap();
        let memory = || first.shared.file().metadata().map(|found| std::os::unix::fs::MetadataExt::blocks(&found));
        let before = memory().unwrap();
        for pool in [&first, &second] {
            let errors = [pool.make_memory().unwrap_err(), pool.take_now().unwrap().unwrap_err()];
            errors.iter().for_each(|error| assert_eq!(error.kind(), ErrorKind::PoolFull));
        }
        assert_eq!(memory().unwrap(), before);
        assert!(super::super::RankRecord::create(&first, 0).unwrap().begin(2 << 20, 1, 0).is_err());
        fs::remove_file(&other).unwrap();
        first.make_memory().unwrap();
        // The memory is made for all members, so a full directory does not matter now.
        fs::write(&other, vec![1; 2 << 20]).unwrap();
        second.make_memory().unwrap();
        let chunks = take_all(&first);
        drop(chunks.iter().map(Chunk::bytes).map(<[u8]>::to_vec).collect::<Vec<_>>());
        assert_eq!(chunks.len(), 16);
    });
}

#[test]
fn a_chunk_without_memory_stays_free() {
    in_small_directory(1 << 20, |directory| {
        let held = PoolHeld::Checkpoint;
        let pool = create(directory.path(), &Shape { held, ..shape(1, 8) }).unwrap();
        let other = directory.path().join("other");
        fs::write(&other, vec![1; 800 << 10]).unwrap();
        let got: Vec<_> = (0..4).map(|_| pool.take_now().unwrap()).collect();
        assert_eq!(got.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, true, true, false]);
        fs::remove_file(&other).unwrap();
        drop(got);
        assert_eq!(take_all(&pool).len(), 8);
    });
}

#[test]
fn a_mark_stays_while_its_process_lives_and_is_anybodys_then() {
    let (directory, id) = (memory(), draw_id().unwrap());
    let mark = Mark::make(directory.path(), id).unwrap();
    assert!(is_in_sight(directory.path(), id));
    assert!(!remove(directory.path(), id).unwrap());
    assert_eq!(files(directory.path()).len(), 1);
    // Drop the mark as a killed process would.
    drop(mark);
    assert!(remove(directory.path(), id).unwrap());
    assert!(!is_in_sight(directory.path(), id));
    assert!(files(directory.path()).is_empty());
}
