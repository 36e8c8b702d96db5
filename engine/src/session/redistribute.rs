//! Restores a revision to another number of ranks than saved, or to other boxes of the global arrays. The ranks
//! exchange the contents of their shards. Each rank fills its regions from the shards that have its cells.
//!
//! Invariant: nothing is filled before every rank knows the source of all its bytes.

use super::{
    damage::{Attempted, Damage, Intact, agree_on_errors, intact},
    level::Level,
    outputs::{Known, cut_outputs, find_outputs},
    program::Program,
    reading::Reading,
    restore::RestoredExtras,
    shard_transfers::{OwnShard, ShardDescriptions, ShardTransfers, StoredShard, WantedShards},
};
use crate::{
    commit::Complete,
    device::Access,
    error::{Error, Result},
    group::{Group, agree, gather, gather_unequal},
    restore::{BlockReader, HashRows, SavedShard, ShardSet, Sharing, counts_as_same, one, share_of},
    space::{
        LayoutFile, Portion,
        format::{Entry, Hash, Item, ItemKind, Manifest, Refusal},
        is_layout, list, open_layout,
    },
};
use std::collections::{BTreeMap, BTreeSet};

impl Level {
    /// Like `restore_one`, for a revision with shards that do not match the present ranks. Collective.
    pub(super) fn redistribute(
        &self,
        group: &dyn Group,
        program: &mut Program,
        candidate: &Complete,
        transfers: &mut ShardTransfers,
    ) -> Attempted<RestoredExtras> {
        let ShardDescriptions { own, shards, contents } = match transfers.descriptions.take() {
            // The missing shards have come; the ranks exchanged the contents in the first attempt.
            Some(descriptions) => descriptions,
            None => {
                let (own, shards) = self.describe_shards(group, candidate, transfers)?;
                let contents = contents(group, program.regions.said_same(), &shards, &own)?;
                ShardDescriptions { own, shards, contents }
            }
        };
        agree(group, self.check_own(group, program, candidate, &shards))?;
        // A program that grows has one size for each rank, or all ranks have the same size, or a box.
        let own_shard = shards.get(group.rank()).or(shards.first());
        agree(group, own_shard.map_or(Ok(()), |saved| program.resize(&saved.items)))?;
        let to_fill = |saved: &SavedShard| program.to_fill(&saved.items, &saved.notes, candidate.key.number);
        let regions = agree(group, own_shard.map_or(Ok(Vec::new()), to_fill))?;
        let outputs = &program.outputs;
        let (portions, parts) = (self.readable(candidate, &shards, transfers), transfers.parts_by_number());
        let sharing = Sharing {
            path: &self.location.device.path(),
            revision: candidate.key.number,
            shards: &shards,
            // Shards of a copy are sent to the ranks that need them.
            in_sight: if transfers.reported.is_some() {
                (0..candidate.shards).collect()
            } else {
                portions.keys().copied().collect()
            },
            // Shards of which only parts came do not count: the choice must be the same as when the parts were
            // requested.
            at_hand: portions.keys().copied().collect(),
            contents: &contents,
            rank: group.rank() as u32,
            ranks: group.size() as u32,
        };
        let share = agree(group, share_of(&sharing, &regions))?;
        let known = if sharing.same_ranks() { Known::OfThisRank } else { Known::OfAll };
        let found = find_outputs(group, outputs, known(sharing.outputs()))?;

        let is_lacking = |shard: &u32| !portions.contains_key(shard) && !parts.contains_key(shard);
        let lacking = share.shards().filter(is_lacking);
        let lacking: WantedShards = lacking.map(|shard| (shard, share.wanted(shard))).collect();
        let mut lacks = [u64::from(transfers.reported.is_some() && !lacking.is_empty())];
        group.all_max(&mut lacks)?;
        if lacks == [1] {
            drop(share);
            transfers.wanted = lacking;
            transfers.descriptions = Some(ShardDescriptions { own, shards, contents });
            return Err(Damage::lacking().into());
        }

        agree(group, program.lay_out_heap(&regions))?;
        let (mut damage, mut failed) = (Damage::default(), Ok(()));
        for shard in share.shards() {
            let pour = |(portion, entry): &(Portion, Entry)| {
                let manifest = portion.read_manifest(entry)?;
                check_description(portion, entry, &manifest, &shards)?;
                share.pour(portion, shard, &manifest, &mut HashRows::new(manifest.runs.len()))
            };
            match portions.get(&shard).or_else(|| parts.get(&shard)).map(pour).map_or(Ok(Ok(())), intact) {
                Ok(Ok(())) => {}
                Ok(Err(what)) => damage.add(what.of(&format!("shard {shard}"))),
                Err(error) => failed = Err(error),
            }
        }
        agree(group, failed)?;
        let damage = Damage::united(gather_unequal(group, &damage)?);
        if !damage.is_empty() {
            return Err(damage.into());
        }
        cut_outputs(group, outputs, &found, candidate.key.number)?;
        let back = back(&sharing, own);
        Ok(RestoredExtras { seen: portions, ..back })
    }

    /// Fails if the program's own variables, or its heap, would go to another number of ranks.
    fn check_own(
        &self,
        group: &dyn Group,
        program: &Program,
        candidate: &Complete,
        shards: &[SavedShard],
    ) -> Result<()> {
        let (saved, now) = (candidate.shards, group.size() as u32);
        if saved == now || !shards.iter().any(|saved| program.is_all_in(&saved.notes)) {
            return Ok(());
        }
        let why = "it holds the program's own variables (mainstay_protect_globals) or its heap, which come back to as many \
                   ranks as saved them: protect by name what other ranks are to go on with";
        Err(Error::RankCount {
            path: self.location.device.path(),
            revision: candidate.key.number,
            saved,
            now,
            why: why.to_owned(),
        })
    }

    /// All ranks exchange the contents of the shards of `candidate`. Returns those that this rank describes, and all by
    /// number. Collective.
    pub(super) fn describe_shards(
        &self,
        group: &dyn Group,
        candidate: &Complete,
        transfers: &ShardTransfers,
    ) -> Attempted<(Vec<OwnShard>, Vec<SavedShard>)> {
        let own = agree_on_errors(group, self.own_shards(candidate, transfers.reported.as_deref()))?;
        let described = own.as_ref().map(|own| own.iter().map(|own| own.saved.clone()).collect::<Vec<SavedShard>>());
        let mut shards = united(gather(group, &described.map_err(Clone::clone))?)?;
        shards.sort_by_key(|saved| saved.entry.shard);
        shards.dedup_by_key(|saved| saved.entry.shard);
        let all: ShardSet = shards.iter().map(|saved| one(saved.entry.shard)).collect();
        if let Some(shard) = all.gaps(candidate.shards).first().map(|gap| gap.start) {
            let path = self.location.device.path();
            return Err(Error::OutOfSight { path, revision: candidate.key.number, shard }.into());
        }
        Ok((own.unwrap_or_default(), shards))
    }

    /// The shards of `candidate` that this rank describes to the others: those assigned to it, or those in the portions
    /// of this rank.
    fn own_shards(&self, candidate: &Complete, reported: Option<&[StoredShard]>) -> Result<Vec<OwnShard>> {
        let mut found = reported.unwrap_or_default().to_vec();
        if reported.is_none() {
            self.each_ledger(|ledger| {
                let portion = ledger.portion();
                let kept = ledger.found().into_iter().find(|kept| kept.key() == candidate.key);
                found.extend(
                    kept.filter(|_| portion.layout_id() == candidate.layout).map(|kept| (portion.clone(), kept)),
                );
            });
        }
        let read = |(portion, kept): StoredShard| {
            let manifest = portion.read_manifest(&kept.entry)?;
            let saved = SavedShard::of(&kept.entry, &manifest);
            Ok(OwnShard { portion, manifest, saved })
        };
        found.into_iter().map(read).collect()
    }

    /// The shards of `candidate` that this rank can read: those of `transfers` if shards are searched one by one, or else
    /// those in the portions of the layout that it sees.
    pub(super) fn readable(
        &self,
        candidate: &Complete,
        shards: &[SavedShard],
        transfers: &ShardTransfers,
    ) -> BTreeMap<u32, (Portion, Entry)> {
        transfers.readable(shards).unwrap_or_else(|| self.seen(candidate, shards))
    }

    /// The shards of `candidate` that this rank can read in the portions of the layout that it sees.
    fn seen(&self, candidate: &Complete, shards: &[SavedShard]) -> BTreeMap<u32, (Portion, Entry)> {
        let layouts = self.files.layouts.iter().filter(|layout| layout.header.layout_id == candidate.layout);
        let mut portions: BTreeMap<u32, Portion> =
            layouts.flat_map(LayoutFile::portions).map(|portion| (portion.rank(), portion)).collect();
        if portions.len() < candidate.shards as usize {
            // In a layout that this session made, each rank has opened only its own file.
            let all = self.files_of_others(candidate.layout);
            all.iter().flat_map(LayoutFile::portions).for_each(|portion| {
                portions.entry(portion.rank()).or_insert(portion);
            });
        }
        let entry = |shard: u32| shards.get(shard as usize).map(|saved| saved.entry.clone());
        portions.into_iter().filter_map(|(rank, portion)| Some((rank, (portion, entry(rank)?)))).collect()
    }

    /// The files of a layout that are in sight and not open yet. If a file cannot be read, its shards are out of sight.
    fn files_of_others(&self, layout: [u8; 16]) -> Vec<LayoutFile> {
        let device = &*self.location.device;
        let is_open = |name: &String| self.files.layouts.iter().any(|layout| layout.name == *name);
        let names = list(device).unwrap_or_default().into_iter().filter(|name| is_layout(name) && !is_open(name));
        let opened = names.filter_map(|name| open_layout(device, name, Access::Read).ok());
        opened.filter(|file| file.header.layout_id == layout && !file.is_cut()).collect()
    }
}

/// Refuses a shard that differs from the description that another rank gave: this rank may read a copy of it in another
/// place.
fn check_description(portion: &Portion, entry: &Entry, manifest: &Manifest, shards: &[SavedShard]) -> Result<()> {
    let is_it = |described: &SavedShard| {
        let is_same = |(item, other): (&Item, &Item)| {
            (&item.name, item.kind, item.element, item.bytes, &item.shape, &item.place)
                == (&other.name, other.kind, other.element, other.bytes, &other.shape, &other.place)
                && item.same_on_all_ranks == other.same_on_all_ranks
        };
        manifest.items.len() == described.items.len() && manifest.items.iter().zip(&described.items).all(is_same)
    };
    if shards.get(entry.shard as usize).is_some_and(is_it) {
        return Ok(());
    }
    Err(portion.refuse(Refusal::Damaged("it is not the one that another rank has told of".into()), "manifest"))
}

/// Hashes of the items that count as the same on all ranks if their bytes are equal. The program said so of an item
/// when it saved, or some rank says so now (`said`). Empty if the number of ranks is the same, or one rank saved the
/// revision. Collective.
fn contents(
    group: &dyn Group,
    said: Vec<String>,
    shards: &[SavedShard],
    own: &[OwnShard],
) -> Attempted<BTreeMap<(u32, String), Hash>> {
    if shards.len() == group.size() || shards.len() == 1 {
        return Ok(BTreeMap::new());
    }
    let said: BTreeSet<String> = gather_unequal(group, &said)?.concat().into_iter().collect();
    let is_common = |name: &str, bytes: u64| {
        let alike = |item: &Item| item.kind != ItemKind::Stream && item.place.is_none() && item.bytes == bytes;
        let items = || shards.iter().map(|saved| saved.item(name));
        let may_be_same = said.contains(name) || items().flatten().any(counts_as_same);
        bytes > 0 && may_be_same && items().all(|item| item.is_some_and(alike))
    };
    let mine = || -> Result<Vec<((u32, String), Hash)>> {
        let mut hashes = Vec::new();
        for own in own {
            let mut blocks = BlockReader::new(own.portion.clone(), &own.manifest);
            for item in own.manifest.items.iter().filter(|item| is_common(&item.name, item.bytes)) {
                let hash = blocks.hash(&item.extents)?;
                hashes.push(((own.saved.entry.shard, item.name.clone()), hash));
            }
        }
        Ok(hashes)
    };
    let mine = agree_on_errors(group, mine())?;
    Ok(united(gather(group, &mine)?)?.into_iter().collect())
}

fn back(sharing: &Sharing<'_>, own: Vec<OwnShard>) -> RestoredExtras {
    if !sharing.same_ranks() {
        let notes = sharing.shards.first().map(|saved| saved.notes.clone()).unwrap_or_default();
        let reading = Reading::OfOtherRanks(sharing.shards.len());
        return RestoredExtras { notes, reading, ..RestoredExtras::default() };
    }
    let (notes, reading) = match own.into_iter().find(|own| own.saved.entry.shard == sharing.rank) {
        Some(own) => (own.saved.notes, Reading::of(sharing.revision, own.portion, own.manifest)),
        None => (Vec::new(), Reading::Nothing),
    };
    RestoredExtras { notes, reading, ..RestoredExtras::default() }
}

/// The parts of all ranks, united. If any rank found damage: all damage.
fn united<T>(parts: Vec<Intact<Vec<T>>>) -> Intact<Vec<T>> {
    let (mut all, mut damage) = (Vec::new(), Damage::default());
    for part in parts {
        match part {
            Ok(part) => all.extend(part),
            Err(what) => damage.add(what),
        }
    }
    if damage.is_empty() { Ok(all) } else { Err(damage) }
}
