//! Making copies that are not there: after a restore that had to take shards from copies, or that found a copy missing, each
//! shard goes to where it is lacking, while the program goes on; and what is waited for goes to the copies that were busy
//! when it was their turn.

use super::{
    attempt::Attempt,
    chosen::Chosen,
    copying::swap_sizes,
    entry::Call,
    inner::Inner,
    level::{Level, lost_layout},
    ranks::Entered,
    room::ShardSizes,
};
use crate::{
    capture::Size,
    commit::{Complete, Kept, RevisionKey},
    error::{Error, Result},
    feed::Source,
    group::{agree, gather},
    place::Site,
    remark::remark,
    space::Portion,
};
use std::{iter, ops::Range, sync::Arc};

/// A level, the shards that go there, and where those of them go that this rank holds.
type AgainTo = (usize, Vec<usize>, Vec<(usize, Site, Size)>);

impl Inner {
    /// Has the revision that was restored saved again wherever a shard of it is lacking, on its level and on the copies
    /// of that. What cannot be made again is told, and harms nothing. Collective.
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
        let lacking = gather(group, &self.lacking(family.clone(), chosen))?.concat();
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
                    let (number, level) = (chosen.complete.key.number, self.levels.at(index).kind.name());
                    remark(rank, &format!("revision {number} has not all of its copies on the level {level}: {error}"));
                }
                Ok(()) => {}
            }
        }
        self.send_again(chosen.complete.key, &own, sites, true);
        Ok(())
    }

    /// Brings the newest revision to the copies of its level that it passed over because they were busy: what was waited for
    /// survives the loss of a node. Waits for them. Collective.
    pub(super) fn copy_passed_over(&mut self, entry: &Entered, call: Call) -> Result<()> {
        let Some(newest) = self.levels.nearest().complete.first().copied() else { return Ok(()) };
        let lacks = |index: &usize| {
            let level = self.levels.at(*index);
            level.under_feed.is_none() && level.lacking().any(|key| key == newest.key)
        };
        let lacking: Vec<usize> = self.levels.families().swap_remove(0).filter(lacks).collect();
        self.copy_to(entry, call, 0, newest, lacking)
    }

    /// Brings the newest revision of level number `owner`, at the end of the session, to those of its copies that have not got it:
    /// where the memory of the nodes goes, the loss of a node is survived as before. Waits for them, and tells which did not
    /// get it. Returns whether the memory may go: not if they lack what other ranks have saved, which stays there. Collective.
    pub(super) fn copy_newest(&mut self, entry: &Entered, owner: usize) -> Result<bool> {
        // One before it may still be on its way there.
        self.finish_copies(Call::Close, None)?;
        let Some(newest) = self.levels.at(owner).complete.first().copied() else { return Ok(true) };
        let family = self.levels.families().into_iter().find(|family| family.start == owner);
        let lacks = |index: &usize| {
            let level = self.levels.at(*index);
            let has_it = level.complete.first().is_some_and(|saved| saved.key >= newest.key);
            // Former copies are written by nobody.
            level.is_copy() && !level.is_former() && !has_it
        };
        let lacking: Vec<usize> = family.into_iter().flatten().filter(lacks).collect();
        if !lacking.is_empty() && !self.all_have(entry, owner, &newest)? {
            let (path, number) = (self.levels.nearest().device.path(), newest.key.number);
            let told = format!(
                "revision {number} stays in {path}: not all copies of the level {} have it, and other ranks have saved it",
                self.levels.at(owner).kind.name()
            );
            remark(self.epoch.group.rank(), &told);
            return Ok(false);
        }
        self.copy_to(entry, Call::Close, owner, newest, lacking)?;
        self.unsaved(entry).map(|()| true)
    }

    /// Whether each rank has its own shard of the revision `newest` on level number `owner`: not if other ranks have saved it.
    /// Collective.
    fn all_have(&self, entry: &Entered, owner: usize, newest: &Complete) -> Result<bool> {
        let group = self.epoch.group.with(entry);
        let own = self.levels.at(owner).shard(group.rank() as u32, newest);
        let has_own = own.is_some_and(|(_, kept)| kept.entry.shards as usize == group.size());
        let mut lacking = [u64::from(!has_own)];
        group.all_max(&mut lacking)?;
        Ok(lacking == [0])
    }

    /// Brings the revision `newest` of level number `owner` to its copies `lacking`, and waits for them. Collective.
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
            self.levels.at_mut(index).lacks.retain(|key| *key != newest.key);
            match self.sites_again(entry, index, &shards, &size) {
                Err(error @ Error::GroupFailed { .. }) => return Err(error),
                Err(error) => self.levels.at_mut(index).unsaved = Some(Err(error)),
                Ok(found) => sites.push((index, shards.clone(), found)),
            }
        }
        self.send_again(newest.key, &own, sites, false);
        self.finish_copies(call, None)
    }

    /// Has the shards of the revision `key` sent to `sites`, for each level those that go there and what this rank holds of
    /// them; this rank's `own`, if it is one of them. All sites must have been found: sizes that were told afterwards would
    /// stand behind shards on their way between the same two ranks, and those move on in later calls alone.
    fn send_again(&mut self, key: RevisionKey, own: &(Portion, Arc<Kept>), sites: Vec<AgainTo>, is_again: bool) {
        let rank = self.epoch.group.rank();
        for (index, shards, sites) in sites {
            let level = self.levels.at_mut(index);
            let source = shards.contains(&rank).then(|| Ok(Source::Published(own.0.clone(), own.1.clone())));
            let mut copying = level.begin_copying(&mut self.epoch.post, (index, rank), key, source, sites);
            copying.is_again = is_again;
            level.under_feed = Some(key);
            level.saving = Some(Attempt::Copying(copying));
        }
    }

    /// The shards of the revision that should be in the portions that this rank writes, and are not: level and shard.
    fn lacking(&self, family: Range<usize>, chosen: &Chosen) -> Vec<(usize, usize)> {
        let rank = self.epoch.group.rank();
        let of_level = |index: usize| {
            let level = self.levels.at(index);
            let lacks = move |shard: &usize| level.stored(*shard as u32, &chosen.complete).is_none();
            level.writers.shards_of(rank).into_iter().filter(lacks).zip(iter::repeat(index))
        };
        family.flat_map(of_level).map(|(shard, index)| (index, shard)).collect()
    }

    /// Saves this rank's shard on its level again, if it is one of `shards`, in the background. Collective.
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
            // By the thread of the place after the level: the nearest level has none.
            let by = (index + 1).min(self.means.feeders.len());
            level.mending = Some(self.means.feed(by, source, size.clone(), site)?);
        }
        Ok(())
    }

    /// Where those of the `shards` go that this rank holds. Collective.
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
        for ((written, shard), (allocation, size)) in
            level.writers.shards_of(epoch.group.rank()).into_iter().enumerate().zip(found.into_iter().zip(sizes))
        {
            if shards.contains(&shard) {
                sites.push((shard, level.site(written, allocation).ok_or_else(lost_layout)?, size));
            }
        }
        Ok(sites)
    }
}

impl Level {
    /// Waits until what is made again on this level is there, or has failed, which is told.
    pub(super) fn end_mending(&mut self) {
        if let Some(Err(error)) = self.mending.take().map(|shard| shard.wait()) {
            remark(
                0,
                &format!("a shard that was read from a copy is not saved on the level {}: {error}", self.kind.name()),
            );
        }
    }
}
