//! Whether a space has room for the next revision beside what is held.

use crate::{
    commit::RevisionKey,
    restore::{RevisionSurvey, SpaceSurvey},
    space::format::{Catalogue, blocks_for},
};

/// Whether the next revision of a job like the last one finds room, in every portion of the newest
/// layout, once all of `held` are older than what the job keeps.
pub(super) fn is_left(survey: &SpaceSurvey, held: &[RevisionKey]) -> bool {
    let Some(newest) = survey.newest() else { return true };
    let keep = keep(survey, newest.layout);
    let of_layout = |revision: &&RevisionSurvey| revision.complete && revision.layout == newest.layout;
    let held = |revision: &&RevisionSurvey| held.contains(&revision.key);
    let held: Vec<&RevisionSurvey> = survey.revisions.iter().filter(of_layout).filter(held).collect();
    newest.shards.iter().all(|shard| {
        let of_rank = held.iter().flat_map(|revision| &revision.shards).filter(|other| other.shard == shard.shard);
        let taken: u64 = of_rank.map(|other| other.blocks()).sum();
        // Two roots in the slots and two on the way, as at the making of a portion.
        let catalogues = 4 * blocks_for(Catalogue::bytes_for(keep + 2 + held.len()));
        taken + (keep as u64 + 1) * shard.blocks() + catalogues <= shard.portion_blocks()
    })
}

/// How many revisions the last job kept: its last root led to those and to the one that it published, and
/// to older ones that were held.
fn keep(survey: &SpaceSurvey, layout: [u8; 16]) -> usize {
    let in_root =
        |revision: &&RevisionSurvey| revision.layout == layout && revision.complete && revision.is_in_newest_roots();
    let in_root: Vec<&RevisionSurvey> = survey.revisions.iter().filter(in_root).collect();
    // Older than all that are not held are those that stay for the holds alone.
    in_root.iter().rposition(|revision| !revision.held).unwrap_or(0).max(1)
}
