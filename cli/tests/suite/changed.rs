//! Incremental revisions: the output of `show`, and the other commands, which read them like other revisions.

use crate::support::{CELLS, RANKS, Ran, Space, field};
use mainstay_engine::{Capture, Config, Track};
use rust_hdf5::H5File;
use std::{fs, os::unix::fs::MetadataExt, process::Command};

const BLOCK: u64 = 4096;
const CELLS_A_BLOCK: usize = 512;
/// Zero blocks of a rank's field. The field ends with a partial block.
const ZERO_BLOCKS: usize = 38;
const FIRST_ZERO: usize = 40 * CELLS_A_BLOCK;

/// The cells that rank `rank` saves at `step`: zeros at the end, and one more changed block at each step.
fn cells(rank: usize, step: u64) -> Vec<f64> {
    let mut cells = field(rank, 1);
    cells[FIRST_ZERO..].fill(0.0);
    (1..step).for_each(|step| cells[(step - 1) as usize * CELLS_A_BLOCK + 5] = -1.5);
    cells
}

/// A space with revisions 1, 2 and 3.
fn space() -> Space {
    let space = Space::new(3);
    let config = Config { capture: Capture::Incremental, track: Track::Hashes, ..space.config.clone() };
    let space = Space { config, ..space };
    space.run(|rank, session, state| {
        for step in 1..=3 {
            state.copy_from_slice(&cells(rank, step));
            session.checkpoint().unwrap();
            session.wait().unwrap();
        }
    });
    space
}

#[test]
fn show_says_what_is_shared_with_which_revision_and_what_is_zero() {
    let space = space();
    let revision = &space.mainstay(&["show", "--json"]).json()["revision"];
    let of_all = |blocks: u64| blocks * BLOCK * RANKS as u64;
    let shares: Vec<(u64, u64)> = revision["shares"]
        .as_array()
        .unwrap()
        .iter()
        .map(|shares| (shares["revision"].as_u64().unwrap(), shares["bytes"].as_u64().unwrap()))
        .collect();
    // One block changed two steps ago, another one step ago. The block at the end changes at each step.
    assert_eq!(shares, [(2, of_all(39)), (1, of_all(38))]);
    assert_eq!(revision["zero_bytes"], of_all(ZERO_BLOCKS as u64));
    let extents = revision["shard_list"][1]["items"][0]["extents"].as_array().unwrap();
    let zeros: Vec<_> = extents.iter().filter(|extent| extent["at"].is_null()).collect();
    assert_eq!((zeros.len(), &zeros[0]["bytes"]), (1, &(ZERO_BLOCKS as u64 * BLOCK).into()));
    let page = space.mainstay(&["show"]).out;
    let line = page.lines().find(|line| line.starts_with("wrote ")).unwrap();
    assert!(
        line.contains(
            ", the changes found by hashes; shares 468 KiB with revision 2; shares 456 KiB with revision 1, where bytes that several share count for each; 456 KiB are zeros, which take no room"
        ),
        "{line}"
    );
    let first = &space.mainstay(&["show", "--json", "--revision", "1"]).json()["revision"];
    assert_eq!((&first["shares"], &first["zero_bytes"]), (&serde_json::json!([]), &of_all(ZERO_BLOCKS as u64).into()));
}

#[test]
fn zeros_and_what_is_shared_are_verified_exported_compared_and_viewed() {
    let space = space();
    assert_eq!(space.mainstay(&["verify"]).code, 0);
    let out = space.directory.path().join("out");
    let mut export = Command::new(crate::support::MAINSTAY);
    let ran =
        export.arg("export").arg(space.path()).arg(&out).arg("--revision").arg("3").output().map(Ran::of).unwrap();
    assert_eq!(ran.code, 0, "{ran:?}");
    let mut exported: Vec<_> = Vec::new();
    let mut folders = vec![out];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else {
                let (found, bytes) = (fs::read(&entry).unwrap(), fs::metadata(&entry).unwrap().blocks() * 512);
                let zeros = ZERO_BLOCKS as u64 * BLOCK;
                assert!(
                    bytes + zeros < found.len() as u64 + 4 * BLOCK,
                    "zeros take room: {bytes} bytes of {}",
                    found.len()
                );
                exported.push(found);
            }
        }
    }
    for rank in 0..RANKS {
        let bytes: Vec<u8> = cells(rank, 3).iter().flat_map(|cell| cell.to_le_bytes()).collect();
        assert!(
            exported.iter().any(|file| file.ends_with(&bytes)),
            "rank {rank} is not among {} files",
            exported.len()
        );
    }
    let mut diff = Command::new(crate::support::MAINSTAY);
    let diff = diff.arg("diff").arg(space.path()).args(["1", "3", "--json"]).output().map(Ran::of).unwrap().json();
    assert_eq!((&diff["items"][0]["blocks_changed"], &diff["items"][0]["elements_changed"]), (&2.into(), &2.into()));
    for (name, how) in [("place.h5", "--no-hold"), ("copy.h5", "--copy")] {
        let file = space.directory.path().join(name);
        let mut view = Command::new(crate::support::MAINSTAY);
        let ran = view.arg("view").arg(space.path()).arg("--hdf5").arg(&file).arg(how).output().map(Ran::of).unwrap();
        assert_eq!(ran.code, 0, "{ran:?}");
        for rank in 0..RANKS {
            let set = H5File::open(&file).unwrap().dataset(&format!("shard/{rank:04}/field")).unwrap();
            let found: Vec<f64> = set.read_raw().unwrap();
            assert!(found.len() == CELLS && found == cells(rank, 3), "{name}, rank {rank}");
        }
    }
}
