//! The sights of all ranks on a level.

use crate::{
    error::Result,
    group::{Group, Unlike, gather, gather_unlike},
    restore::{ShardSet, Sight, one},
};

/// The sights of all ranks, from this rank's own. `written`: the shards that this rank looks after; each shard has one
/// such rank.
///
/// Most ranks see only their own shard, and all see the same of it. Their sights come as one, with all these shards. Only
/// the other ranks send theirs. Collective.
pub(super) fn gather_sights(group: &dyn Group, mine: &Sight, written: &[usize]) -> Result<Vec<Sight>> {
    let alone = match written {
        [own] => mine.of_shard_alone(*own as u32),
        _ => None,
    };
    let Unlike { first, others } = gather_unlike(group, &alone, &(written.to_vec(), mine.clone()))?;
    let Some(alike) = first else { return gather(group, mine) };
    let of_others: ShardSet = others.iter().flat_map(|(_, (written, _))| written).map(|own| one(*own as u32)).collect();
    let rest = of_others.gaps(group.size() as u32);
    Ok(rest
        .into_iter()
        .map(|shards| alike.with_shards(shards))
        .chain(others.into_iter().map(|(_, (_, sight))| sight))
        .collect())
}
