//! Decides each rank's part of a revision that other ranks have saved.

use super::{Redistribution, SavedShard};
use crate::{
    boxes::{Cells, Rows, Uncovered, cover},
    capture::{Region, is_single},
    error::{Error, Result},
    plural::count,
    restore::regions::{is_same, saved_as},
    space::format::{Hash, Item, ItemKind, OutputLength},
};
use std::collections::{BTreeMap, BTreeSet};

/// Advice for a region that another number of ranks cannot take over.
const DIVIDE: &str = "protect it as a box (mainstay_protect_box, in Python protect with global_shape and offset), or protect it only \
                      after the restore, and read it from the shards (mainstay_read_shard, in Python read_shard)";
const SAY_SAME: &str = "declare it the same on all ranks (mainstay_same_on_all_ranks, in Python same_on_all_ranks), protect it as a \
                        box (mainstay_protect_box, in Python protect with global_shape and offset), or protect it only after the \
                        restore, and read it from the shards (mainstay_read_shard, in Python read_shard)";

/// A revision as one rank sees it.
pub(crate) struct Sharing<'a> {
    pub(crate) path: &'a str,
    pub(crate) revision: u64,
    /// All shards of the revision, by number.
    pub(crate) shards: &'a [SavedShard],
    /// The shards with bytes that this rank can get.
    pub(crate) in_sight: BTreeSet<u32>,
    /// Those of them that no other rank has to send.
    pub(crate) at_hand: BTreeSet<u32>,
    /// Hashes of the items that count as the same on all ranks if their bytes are, by shard and name.
    pub(crate) contents: &'a BTreeMap<(u32, String), Hash>,
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
}

/// The part of a rank that protects `regions`.
pub(crate) fn share_of<'a>(sharing: &Sharing<'_>, regions: &'a [Region]) -> Result<Redistribution<'a>> {
    let mut share = Redistribution::default();
    let mut missing = sharing.names();
    for region in regions {
        let name = region.description.name.as_str();
        let items = sharing.items(name);
        let Some((_, first)) = items.first() else {
            let why =
                format!("is protected and not in revision {}; protect it only after the restore", sharing.revision);
            return Err(Error::RegionMissing { name: name.to_owned(), why });
        };
        missing.remove(name);
        sharing.check_alike(region, &items)?;
        match (&first.place, &region.description.place) {
            (Some(_), Some(_)) => sharing.place(region, &items, &mut share)?,
            _ => sharing.whole(region, &items, &mut share)?,
        }
    }
    // With another number of ranks, a rank may lack an item that not every rank had to protect.
    let needed = |name: &&&str| sharing.items(name).iter().any(|(shard, item)| sharing.is_needed(*shard, item));
    match missing.iter().find(needed) {
        None => Ok(share),
        Some(name) => {
            let why = format!(
                "is in revision {} and not protected; protect it before the restore, or open another space",
                sharing.revision
            );
            Err(Error::RegionMissing { name: (*name).to_owned(), why })
        }
    }
}

/// The bytes for the one box `region`, which need not belong to a rank.
pub(crate) fn box_of<'a>(sharing: &Sharing<'_>, region: &'a Region) -> Result<Redistribution<'a>> {
    let (items, mut wanted) = (sharing.items(&region.description.name), Redistribution::default());
    sharing.check_alike(region, &items)?;
    sharing.place(region, &items, &mut wanted)?;
    Ok(wanted)
}

/// Whether the saved item counts as the same on all ranks if its bytes are.
pub(crate) fn counts_as_same(item: &Item) -> bool {
    item.same_on_all_ranks || is_single(item.element, item.bytes)
}

fn is_of_rank_0(items: &[(u32, &Item)]) -> bool {
    matches!(items, [(0, _)])
}

impl<'s> Sharing<'s> {
    pub(crate) fn same_ranks(&self) -> bool {
        self.shards.len() == self.ranks as usize
    }

    /// The names of the regions of all shards.
    fn names(&self) -> BTreeSet<&'s str> {
        let items = self.shards.iter().flat_map(|shard| &shard.items);
        items.filter(|item| item.kind == ItemKind::Region).map(|item| item.name.as_str()).collect()
    }

    /// The shards with the item, in their order.
    fn items(&self, name: &str) -> Vec<(u32, &'s Item)> {
        let of = |shard: &'s SavedShard| {
            let item = shard.item(name).filter(|item| item.kind != ItemKind::Stream)?;
            Some((shard.entry.shard, item))
        };
        self.shards.iter().filter_map(of).collect()
    }

    /// Whether the program must protect the item on this rank. If only some ranks had a part of a global array, not all
    /// ranks need one. If only rank 0 of several had the item, only rank 0 needs it. Items that each rank kept for
    /// itself cannot be restored to another number of ranks, but can be read from the shards.
    fn is_needed(&self, shard: u32, item: &Item) -> bool {
        let items = self.items(&item.name);
        let all_had_it = items.len() == self.shards.len();
        match (item.place.is_some(), self.same_ranks()) {
            (true, _) => all_had_it,
            (false, true) => shard == self.rank,
            (false, false) if all_had_it => {
                let is_mine = self.rank == 0 || items.len() > 1;
                is_mine && self.is_said_same(&items) && self.other_bytes(&item.name, &items).is_none()
            }
            (false, false) => self.rank == 0 && is_of_rank_0(&items),
        }
    }

    /// Refuses an item unless all shards and the program describe it as the same global array.
    fn check_alike(&self, region: &Region, items: &[(u32, &Item)]) -> Result<()> {
        let now = &region.description;
        let changed = |saved: String| Err(Error::RegionChanged { name: now.name.clone(), saved, now: now.kind() });
        let global = |item: &Item| item.place.as_ref().map(|place| place.global_shape.clone());
        let [(first, one), others @ ..] = items else { return Ok(()) };
        for (shard, other) in others {
            let apart = one.place.is_none() && other.place.is_none() && self.same_ranks();
            let alike = apart || (one.element == other.element && global(one) == global(other));
            if !alike {
                return changed(format!(
                    "{} by rank {first} and as {} by rank {shard}",
                    saved_as(one),
                    saved_as(other)
                ));
            }
        }
        let now_global = now.place.as_ref().map(|place| place.global_shape.clone());
        let is_same = match (&one.place, &now.place) {
            (Some(_), Some(_)) => one.element == now.element && global(one) == now_global,
            (None, None) => true,
            _ => self.same_ranks(),
        };
        if is_same { Ok(()) } else { changed(saved_as(one)) }
    }

    /// The cells of a box, from the saved boxes.
    fn place<'a>(&self, region: &'a Region, items: &[(u32, &Item)], into: &mut Redistribution<'a>) -> Result<()> {
        let now = &region.description;
        let cells_of = |item: &Item| item.place.as_ref().and_then(|place| Cells::of(&item.shape, place));
        let Some(wanted) = now.place.as_ref().and_then(|place| Cells::of(&now.shape, place)) else { return Ok(()) };
        let saved: Vec<Option<Cells>> = items.iter().map(|(_, item)| cells_of(item)).collect();
        let parts = cover(&wanted, &saved).map_err(|uncovered| self.uncovered(&now.name, &wanted, &uncovered))?;
        for (index, shared) in parts {
            let (shard, item) = items[index];
            if !self.in_sight.contains(&shard) {
                return Err(self.out_of_sight(shard));
            }
            if let Some(source) = &saved[index] {
                into.add(shard, &item.name, region, Rows::new(&shared, source, &wanted, now.element.size()));
            }
        }
        Ok(())
    }

    fn uncovered(&self, name: &str, wanted: &Cells, uncovered: &Uncovered) -> Error {
        let (revision, ranks) = (self.revision, count(self.shards.len() as u64, "rank"));
        let why = match uncovered {
            Uncovered::Missing(cells) => format!(
                "is protected as the box {wanted} of its global array, of which no shard of revision {revision}, saved by \
                 {ranks}, has the cells {cells}; ask for cells that were saved"
            ),
            Uncovered::TooManyPieces => format!(
                "is protected as the box {wanted} of its global array, which the boxes of revision {revision}, saved by \
                 {ranks}, cut into too many pieces; ask for smaller boxes"
            ),
        };
        Error::RegionMissing { name: name.to_owned(), why }
    }

    /// The bytes for an item without a place: those that this rank saved. If the number of ranks has changed, those
    /// that are the same on all ranks, or that only rank 0 had.
    fn whole<'a>(&self, region: &'a Region, items: &[(u32, &Item)], into: &mut Redistribution<'a>) -> Result<()> {
        let now = &region.description;
        let candidates: Vec<&(u32, &Item)> = if self.same_ranks() {
            items.iter().filter(|(shard, _)| *shard == self.rank).collect()
        } else {
            self.check_owner(&now.name, now.same_on_all_ranks, items)?;
            items.iter().collect()
        };
        let Some((_, item)) = candidates.first() else {
            let why = format!("is protected and not in revision {} of this rank", self.revision);
            return Err(Error::RegionMissing { name: now.name.clone(), why });
        };
        if !is_same(item, region) {
            return Err(Error::RegionChanged { name: now.name.clone(), saved: saved_as(item), now: now.kind() });
        }
        if item.bytes == 0 {
            return Ok(());
        }
        // All shards have the same bytes, so the nearest one is used.
        let one_of = |shards: &BTreeSet<u32>| candidates.iter().find(|(shard, _)| shards.contains(shard));
        let nearest = one_of(&self.at_hand).or_else(|| one_of(&self.in_sight));
        let (shard, item) = nearest.ok_or_else(|| self.out_of_sight(candidates[0].0))?;
        into.add(*shard, &item.name, region, Rows::whole(item.bytes));
        Ok(())
    }

    /// An error unless an item without a place is the same on all ranks, as the program declared at the save or
    /// declares now, or belongs only to rank 0, and this is rank 0. No other item has an owner if the number of ranks
    /// changes.
    fn check_owner(&self, name: &str, says_same: bool, items: &[(u32, &Item)]) -> Result<()> {
        let all_had_it = items.len() == self.shards.len();
        let refused = |what: String, advice: &str| {
            let (path, revision) = (self.path.to_owned(), self.revision);
            let (saved, now) = (self.shards.len() as u32, self.ranks);
            let why = format!("region {name:?} is not a box of a global array, and {what}; {advice}");
            Err(Error::RankCount { path, revision, saved, now, why })
        };
        if all_had_it && (says_same || self.is_said_same(items)) {
            let Some(what) = self.other_bytes(name, items) else { return Ok(()) };
            return refused(what, DIVIDE);
        }
        if self.rank == 0 && is_of_rank_0(items) {
            return Ok(());
        }
        let rank = self.rank;
        match items {
            [(0, _)] if all_had_it => {
                refused(format!("rank 0 alone saved it, and rank {rank} protects it, too"), SAY_SAME)
            }
            [(shard, _)] => refused(format!("was saved by rank {shard} alone, and rank {rank} protects it"), DIVIDE),
            _ if all_had_it => refused("each rank saved its own".to_owned(), SAY_SAME),
            _ => {
                refused(format!("was saved by {} of {}", items.len(), count(self.shards.len() as u64, "rank")), DIVIDE)
            }
        }
    }

    /// Whether the item counts as the same on all ranks if its bytes are: the program declared it so, or it is a single
    /// element.
    fn is_said_same(&self, items: &[(u32, &Item)]) -> bool {
        items.iter().any(|(_, item)| counts_as_same(item))
    }

    /// A rank that saved other bytes of the item than the first rank, if there is one.
    fn other_bytes(&self, name: &str, items: &[(u32, &Item)]) -> Option<String> {
        let [(first, one), others @ ..] = items else { return None };
        let content = |shard: u32| self.contents.get(&(shard, name.to_owned()));
        let known = content(*first);
        for (shard, other) in others {
            if one.bytes != other.bytes {
                let what = format!("rank {first} saved {} bytes of it, rank {shard} {}", one.bytes, other.bytes);
                return Some(what);
            }
            if one.bytes > 0 && (known.is_none() || known != content(*shard)) {
                return Some(format!("rank {shard} saved other bytes of it than rank {first}"));
            }
        }
        None
    }

    /// The output files that may belong to this rank.
    pub(crate) fn outputs(&self) -> Vec<OutputLength> {
        let may_be = |shard: &&SavedShard| !self.same_ranks() || shard.entry.shard == self.rank;
        let mut all: Vec<OutputLength> = Vec::new();
        for output in self.shards.iter().filter(may_be).flat_map(|shard| &shard.outputs) {
            if !all.contains(output) {
                all.push(output.clone());
            }
        }
        all
    }

    fn out_of_sight(&self, shard: u32) -> Error {
        Error::OutOfSight { path: self.path.to_owned(), revision: self.revision, shard }
    }
}
