//! Reads other ranks' data after a restore.

use crate::support::{around::Around, bounded, in_sessions, run, spread::Part};
use mainstay_engine::{Config, ErrorKind, Reader, Region, Result, Session};
use std::{fs, path::Path};
use tempfile::TempDir;

fn job(space: &Path, ranks: usize, work: impl Fn(usize, &mut Session) + Sync) {
    let config = Config { pool_bytes: Some(256 << 10), chunk_bytes: Some(64 << 10), ..Config::default() };
    in_sessions(space, ranks, &config, work);
}

fn content(rank: usize) -> Vec<u8> {
    let byte = |at: usize| ((at + 1_000_003 * (rank + 1)) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[1];
    (0..10_000 + 500 * rank).map(byte).collect()
}

fn save(space: &Path, ranks: usize) {
    job(space, ranks, |rank, session| {
        let bytes = content(rank);
        session.begin(bytes.len() as u64).unwrap();
        session.write("own", 0, &bytes).unwrap();
        session.checkpoint().unwrap();
        session.wait().unwrap();
    });
}

/// The number of shards, and those that this rank can read.
fn seen(session: &mut Session) -> (u32, Vec<u32>) {
    let shards = session.shards().unwrap();
    (shards.shard_count(), shards.here().collect())
}

fn kind<T: std::fmt::Debug>(came: mainstay_engine::Result<T>) -> ErrorKind {
    came.unwrap_err().kind()
}

#[test]
fn other_numbers_of_ranks_read_all_shards_that_they_see() {
    let folder = TempDir::new().unwrap();
    save(folder.path(), 3);
    for ranks in [1, 2, 4] {
        job(folder.path(), ranks, |rank, session| {
            assert_eq!(seen(session), (0, vec![]));
            assert_eq!(kind(session.shards().unwrap().read(0, "own", 0, &mut [0])), ErrorKind::InvalidArgument);
            session.restore().unwrap().unwrap();
            assert_eq!(seen(session), (3, vec![0, 1, 2]));
            for shard in [2, 0, 1, 2] {
                let expected = content(shard);
                assert_eq!(session.shards().unwrap().item(shard as u32, "own").unwrap().bytes, expected.len() as u64);
                let mut into = vec![0; 5000];
                assert_eq!(
                    session.shards().unwrap().read(shard as u32, "own", 6000, &mut into).unwrap(),
                    expected.len().min(11_000) - 6000
                );
                assert!(into.starts_with(&expected[6000..expected.len().min(11_000)]), "{rank} {shard}");
            }
            assert_eq!(kind(session.shards().unwrap().read(3, "own", 0, &mut [0])), ErrorKind::InvalidArgument);
            assert_eq!(kind(session.shards().unwrap().read(1, "other", 0, &mut [0])), ErrorKind::InvalidArgument);
            if ranks == 4 {
                // Its blocks may be overwritten from here on.
                session.begin(1).unwrap();
                assert_eq!(seen(session), (0, vec![]));
                assert_eq!(kind(session.shards().unwrap().read(0, "own", 0, &mut [0])), ErrorKind::InvalidArgument);
                session.abandon().unwrap();
            }
        });
    }
}

#[test]
fn as_many_ranks_read_their_own() {
    let folder = TempDir::new().unwrap();
    save(folder.path(), 2);
    job(folder.path(), 2, |rank, session| {
        session.restore().unwrap().unwrap();
        assert_eq!(seen(session), (2, vec![rank as u32]));
        let mut into = vec![0; content(rank).len()];
        session.shards().unwrap().read(rank as u32, "own", 0, &mut into).unwrap();
        assert_eq!(into, content(rank));
    });
}

#[test]
fn no_damaged_byte_is_handed_out() {
    let folder = TempDir::new().unwrap();
    save(folder.path(), 3);
    let pattern = &content(1)[4096..4596];
    let mut changed = 0;
    for file in fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
        let mut bytes = fs::read(&file).unwrap();
        if let Some(at) = bytes.windows(pattern.len()).position(|window| window == pattern) {
            bytes[at] ^= 1;
            fs::write(&file, bytes).unwrap();
            changed += 1;
        }
    }
    assert_eq!(changed, 1);
    job(folder.path(), 2, |_, session| {
        session.restore().unwrap().unwrap();
        let mut into = vec![0; 10_000];
        assert_eq!(kind(session.shards().unwrap().read(1, "own", 0, &mut into)), ErrorKind::Damaged);
        assert_eq!(session.shards().unwrap().read(2, "own", 0, &mut into).unwrap(), 10_000);
    });
}

/// Particles of a rank. Each rank has another number of them.
fn particles(rank: usize) -> Vec<u8> {
    content(rank).into_iter().cycle().take(7000 + 9000 * rank).collect()
}

fn protect(session: &mut Session, name: &str, memory: &mut [u8]) {
    // SAFETY: the tests keep the memory for as long as the session.
    #[allow(unsafe_code)]
    let region = unsafe { Region::new(name, memory.as_mut_ptr(), memory.len() as u64) };
    session.protect(region.unwrap()).unwrap();
}

/// Data that each rank kept for itself was refused on another number of ranks, even if it was not protected.
#[test]
fn ranks_of_any_number_divide_what_each_of_four_kept_for_itself() {
    let folder = TempDir::new().unwrap();
    job(folder.path(), 4, |rank, session| {
        let (mut step, mut own) = (vec![7; 5000], particles(rank));
        protect(session, "step", &mut step);
        session.same_on_all_ranks("step").unwrap();
        protect(session, "particles", &mut own);
        session.note("count", &own.len().to_string()).unwrap();
        session.checkpoint().unwrap();
        session.wait().unwrap();
    });
    for ranks in [2, 3, 6, 4] {
        job(folder.path(), ranks, |rank, session| {
            assert_eq!(kind(session.bring_shards(&[])), ErrorKind::InvalidArgument);
            let (mut step, mut own) = (vec![0; 5000], particles(rank));
            protect(session, "step", &mut step);
            session.same_on_all_ranks("step").unwrap();
            if ranks == 4 {
                protect(session, "particles", &mut own);
            }
            session.restore().unwrap().unwrap();
            assert_eq!(step, [7; 5000]);
            assert_eq!(kind(session.bring_shards(&[4])), ErrorKind::InvalidArgument);
            session.bring_shards(&[]).unwrap();
            // Each rank has another number of shards, some have none.
            let mine: Vec<u32> = (rank as u32..4).step_by(ranks).chain([0]).take(rank + 1).collect();
            session.bring_shards(&mine).unwrap();
            for shard in 0..4 {
                let shards = session.shards().unwrap();
                let items: Vec<(&str, u64)> =
                    shards.items(shard).unwrap().iter().map(|item| (&*item.name, item.bytes)).collect();
                let bytes = particles(shard as usize).len() as u64;
                assert_eq!(items, [("step", 5000), ("particles", bytes)]);
                assert_eq!(shards.notes(shard).unwrap()["count"], bytes.to_string());
            }
            for shard in mine {
                let expected = particles(shard as usize);
                let mut into = vec![0; expected.len() - 1000];
                assert_eq!(session.shards().unwrap().read(shard, "particles", 1000, &mut into).unwrap(), into.len());
                assert!(into == expected[1000..], "{rank} of {ranks}, shard {shard}");
            }
            assert_eq!(kind(session.shards().unwrap().items(4)), ErrorKind::InvalidArgument);
        });
    }
}

/// Both ranks make the call, or both get an error.
#[test]
fn a_call_that_other_ranks_do_not_make_is_told() {
    let folder = TempDir::new().unwrap();
    save(folder.path(), 2);
    job(folder.path(), 2, |rank, session| {
        session.restore().unwrap().unwrap();
        let told = if rank == 0 { session.bring_shards(&[1]) } else { session.wait() };
        assert_eq!(kind(told), ErrorKind::CallMismatch);
        session.bring_shards(&[1 - rank as u32]).unwrap();
        let mut into = vec![0; 100];
        session.shards().unwrap().read(1 - rank as u32, "own", 0, &mut into).unwrap();
        assert_eq!(into, content(1 - rank)[..100]);
    });
}

/// On nodes of their own, and in a group that sends nothing in the background: a third rank waited forever.
#[test]
fn shards_that_nobody_can_send_are_out_of_sight() {
    let folders: Vec<TempDir> = (0..3).map(|_| TempDir::new().unwrap()).collect();
    let told = bounded("ranks that can send nothing", || {
        run(3, |rank, group| {
            // This group has collectives alone.
            let mute = Around { group, around: |all_reduce: &mut dyn FnMut() -> Result<()>| all_reduce() };
            let mut session = Session::open(Box::new(mute), folders[rank].path(), Config::default()).unwrap();
            let mut own = particles(rank);
            protect(&mut session, "particles", &mut own);
            session.checkpoint().unwrap();
            session.restore().unwrap().unwrap();
            session.bring_shards(&[rank as u32]).unwrap();
            let wanted: &[u32] = if rank == 0 { &[1] } else { &[] };
            let told = kind(session.bring_shards(wanted));
            session.bring_shards(&[]).unwrap();
            session.close().unwrap();
            told
        })
    });
    assert_eq!(told, [ErrorKind::OutOfSight; 3]);
}

/// A reader outside the job read boxes, a session only items. Both say the same if there is no such data.
#[test]
fn a_session_reads_boxes_and_refuses_as_a_reader_does() {
    const GLOBAL: [u64; 2] = [12, 700];
    let folder = TempDir::new().unwrap();
    let cells = |part: &Part| -> Vec<u8> { part.numbers().into_iter().flat_map(u64::to_le_bytes).collect() };
    job(folder.path(), 3, |rank, session| {
        let mut part = Part::slab(&GLOBAL, rank, 3);
        part.fill(|number| number);
        session.protect(part.region("u").unwrap()).unwrap();
        session.checkpoint().unwrap();
        session.wait().unwrap();
        session.unprotect("u").unwrap();
    });
    job(folder.path(), 2, |rank, session| {
        let mut part = Part::slab(&GLOBAL, rank, 2);
        session.protect(part.region("u").unwrap()).unwrap();
        session.restore().unwrap().unwrap();
        let wanted = Part::new(&GLOBAL, vec![3..12, 13..600]);
        let mut into = vec![0; wanted.cells.len() * 8];
        let told = session.shards().unwrap().read_box("u", &[3, 13], &[9, 587], &mut into).unwrap_err();
        assert!(told.kind() == ErrorKind::InvalidArgument && told.to_string().contains("call bring_shards"), "{told}");
        session.bring_shards(&[0, 1, 2]).unwrap();
        let shards = session.shards().unwrap();
        shards.read_box("u", &[3, 13], &[9, 587], &mut into).unwrap();
        assert!(into == cells(&wanted), "{rank}");
        let mut reader = Reader::open(folder.path(), None, "test").unwrap();
        for (shard, name) in [(3, "u"), (1, "v")] {
            let [here, there] = [&mut *shards, &mut reader]
                .map(|reader| reader.read(shard, name, 0, &mut [0]).unwrap_err().to_string());
            assert_eq!(here, there);
        }
        let mut hashes = [[None; 2]; 2];
        shards.hashes(1, "u", 0, &mut hashes[0]).unwrap();
        reader.hashes(1, "u", 0, &mut hashes[1]).unwrap();
        assert!(hashes[0] == hashes[1] && hashes[0][0].is_some(), "{hashes:?}");
        session.unprotect("u").unwrap();
    });
}

/// A program that merges the items of all shards reads them in turn. A reader keeps only some shards open.
#[test]
fn any_number_of_shards_are_read_in_turn() {
    const RANKS: usize = 35;
    let folder = TempDir::new().unwrap();
    save(folder.path(), RANKS);
    let mut reader = Reader::open(folder.path(), None, "test").unwrap();
    let mut into = vec![0; 700];
    for offset in (0..9_100).step_by(700) {
        let back = (0..RANKS).rev().filter(|_| offset % 1400 == 0);
        for shard in (0..RANKS).chain(back) {
            let got = reader.read(shard as u32, "own", offset as u64, &mut into).unwrap();
            assert!(into[..got] == content(shard)[offset..][..got] && got == 700, "{shard} at {offset}");
        }
    }
}
