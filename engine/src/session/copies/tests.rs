//! A shard that comes in pieces, with any number of them present at once.

use super::{
    post::{Piece, Post},
    replica::ArrivingReplica,
    words::Announced,
};
use crate::{
    capture::Contents,
    commit::RevisionKey,
    device::Disk,
    error::{Error, ErrorKind, Failure, Result},
    feed::{Feeder, Landing},
    group::Solo,
    restore::pour,
    space::format::{
        Annex, BLOCK_BYTES, ElementType, Extent, HASH_BYTES, Hash, Item, ItemKind, Lineage, PhaseRecord, hash,
        hash_blocks,
    },
};
use std::sync::{Arc, Mutex};

const BLOCKS: u64 = 300;
const PIECE: u64 = 7 * BLOCK_BYTES;

fn log() -> Vec<u8> {
    (0..BLOCKS * BLOCK_BYTES).map(|at| (at / 8 * 31) as u8).collect()
}

/// Announces a shard with this log, and returns the memory for its pieces.
fn announced(held: &mut ArrivingReplica, log: &[u8]) -> Result<Vec<Piece>> {
    let mut rows = vec![0; BLOCKS as usize * HASH_BYTES];
    hash_blocks(log, &mut rows);
    announced_of(held, log.len() as u64, hash(&rows), PIECE)
}

fn announced_of(held: &mut ArrivingReplica, bytes: u64, hash: Hash, piece: u64) -> Result<Vec<Piece>> {
    let key = RevisionKey::new(Lineage { number: 1, id: [7; 16] }, 1);
    let item = Item {
        name: "x".to_owned(),
        kind: ItemKind::Region,
        element: ElementType::Bytes,
        bytes,
        shape: Vec::new(),
        place: None,
        same_on_all_ranks: false,
        extents: vec![Extent { at: 0, bytes }],
    };
    let blocks = bytes / BLOCK_BYTES;
    let contents = Contents { items: vec![item], blocks, shared: 0..0, is_outline: false, annex: Annex::default() };
    let announced = Announced {
        level: 0,
        key,
        shards: 1,
        contents: contents.encode(),
        hash,
        phases: PhaseRecord::default(),
        carried: None,
        pieces: (0..bytes).step_by(piece as usize).map(|at| (at, piece.min(bytes - at))).collect(),
    };
    held.take_on(announced, key)
}

fn fill(piece: &mut Piece, log: &[u8]) {
    let into = match &mut piece.memory {
        Landing::Portion(mapped) => mapped.as_mut(),
        Landing::Own(own, bytes) | Landing::Spread(own, bytes, ..) => &mut own[..*bytes as usize],
    };
    into.copy_from_slice(&log[piece.at as usize..][..into.len()]);
}

fn feeder(threads: usize) -> Feeder {
    if threads == 0 { Feeder::without_thread() } else { Feeder::start(threads).unwrap() }
}

fn to_read() -> (tempfile::TempDir, ArrivingReplica) {
    let directory = tempfile::tempdir().unwrap();
    let device = Arc::new(Disk::existing(directory.path()));
    (directory, ArrivingReplica::to_read(0, 0, device, 2))
}

/// The log as read once all of it has come, if `sent` are the bytes that were sent.
fn received(sent: &[u8], threads: usize, is_mapped: bool) -> Result<Vec<u8>> {
    let (_directory, mut held) = to_read();
    let feeder = feeder(threads);
    for mut piece in announced(&mut held, &log()).unwrap() {
        if !is_mapped {
            let bytes = PIECE.min(BLOCKS * BLOCK_BYTES - piece.at);
            piece.memory = Landing::Own(super::post::room_for_piece(bytes, 0).unwrap(), bytes);
        }
        fill(&mut piece, sent);
        held.take(piece, &feeder);
        held.finish(&feeder);
    }
    let (portion, kept) = held.published()?;
    let manifest = portion.read_manifest(&kept.entry)?;
    let (first, found) = (manifest.runs[0].first_block * BLOCK_BYTES, Mutex::new(vec![0; sent.len()]));
    pour(&portion, &manifest, &|at, bytes| {
        found.lock().unwrap()[(at - first) as usize..][..bytes.len()].copy_from_slice(bytes);
    })?;
    Ok(found.into_inner().unwrap())
}

#[test]
fn a_shard_that_comes_in_pieces_is_there_whole_or_damaged() {
    for (threads, is_mapped) in [(0, true), (1, true), (3, true), (0, false), (3, false)] {
        assert!(received(&log(), threads, is_mapped).unwrap() == log(), "{threads} threads");
        for at in [0, 150 * BLOCK_BYTES + 5, BLOCKS * BLOCK_BYTES - 1] {
            let mut sent = log();
            sent[at as usize] ^= 1;
            match received(&sent, threads, is_mapped) {
                Err(Error::NotSaved { failure, .. }) => {
                    assert_eq!(failure.kind, ErrorKind::Damaged, "{threads} threads")
                }
                other => panic!("byte {at}, {threads} threads: {:?}", other.map(drop)),
            }
        }
    }
}

#[test]
fn a_shard_that_is_given_up_takes_no_pieces_over() {
    for threads in [0, 1, 3] {
        let (_directory, mut held) = to_read();
        let feeder = feeder(threads);
        let mut pieces = announced(&mut held, &log()).unwrap();
        for mut piece in pieces.drain(..10) {
            fill(&mut piece, &log());
            held.take(piece, &feeder);
        }
        let cause = Error::Internal { what: "a test".to_owned() };
        held.give_up(Error::OnRank { rank: 0, failure: Failure::from(&cause) });
        pieces.drain(..).for_each(|piece| held.take(piece, &feeder));
        held.finish(&feeder);
        assert!(held.is_there());
        held.published().map(drop).unwrap_err();
    }
}

#[test]
fn a_piece_without_room_fails_the_messages_for_good() {
    let (_directory, mut held) = to_read();
    let bytes = 1 << 50; // more than any address space has
    let failed = announced_of(&mut held, bytes, Hash::default(), bytes).map(drop);
    let mut post = Post::default();
    post.note(failed).unwrap_err();
    let again = post.is_through(&Solo).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::GroupFailed, "{again}");
}
