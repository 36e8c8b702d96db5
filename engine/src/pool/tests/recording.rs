//! Recorded shards, as they are staged and read back.

use super::{
    super::{
        RankRecord, Sealed, SealedPlan, SealedTarget, ShardRecord, list,
        record_layout::{CONTROL_AT, Owner, Parts, SegmentFound, ShardFound},
    },
    *,
};
use crate::{
    commit::{Allocation, RevisionKey},
    space::{
        format::{Lineage, PhaseRecord},
        free::Blocks,
    },
};
use std::{
    fs::{self, File, OpenOptions},
    mem::offset_of,
    os::unix::fs::{FileExt, MetadataExt},
    path::Path,
};

const ROWS: u64 = 3 * 4096;
const SEGMENTS_MAX: u32 = 5;
/// The tag of empty chunks.
const TAG: u32 = 0;

pub(super) fn plan() -> SealedPlan {
    let lineage = Lineage { number: 3, id: [4; 16] };
    let blocks = |first| Blocks { first, count: 2 };
    let targets = [5, 6].map(|layout| SealedTarget {
        space: format!("/somewhere/{layout}").into_bytes(),
        file_system: 0,
        layout_id: [layout; 16],
        sequence: 12,
        allocation: Allocation {
            freeing: vec![blocks(1)],
            catalogue: blocks(3),
            meta: blocks(5),
            data: vec![blocks(7), blocks(11)].into(),
            shared: Vec::new(),
            frames: Vec::new(),
            packing: None,
            early: vec![blocks(15)],
            is_outline: false,
        },
        retained: vec![RevisionKey { lineage, number: 7 }],
        held: vec![RevisionKey { lineage, number: 2 }],
    });
    SealedPlan {
        key: RevisionKey { lineage, number: 8 },
        shards: 2,
        shard: 1,
        contents: vec![6; 300],
        outputs: vec![b"out.txt".to_vec()],
        phases: PhaseRecord { copy_ns: 5, ..PhaseRecord::default() },
        targets: targets.into(),
    }
}

/// Stages two segments: segment 0 is in a chunk; segment 1 is done in both targets, and its chunk has been reused.
pub(super) fn stage(record: &mut RankRecord, chunk: &Chunk) -> ShardRecord {
    let shard = record.begin(ROWS, SEGMENTS_MAX, TAG).unwrap();
    shard.place(0, 0, CHUNK, chunk.index());
    shard.place(1, CHUNK, 4096, chunk.index() + 1);
    shard.write_rows(256, &[3; 20]);
    shard.hashed(1);
    shard.written(1, 0);
    shard.written(1, 1);
    chunk.fill(TAG, 0, CHUNK).unwrap();
    shard
}

pub(super) fn sealed(pool: &Pool, rank: u32) -> Option<Sealed> {
    // A damaged record is refused.
    Sealed::open(&pool.shared.directory, pool.id(), rank).ok().flatten()
}

fn file_of(pool: &Pool, rank: u32) -> File {
    let path = super::super::file::path_of(&pool.shared.directory, pool.id(), Some(rank));
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

#[test]
fn a_sealed_shard_is_read_back() {
    let directory = memory();
    let pool = pool(&directory, 1, 3);
    let mut record = RankRecord::create(&pool, 6).unwrap();
    let mut chunk = take(&pool);
    chunk.bytes_mut().fill(9);
    let shard = stage(&mut record, &chunk);
    assert!(sealed(&pool, 6).is_none(), "before the seal");
    shard.seal(&plan()).unwrap();
    assert_eq!(pool.sealed(0).len(), 1);

    let found = sealed(&pool, 6).unwrap();
    assert_eq!((found.rank, found.member, &found.plan), (6, 0, &plan()));
    let place = |index: usize| (found.segments[index].offset, found.segments[index].bytes);
    assert_eq!(found.segments.len(), 2);
    assert_eq!(place(0), (0, CHUNK));
    assert_eq!(place(1), (CHUNK, 4096));
    assert_eq!(found.read_rows().unwrap().len() as u64, ROWS);
    assert_eq!(&found.read_rows().unwrap()[248..288], [vec![0; 8], vec![3; 20], vec![0; 12]].concat());
    assert_eq!(shard.rows_bytes(ROWS), &found.read_rows().unwrap()[..]);
    assert!(shard.rows_bytes(ROWS).as_ptr().addr().is_multiple_of(4096));
    assert!(found.chunk_of(pool.contents(), 0).unwrap().unwrap().iter().all(|&byte| byte == 9));
    for none in [1, 2] {
        assert!(found.chunk_of(pool.contents(), none).unwrap().is_none());
    }
    drop(record);
    assert_eq!((files(directory.path()).len(), pool.sealed(0).len()), (1, 0));
}

/// A short plan gets its memory when the shard begins, a long one with the seal.
#[test]
fn plans_of_any_length_are_read_back() {
    let directory = memory();
    let pool = pool(&directory, 1, 3);
    let mut record = RankRecord::create(&pool, 6).unwrap();
    for bytes in [300, 40_000, 12_000, 16_384, 300, 200_000] {
        let plan = SealedPlan { contents: vec![bytes as u8; bytes], ..plan() };
        stage(&mut record, &take(&pool)).seal(&plan).unwrap();
        assert!(sealed(&pool, 6).unwrap().plan == plan, "{bytes} bytes");
    }
}

/// A later job would not find such a record.
#[test]
fn a_record_that_is_gone_or_another_is_not_sealed() {
    for bytes in [300, 40_000] {
        let directory = memory();
        let pool = pool(&directory, 1, 3);
        let mut record = RankRecord::create(&pool, 6).unwrap();
        let plan = SealedPlan { contents: vec![6; bytes], ..plan() };
        let shard = stage(&mut record, &take(&pool));
        let path = super::super::file::path_of(&pool.shared.directory, pool.id(), Some(6));
        let refused = || shard.seal(&plan).unwrap_err().to_string();
        let other = directory.path().join("other");
        fs::rename(&path, &other).unwrap();
        assert!(refused().contains("removed meanwhile"), "{bytes} bytes: {}", refused());
        fs::copy(&other, &path).unwrap();
        assert!(refused().contains("replaced meanwhile"), "{bytes} bytes: {}", refused());
        fs::rename(&other, &path).unwrap();
        shard.seal(&plan).unwrap();
    }
}

#[test]
fn a_note_of_the_spaces_that_was_overwritten_is_written_again() {
    let directory = memory();
    let pool = pool(&directory, 1, 3);
    let mut record = RankRecord::create(&pool, 6).unwrap();
    let is_noted = || {
        let note = super::super::spaces_of(directory.path(), pool.id());
        note.is_some_and(|note| note.is_of(|space| space == Path::new("/somewhere/6")))
    };
    for at in [1024, 1030, 1050] {
        stage(&mut record, &take(&pool)).seal(&plan()).unwrap();
        assert!(is_noted());
        pool.shared.file().write_all_at(&[0xa5; 4], at).unwrap();
        assert!(!is_noted(), "overwritten at {at}");
    }
}

#[test]
fn each_target_is_owed_what_it_does_not_have() {
    let directory = memory();
    let pool = pool(&directory, 1, 3);
    let mut record = RankRecord::create(&pool, 0).unwrap();
    let shard = stage(&mut record, &take(&pool));
    shard.seal(&plan()).unwrap();
    let left = || -> Vec<(u8, Vec<u32>)> {
        let sealed = sealed(&pool, 0).unwrap();
        sealed.owed().map(|owed| (owed.target.layout_id[0], owed.left().collect())).collect()
    };
    assert_eq!(left(), [(5, vec![0]), (6, vec![0])]);
    shard.written(0, 1);
    assert_eq!(left(), [(5, vec![0]), (6, vec![0])], "its hashes are not there");
    shard.hashed(0);
    assert_eq!(left(), [(5, vec![0]), (6, vec![])]);
    shard.target_ended(0);
    assert_eq!(left(), [(6, vec![])]);
    // No seal covers the word of ended targets; a garbled word has no effect.
    let (file, at) = (file_of(&pool, 0), (CONTROL_AT + offset_of!(ShardFound, ended)) as u64);
    for bit in 0..64 {
        let mut word = [0; 8];
        file.read_exact_at(&mut word, at).unwrap();
        let flipped = u64::from_ne_bytes(word) ^ 1 << bit;
        file.write_all_at(&flipped.to_ne_bytes(), at).unwrap();
        assert_eq!(left().len(), 2, "bit {bit}");
        file.write_all_at(&word, at).unwrap();
    }
    // Note the ends as a salvager does.
    sealed(&pool, 0).unwrap().owed().for_each(|owed| owed.end());
    assert_eq!(left(), []);
    shard.target_ended(1);
    assert_eq!(left(), []);
    // The next shard owes all of its targets everything again.
    stage(&mut record, &take(&pool)).seal(&plan()).unwrap();
    assert_eq!(left(), [(5, vec![0]), (6, vec![0])]);
}

/// A shard that is written in place has exactly one target: with several, the right one would be unknown.
#[test]
fn what_lies_in_its_target_is_owed_its_hashes_alone() {
    let directory = memory();
    let pool = create(directory.path(), &Shape::of_tables(2)).unwrap();
    let mut record = RankRecord::create(&pool, 6).unwrap();
    let shard = record.begin(ROWS, SEGMENTS_MAX, TAG).unwrap();
    for (segment, offset) in [(0, 0), (1, CHUNK)] {
        shard.place_in_target(segment, offset, CHUNK);
        shard.written(segment, 0);
    }
    shard.hashed(1);
    let one = SealedPlan { targets: plan().targets[..1].to_vec(), ..plan() };
    shard.seal(&one).unwrap();
    let found = sealed(&pool, 6).unwrap();
    let owed = found.owed().next().unwrap();
    assert_eq!(owed.left().collect::<Vec<u32>>(), [0]);
    assert!(found.segments[0].is_in_target());
    assert!(found.chunk_of(pool.contents(), 0).unwrap().is_none());
    assert_eq!(owed.left_bytes(), ROWS + 4096, "nothing but hashes and a manifest is to be written");

    let shard = record.begin(ROWS, SEGMENTS_MAX, TAG).unwrap();
    shard.place_in_target(0, 0, CHUNK);
    shard.seal(&plan()).unwrap();
    assert!(Sealed::open(directory.path(), pool.id(), 6).is_err(), "two targets");
}

/// The pool of members that stage elsewhere has memory for its tables only.
#[test]
fn a_pool_of_tables_has_no_chunks() {
    let directory = memory();
    let pool = create(directory.path(), &Shape::of_tables(4)).unwrap();
    let others: Vec<Pool> = (1..4).map(|member| Pool::join(directory.path(), pool.id(), member).unwrap()).collect();
    assert_eq!(pool.wanted_bytes(), 0);
    assert!(pool.shared.file().metadata().unwrap().blocks() * 512 <= 64 << 10);
    drop((pool, others));
    assert!(list(directory.path()).unwrap().is_empty());
}

#[test]
fn a_record_of_another_version_is_told() {
    let directory = memory();
    let pool = pool(&directory, 1, 3);
    let mut record = RankRecord::create(&pool, 0).unwrap();
    let chunk = take(&pool);
    stage(&mut record, &chunk).seal(&plan()).unwrap();
    let file = file_of(&pool, 0);
    file.write_all_at(&1_u32.to_ne_bytes(), 8).unwrap();
    let open = || Sealed::open(directory.path(), pool.id(), 0).unwrap_err().to_string();
    assert!(open().contains("its version is damaged"), "{}", open());
    // A record of another version has another checksum.
    file.write_all_at(&[1], 36).unwrap();
    let error = open();
    assert!(error.contains("it was made by another version of Mainstay (version 1)"), "{error}");
}

#[test]
fn a_chunk_that_went_on_to_something_else_is_not_the_segments() {
    let directory = memory();
    let pool = pool(&directory, 1, 2);
    let mut record = RankRecord::create(&pool, 0).unwrap();
    let chunk = take(&pool);
    stage(&mut record, &chunk).seal(&plan()).unwrap();
    let found = sealed(&pool, 0).unwrap();
    let index = chunk.index();
    let is_there = || found.chunk_of(pool.contents(), 0).unwrap().is_some();
    assert!(is_there());
    chunk.await_turn().unwrap();
    assert!(is_there(), "while it is written");
    chunk.written().unwrap();
    assert!(is_there(), "until it is hashed");
    drop(chunk);
    assert!(!is_there(), "free");
    let again = take_all(&pool).into_iter().find(|chunk| chunk.index() == index).unwrap();
    assert!(!is_there(), "being filled");
    for (tag, segment, bytes, there) in
        [(TAG + 1, 0, CHUNK, false), (TAG, 1, CHUNK, false), (TAG, 0, 4096, false), (TAG, 0, CHUNK, true)]
    {
        again.fill(tag, segment, bytes).unwrap();
        assert_eq!(is_there(), there, "tag {tag}, segment {segment}, {bytes} bytes");
    }
}

#[test]
fn a_seal_never_covers_what_came_after_it() {
    let directory = memory();
    let pool = pool(&directory, 1, 3);
    let mut record = RankRecord::create(&pool, 0).unwrap();
    let first = take(&pool);
    let old = stage(&mut record, &first);
    old.seal(&plan()).unwrap();
    // The file is the same again, up to the last byte, but its contents must not pass for the sealed ones.
    let second = take(&pool);
    let new = stage(&mut record, &second);
    assert!(sealed(&pool, 0).is_none(), "begun anew");
    // A thread of the previous shard comes late.
    old.written(0, 0);
    old.clear();
    old.place(0, 0, 1, 1);
    assert!(old.seal(&plan()).is_err());
    new.seal(&plan()).unwrap();
    old.clear();
    let found = sealed(&pool, 0).unwrap();
    assert_eq!((found.segments[0].bytes, found.segments[0].is_done(0)), (CHUNK, false));
    new.clear();
    assert!(sealed(&pool, 0).is_none(), "cleared");
    // Nothing that this shard's seal covers is wiped.
    record.begin(ROWS, SEGMENTS_MAX, TAG).unwrap().seal(&plan()).unwrap();
    assert!(sealed(&pool, 0).is_some());
    record.begin(ROWS, SEGMENTS_MAX, TAG).unwrap();
    assert!(sealed(&pool, 0).is_none(), "begun after an empty one");
    // A larger shard, for which the file grows.
    let larger = record.begin(100 * ROWS, 5000, 1).unwrap();
    larger.place(4999, 0, 1, 1);
    larger.write_rows(100 * ROWS - 16, &[1; 16]);
    larger.seal(&plan()).unwrap();
    let found = sealed(&pool, 0).unwrap();
    assert_eq!(
        (found.segments.len(), found.read_rows().unwrap()[100 * ROWS as usize - 1], found.read_rows().unwrap()[256]),
        (5000, 1, 0)
    );
    assert!(found.segments.iter().all(|segment| !segment.is_done(0)));
}

#[test]
fn no_byte_that_is_sealed_can_change() {
    let directory = memory();
    let pool = pool(&directory, 1, 3);
    let mut record = RankRecord::create(&pool, 0).unwrap();
    let chunk = take(&pool);
    stage(&mut record, &chunk).seal(&plan()).unwrap();
    let file = file_of(&pool, 0);
    let parts = Parts::new(ROWS, SEGMENTS_MAX).unwrap();
    let plan_bytes = postcard::to_stdvec(&plan()).unwrap().len();
    let (table, plan_at) = (parts.table_at as usize, parts.plan_at as usize);
    let covered = (0..size_of::<Owner>())
        .chain(CONTROL_AT..CONTROL_AT + offset_of!(ShardFound, ended))
        .chain(table..table + 2 * size_of::<SegmentFound>())
        .chain(plan_at..plan_at + plan_bytes);
    for at in covered {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at as u64).unwrap();
        for bit in [0x01, 0x80] {
            file.write_all_at(&[byte[0] ^ bit], at as u64).unwrap();
            assert!(sealed(&pool, 0).is_none(), "byte {at}");
        }
        file.write_all_at(&byte, at as u64).unwrap();
    }
    assert!(sealed(&pool, 0).is_some());
    // The numbers are out of range, with or without a seal.
    for at in (CONTROL_AT..CONTROL_AT + offset_of!(ShardFound, seal)).step_by(4).skip(1) {
        let mut number = [0; 4];
        file.read_exact_at(&mut number, at as u64).unwrap();
        file.write_all_at(&[0xff; 4], at as u64).unwrap();
        assert!(sealed(&pool, 0).is_none(), "number at {at}");
        file.write_all_at(&number, at as u64).unwrap();
    }
    // A file that claims to be longer than any memory is refused too.
    file.set_len(1 << 50).unwrap();
    let plan_bytes_at = (CONTROL_AT + offset_of!(ShardFound, plan_bytes)) as u64;
    for (bytes, is_there) in [(1_u64 << 49, false), (plan_bytes as u64, true)] {
        file.write_all_at(&bytes.to_ne_bytes(), plan_bytes_at).unwrap();
        assert_eq!(sealed(&pool, 0).is_some(), is_there);
    }
}

#[test]
fn a_record_that_was_cut_short_is_none() {
    let directory = memory();
    let pool = pool(&directory, 1, 3);
    let mut record = RankRecord::create(&pool, 0).unwrap();
    let chunk = take(&pool);
    stage(&mut record, &chunk).seal(&plan()).unwrap();
    let (file, parts) = (file_of(&pool, 0), Parts::new(ROWS, SEGMENTS_MAX).unwrap());
    // After a short plan there is room for a longer one.
    let plan_end = parts.plan_at + postcard::to_stdvec(&plan()).unwrap().len() as u64;
    let ends = [plan_end - 1, parts.plan_at, parts.done_at, parts.table_at, 4096, 4095, 1000, 0];
    // The mapping is no longer used: its memory must not be touched beyond the end of the file.
    std::mem::forget(record);
    for end in ends {
        file.set_len(end).unwrap();
        assert!(sealed(&pool, 0).is_none(), "{end} bytes");
    }
}
