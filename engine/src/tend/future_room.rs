//! Whether future checkpoints will have room beside the held revisions, judged from the space alone.

use crate::{
    capture::Size,
    commit::{Counted, Kept, Need, RUNS, RevisionKey, Stays, lacking},
    space::format::{ItemKind, Manifest},
    survey::{RevisionSurvey, ShardSurvey, SpaceSurvey},
};

/// Whether a job like the last one keeps finding room, in every portion of the newest layout, while all of `held` are
/// held. Revisions in an older layout take none of that room.
pub(super) fn is_left(survey: &SpaceSurvey, held: &[RevisionKey]) -> bool {
    let Some(newest) = survey.newest() else { return true };
    if survey.layouts.last().is_some_and(|layout| layout.header.layout_id != newest.layout) {
        return true;
    }
    let (keep, ends) = (keep(survey, newest), ends(newest));
    let complete: Vec<&RevisionSurvey> = survey.revisions.iter().filter(|revision| revision.complete).collect();
    let (kept, older) = complete.split_at(keep.min(complete.len()));
    let is_held = |revision: &RevisionSurvey| held.contains(&revision.key);
    newest.shards.iter().all(|shard| {
        // Blocks that revisions share are counted with the one that stays longest.
        let mut counted = Counted::default();
        let mut blocks = |revision| match in_portion(revision, newest, shard) {
            Some(shard) => kept_of(shard).map_or_else(|| shard.blocks(), |kept| counted.add(&kept)),
            None => 0,
        };
        let besides: Vec<u64> =
            older.iter().filter(|revision| is_held(revision)).map(|revision| blocks(revision)).collect();
        let mut stay: Vec<Stays> = kept.iter().map(|revision| Stays { blocks: 0, held: is_held(revision) }).collect();
        for held in [true, false] {
            for (revision, stays) in kept.iter().zip(&mut stay).filter(|(_, stays)| stays.held == held) {
                stays.blocks = blocks(revision);
            }
        }
        let whole = kept.iter().filter_map(|revision| in_portion(revision, newest, shard)).map(taken).max();
        let largest = whole.unwrap_or(0).max(set_aside(shard)) + ends;
        lacking(shard.portion_blocks(), &stay, &besides, &[], keep, [largest; 2]) == 0
    })
}

/// The shard of `revision` in the same portion as `shard` of the `newest` one; none if the layouts differ.
fn in_portion<'a>(
    revision: &'a RevisionSurvey,
    newest: &RevisionSurvey,
    shard: &ShardSurvey,
) -> Option<&'a ShardSurvey> {
    let mut shards = revision.shards.iter().filter(|_| revision.layout == newest.layout);
    shards.find(|other| other.shard == shard.shard)
}

/// A shard with all blocks that stay with it; `None` if it was let go or cannot be read.
fn kept_of(shard: &ShardSurvey) -> Option<Kept> {
    shard.manifest().ok().flatten().map(|manifest| Kept::of(shard.entry().clone(), &manifest))
}

/// Number of blocks that stay with a shard, including neighbours that were compressed together with its own.
fn taken(shard: &ShardSurvey) -> u64 {
    kept_of(shard).map_or(0, |kept| kept.count()).max(shard.blocks())
}

/// Number of blocks that a job reserves for a compressed shard like this one: as many as it has if nothing becomes
/// smaller. 0 for an uncompressed shard.
fn set_aside(shard: &ShardSurvey) -> u64 {
    let Some(Manifest { items, annex, .. }) = shard.manifest().ok().flatten().filter(|found| !found.frames.is_empty())
    else {
        return 0;
    };
    Need::of(&Size::of_items(items, annex), RUNS).blocks()
}

/// Number of blocks that a job reserves for a shard beyond those that the last one used: data that is written in pieces
/// may or may not end on a block.
fn ends(newest: &RevisionSurvey) -> u64 {
    const ENDS: u64 = 3;
    let manifests = newest.shards.iter().filter_map(|shard| shard.manifest().ok().flatten());
    let is_in_pieces = manifests.flat_map(|manifest| manifest.items).any(|item| item.kind == ItemKind::Stream);
    if is_in_pieces { ENDS } else { 0 }
}

/// Number of revisions that the last job kept. For a build that did not record it, this is a guess: its last root
/// referred to those and to the revision that it published, and to older held ones.
fn keep(survey: &SpaceSurvey, newest: &RevisionSurvey) -> usize {
    let manifest = newest.shards.first().and_then(|shard| shard.manifest().ok().flatten());
    if let Some(keep) = manifest.and_then(|manifest| manifest.annex.profile?.keep) {
        return keep.into();
    }
    let in_root = |revision: &&RevisionSurvey| {
        revision.layout == newest.layout && revision.complete && revision.is_in_newest_roots()
    };
    let in_root: Vec<&RevisionSurvey> = survey.revisions.iter().filter(in_root).collect();
    // Revisions older than all that are not held stay only because of the holds.
    in_root.iter().rposition(|revision| !revision.held).unwrap_or(0).max(1)
}
