//! Makes missing copies again. After a restore, each shard goes to the levels and copies that lack it, while the
//! program goes on. The newest revision also goes to copies that were busy at their turn, if the program waits for
//! them.

use super::{
    attempt::Attempt,
    chosen::Chosen,
    copying::swap_sizes,
    entry::Call,
    level::{Level, lost_layout},
    ranks::Entered,
    shard_room::ShardSizes,
    state::SessionState,
};
use crate::{
    capture::Size,
    commit::{Complete, Kept, RevisionKey},
    error::{Error, Result},
    feed::Source,
    group::{agree, gather_unequal},
    place::Site,
    remark::remark,
    space::Portion,
};
use std::{iter, ops::Range, sync::Arc};

/// A level, the shards that it lacks, and this rank's sites for them: shard, site, size.
type RecopyTarget = (usize, Vec<usize>, Vec<(usize, Site, Size)>);

impl SessionState {
    /// Saves the restored revision again on each level and copy that lacks a shard of it. Reports a copy that cannot be
    /// made; the restore succeeds all the same. Collective.
    pub(super) fn copy_again(&mut self, entry: &Entered, chosen: &Chosen) -> Result<()> {
        let group = self.epoch.group.with(entry);
        let family = self.levels.families().into_iter().find(|family| family.start == chosen.level);
        let Some(family) = family.filter(|_| chosen.is_searched) else { return Ok(()) };
        if chosen.complete.shards as usize != group.size() {
            return Ok(());
        }
        let rank = group.rank();
        let own = self.levels.at(family.start).shard(rank as u32, &chosen.complete);
        let own = agree(group, own.ok_or_else(lost_layout))?;
        let lacking = gather_unequal(group, &self.lacking(family.clone(), chosen))?.concat();
        if lacking.is_empty() {
            return Ok(());
        }
        let size = agree(group, Source::Published(own.0.clone(), own.1.clone()).size())?;
        let mut sites = Vec::new();
        for index in family.clone() {
            let shards: Vec<usize> = lacking.iter().filter(|(level, _)| *level == index).map(|(_, s)| *s).collect();
            if shards.is_empty() {
                continue;
            }
            let made = match index == family.start {
                true => self.save_again(entry, index, &shards, own.clone(), &size),
                false => self.sites_again(entry, index, &shards, &size).map(|found| sites.push((index, shards, found))),
            };
            match made {
                Err(error @ Error::GroupFailed { .. }) => return Err(error),
                Err(error) => {
                    let (number, level) = (chosen.complete.key.number, self.levels.at(index).location.kind.name());
                    remark(rank, &format!("revision {number} has not all of its copies on the level {level}: {error}"));
                }
                Ok(()) => {}
            }
        }
        self.send_again(chosen.complete.key, &own, sites, true);
        Ok(())
    }

    /// Sends the newest revision to the copies of its level that it passed over because they were busy. Waits for them:
    /// a revision that the program waited for survives the loss of a node. Collective.
    pub(super) fn copy_passed_over(&mut self, entry: &Entered, call: Call) -> Result<()> {
        let Some(newest) = self.levels.nearest().complete.first().copied() else { return Ok(()) };
        let lacks = |index: &usize| {
            let level = self.levels.at(*index);
            level.feeding.under_feed.is_none() && level.lacking().any(|key| key == newest.key)
        };
        let lacking: Vec<usize> = self.levels.families().swap_remove(0).filter(lacks).collect();
        self.copy_to(entry, call, 0, newest, lacking)
    }

    /// At the end of the session: sends the newest revision of level `owner` to the copies that lack it. The state
    /// survives the loss of a node even if the memory of the nodes is freed. Waits for the copies and reports those
    /// that failed. Returns whether the memory may be freed. It must stay if copies lack a revision that other ranks
    /// saved. Collective.
    pub(super) fn copy_newest(&mut self, entry: &Entered, owner: usize) -> Result<bool> {
        // An earlier revision may still be on its way.
        self.finish_copies(Call::Close, None)?;
        let Some(newest) = self.levels.at(owner).complete.first().copied() else { return Ok(true) };
        let family = self.levels.families().into_iter().find(|family| family.start == owner);
        let lacks = |index: &usize| {
            let level = self.levels.at(*index);
            let has_it = level.complete.first().is_some_and(|saved| saved.key >= newest.key);
            // No rank writes former copies.
            level.is_copy() && !level.is_former() && !has_it
        };
        let lacking: Vec<usize> = family.into_iter().flatten().filter(lacks).collect();
        if !lacking.is_empty() && !self.all_have(entry, owner, &newest)? {
            let (path, number) = (self.levels.nearest().location.device.path(), newest.key.number);
            let text = format!(
                "revision {number} stays in {path}: not all copies of the level {} have it, and other ranks have saved it",
                self.levels.at(owner).location.kind.name()
            );
            remark(self.epoch.group.rank(), &text);
            return Ok(false);
        }
        self.copy_to(entry, Call::Close, owner, newest, lacking)?;
        self.unsaved(entry).map(|()| true)
    }

    /// Whether each rank has its own shard of the revision `newest` on level `owner`. False if another number of ranks
    /// saved it. Collective.
    fn all_have(&self, entry: &Entered, owner: usize, newest: &Complete) -> Result<bool> {
        let group = self.epoch.group.with(entry);
        let own = self.levels.at(owner).shard(group.rank() as u32, newest);
        let has_own = own.is_some_and(|(_, kept)| kept.entry.shards as usize == group.size());
        let mut lacking = [u64::from(!has_own)];
        group.all_max(&mut lacking)?;
        Ok(lacking == [0])
    }

    /// Sends the revision `newest` of level `owner` to its copies `lacking`, and waits for them. Collective.
    fn copy_to(
        &mut self,
        entry: &Entered,
        call: Call,
        owner: usize,
        newest: Complete,
        lacking: Vec<usize>,
    ) -> Result<()> {
        if lacking.is_empty() {
            return Ok(());
        }
        let group = self.epoch.group.with(entry);
        let shards: Vec<usize> = (0..group.size()).collect();
        let own = agree(group, self.levels.at(owner).shard(group.rank() as u32, &newest).ok_or_else(lost_layout))?;
        let size = agree(group, Source::Published(own.0.clone(), own.1.clone()).size())?;
        let mut sites = Vec::new();
        for index in lacking {
            self.levels.at_mut(index).history.lacks.retain(|key| *key != newest.key);
            match self.sites_again(entry, index, &shards, &size) {
                Err(error @ Error::GroupFailed { .. }) => return Err(error),
                Err(error) => self.levels.at_mut(index).history.unsaved = Some(Err(error)),
                Ok(found) => sites.push((index, shards.clone(), found)),
            }
        }
        self.send_again(newest.key, &own, sites, false);
        self.finish_copies(call, None)
    }

    /// Sends the shards of revision `key` to `sites`. Each entry names a level, the shards that it lacks, and the sites
    /// on this rank. `own`: this rank's shard, sent if the level lacks it. Find all sites before this call: messages
    /// between two ranks keep their order. A size announced later would wait behind shards, which move on only in later
    /// calls.
    fn send_again(&mut self, key: RevisionKey, own: &(Portion, Arc<Kept>), sites: Vec<RecopyTarget>, is_again: bool) {
        let rank = self.epoch.group.rank();
        for (index, shards, sites) in sites {
            let level = self.levels.at_mut(index);
            let source = shards.contains(&rank).then(|| Ok(Source::Published(own.0.clone(), own.1.clone())));
            let mut copying = level.begin_copying(&mut self.epoch.post, (index, rank), key, source, sites);
            copying.is_again = is_again;
            level.feeding.under_feed = Some(key);
            level.saving = Some(Attempt::Copying(copying));
        }
    }

    /// The shards of the revision that are missing from the portions that this rank writes: level and shard.
    fn lacking(&self, family: Range<usize>, chosen: &Chosen) -> Vec<(usize, usize)> {
        let rank = self.epoch.group.rank();
        let of_level = |index: usize| {
            let level = self.levels.at(index);
            let lacks = move |shard: &usize| level.stored(*shard as u32, &chosen.complete).is_none();
            level.location.writers.shards_of(rank).into_iter().filter(lacks).zip(iter::repeat(index))
        };
        family.flat_map(of_level).map(|(shard, index)| (index, shard)).collect()
    }

    /// Saves this rank's shard again on its level in the background, if `shards` contains it. Collective.
    fn save_again(
        &mut self,
        entry: &Entered,
        index: usize,
        shards: &[usize],
        own: (Portion, Arc<Kept>),
        size: &Size,
    ) -> Result<()> {
        let level = self.levels.at_mut(index);
        let allocation = level.have_room(&self.epoch, entry, ShardSizes::of_owner(size))?.swap_remove(0);
        if shards.contains(&self.epoch.group.rank()) {
            let site = level.site(0, allocation).ok_or_else(lost_layout)?;
            let source = Source::Published(own.0, own.1);
            // The nearest level has no thread of its own, so the thread of the next level does it.
            let by = (index + 1).min(self.resources.feeders.len());
            level.mending = Some(self.resources.feed(by, source, size.clone(), site)?);
        }
        Ok(())
    }

    /// This rank's sites for those of the `shards` that it holds. Collective.
    fn sites_again(
        &mut self,
        entry: &Entered,
        index: usize,
        shards: &[usize],
        size: &Size,
    ) -> Result<Vec<(usize, Site, Size)>> {
        let (epoch, level) = (&mut self.epoch, self.levels.at_mut(index));
        let sizes = swap_sizes(epoch.group.with(entry), &mut epoch.post, level, size, entry)?;
        let found = level.have_room(epoch, entry, ShardSizes::of_writer(size, &sizes))?;
        let mut sites = Vec::new();
        for ((written, shard), (allocation, size)) in level
            .location
            .writers
            .shards_of(epoch.group.rank())
            .into_iter()
            .enumerate()
            .zip(found.into_iter().zip(sizes))
        {
            if shards.contains(&shard) {
                sites.push((shard, level.site(written, allocation).ok_or_else(lost_layout)?, size));
            }
        }
        Ok(sites)
    }
}

impl Level {
    /// Waits until the shard that this level lacked is saved again. Reports a failure.
    pub(super) fn end_mending(&mut self) {
        if let Some(Err(error)) = self.mending.take().map(|shard| shard.wait()) {
            remark(
                0,
                &format!(
                    "a shard that was read from a copy is not saved on the level {}: {error}",
                    self.location.kind.name()
                ),
            );
        }
    }
}
