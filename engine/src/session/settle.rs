//! The end of a revision that was begun: waiting for it, polling it, and the end of the session.

use super::{
    agreement::LevelFacts,
    attempt::Attempt,
    entry::Call,
    epoch::Epoch,
    flag::EqualOnAllRanks,
    level::{Level, LevelKind, lost_layout},
    levels::Levels,
    places,
    ranks::Entered,
    record::Record,
    report::Report,
    resources::Resources,
    shard_room::ShardSizes,
    state::SessionState,
    status_reporter::End,
};
use crate::{
    commit::{Complete, Ledger, RevisionKey},
    config::{self, DiskLost, MemoryAfter},
    error::{Error, Result},
    feed::Source,
    ground::lock,
    group::agree,
    mutant::{self, Mutant},
    remark::remark,
};
use std::ops::Range;

impl SessionState {
    /// Waits until the last revision is complete on all of its levels, as a part of `call`. Collective.
    pub(super) fn wait_in(&mut self, call: Call) -> Result<Entered> {
        let ready = self.program.ready();
        self.enter_ready(call, ready)
    }

    /// Waits like `wait_in`, and fails if farther levels did not get a revision. Collective.
    pub(super) fn wait_for_all(&mut self, call: Call) -> Result<()> {
        let ready = self.program.ready();
        let (entry, outcome) = self.enter_waiting(call, None, ready)?;
        if outcome.is_err() {
            // Only one error is reported at a time. A revision that the nearest level did not get cannot reach the
            // farther levels fed from it.
            self.remark_unsaved(&entry);
        }
        outcome?;
        self.copy_passed_over(&entry, call)?;
        self.unsaved(&entry)
    }

    /// Waits until the last revision sent to the level `kind` is complete there, and fails if that level did not get
    /// it. Of the other levels, only the nearest is waited for. Their errors are reported later. Collective.
    pub(super) fn wait_for(&mut self, kind: LevelKind) -> Result<()> {
        // A level that is not open yet has received nothing.
        let is_later = self.later.as_ref().is_some_and(|later| later.has(kind));
        let is_known = if is_later { Ok(()) } else { self.levels.check_kind(kind) };
        let ready = self.program.ready().and(is_known);
        let (entry, outcome) = self.enter_waiting(Call::WaitFor, Some(kind), ready)?;
        outcome?;
        if self.levels.nearest().location.kind == kind {
            self.copy_passed_over(&entry, Call::WaitFor)?;
        }
        self.unsaved_on(&entry, |level| level.location.kind == kind)
    }

    /// Fails if farther levels did not save a revision since the last call: the same on all ranks. Collective if there
    /// is something to report.
    pub(super) fn unsaved(&mut self, entry: &Entered) -> Result<()> {
        self.unsaved_on(entry, |_| true)
    }

    /// As `unsaved`, for the levels that are `asked` for.
    fn unsaved_on(&mut self, entry: &Entered, asked: impl Fn(&Level) -> bool) -> Result<()> {
        let group = self.epoch.group.with(entry);
        let mut unsaved = Ok(());
        for level in self.levels.iter_mut().filter(|level| asked(level)) {
            // The ranks agree on all levels, even after an error, to stay together.
            let outcome = level.history.unsaved.take().map_or(Ok(()), |mine| agree(group, mine));
            level.history.failing.because(&outcome);
            unsaved = unsaved.and(outcome);
        }
        self.tell();
        unsaved
    }

    /// Remarks on revisions that farther levels did not save, because the program does not wait for the report.
    /// Collective if there is something to report.
    pub(super) fn remark_unsaved(&mut self, entry: &Entered) {
        let group = self.epoch.group.with(entry);
        for level in self.levels.iter_mut() {
            let Some(mine) = level.history.unsaved.take() else { continue };
            let outcome = agree(group, mine);
            level.history.failing.because(&outcome);
            let Err(error) = outcome else { continue };
            let text = format!("the level {} did not get its last revision: {error}", level.location.kind.name());
            if level.history.remarked.as_ref() != Some(&text) {
                remark(group.rank(), &text);
                level.history.remarked = Some(text);
            }
        }
    }

    pub(super) fn poll(&mut self) -> Result<bool> {
        if let Some(begun) = &self.program.begun {
            return begun.failure().map_or(Ok(false), Err);
        }
        // Only a group error is possible, and the next collective call reports it.
        let _ = self.progress();
        let level = self.levels.nearest_mut();
        match &level.saving {
            None => Ok(true),
            Some(Attempt::Failed(error)) => Err(error.clone()),
            Some(Attempt::Copying(_)) => Ok(true),
            Some(Attempt::Running(saving)) => match saving.poll() {
                None => Ok(false),
                Some(Ok(())) => level.settle().map(|()| true),
                Some(Err(error)) => Err(error),
            },
        }
    }

    pub(super) fn close(mut self) -> Result<()> {
        let report = self.ending_report();
        self.remark_unsaved_end();
        let closed = self.close_together();
        if matches!(closed, Err(Error::GroupFailed { .. })) && self.close_apart() {
            let rank = self.epoch.group.rank();
            drop(self);
            remark(rank, "ranks failed while the session was closed, and nothing that it has saved is lost");
            report.iter().for_each(Report::left);
            return Ok(());
        }
        drop(self);
        // The ranks have ended the session together even if its last revision failed, but not if a rank is gone.
        let together = !matches!(closed, Err(Error::GroupFailed { .. } | Error::CallMismatch { .. }));
        report.iter().filter(|_| together).for_each(Report::closed);
        closed
    }

    fn close_together(&mut self) -> Result<()> {
        let ready = self.program.ready();
        let (entry, outcome) = self.enter_waiting(Call::Close, None, ready)?;
        let opened = self.open_later(&entry);
        let copied = self.copy_passed_over(&entry, Call::Close);
        let unsaved = copied.and(self.unsaved(&entry));
        let saved = opened.and_then(|()| self.leave_nearest(&entry));
        // A failure is reported, but revisions that are complete only in memory have been saved all the same.
        outcome?;
        let group = self.epoch.group.with(&entry);
        // All levels are ended, even after errors.
        let ended = self.levels.iter_mut().map(Level::end).fold(Ok(()), Result::and);
        let ended = agree(group, ended);
        if matches!(ended, Err(Error::GroupFailed { .. })) && self.program.config.recovery != config::Recovery::Off {
            // Some ranks may have agreed and others not. Each decides by itself whether the job may end
            // (`close_apart`).
            return ended;
        }
        let ended = ended.and(unsaved).and(saved.as_ref().map(drop).map_err(Error::clone));
        let memory_goes = matches!(saved, Ok(true));
        self.announcer.tell(&self.levels, self.epoch.lineage.number, Some(End { memory_goes }));
        // Written before the memory level is removed, because these files may be there.
        self.announcer.close();
        self.announce_end(&entry, memory_goes);
        if memory_goes {
            self.levels.remove_memory(group.rank());
        }
        ended
    }

    /// Closes the session of this rank by itself, after others failed, if the job is to go on without failed ranks.
    /// Returns whether the session has ended well: every saved revision is known to be complete on a level that
    /// outlives the job.
    fn close_apart(&mut self) -> bool {
        if self.program.config.recovery == config::Recovery::Off || self.later.is_some() {
            return false;
        }
        let memory_goes = self.program.config.memory_after != MemoryAfter::Kept;
        let newest = match self.epoch.attempted {
            true => Some(RevisionKey::new(self.epoch.lineage, self.epoch.next_number - 1)),
            false => self.levels.iter().flat_map(Level::keys).max(),
        };
        let stays = |level: &Level| level.location.kind != LevelKind::Memory || !memory_goes;
        // Includes all copies, because the node of a failed rank may be lost.
        let has_it = |level: &Level| level.is_former() || newest.is_none_or(|key| level.has(key));
        let stays_whole = |mut family: Range<usize>| {
            stays(self.levels.at(family.start)) && family.all(|index| has_it(self.levels.at(index)))
        };
        let is_safe = self.program.begun.is_none()
            && self.levels.families().into_iter().any(stays_whole)
            && self.levels.iter().all(|level| level.history.unsaved.is_none())
            // Another rank of this node may already have removed levels that do not stay.
            && self.levels.iter_mut().all(|level| level.end().is_ok() || !stays(level));
        if is_safe {
            self.announcer.tell(&self.levels, self.epoch.lineage.number, Some(End { memory_goes }));
            self.announcer.close();
            self.tell_end_for_lost(memory_goes);
            if memory_goes {
                self.levels.remove_memory(self.epoch.group.rank());
            }
        }
        is_safe
    }

    /// If the nodes' memory is not to outlive the job, saves the newest revision there to the next level that takes it.
    /// So it does with the disks if they may be lost and this job has saved: an earlier revision may be damaged. Returns
    /// whether the memory may be removed. It may if its newest revision, whole or in part, is safe on another level.
    /// Collective.
    fn leave_nearest(&mut self, entry: &Entered) -> Result<bool> {
        let (kind, config) = (self.levels.nearest().location.kind, &self.program.config);
        match kind {
            LevelKind::Memory if mutant::is(Mutant::MemoryFreedUnsaved) => Ok(true),
            LevelKind::Memory if config.memory_after != MemoryAfter::Kept => self.take_farther(entry),
            LevelKind::Disk if config.disk_lost == DiskLost::Accepted && self.epoch.has_saved => {
                self.take_farther(entry).map(|_| false)
            }
            _ => Ok(false),
        }
    }

    /// Saves the newest revision of the nearest level to the next level that takes it. Returns whether it is safe on
    /// another level. Collective.
    fn take_farther(&mut self, entry: &Entered) -> Result<bool> {
        let group = self.epoch.group.with(entry);
        let disks_may_go = self.program.config.disk_lost == DiskLost::Accepted && self.epoch.has_saved;
        let may_go = |level: &Level| match level.location.kind {
            LevelKind::Memory => true,
            LevelKind::Disk => disks_may_go && !mutant::is(Mutant::LeftOnDisks),
            LevelKind::Pfs => false,
        };
        let (nearest, farther) = self.levels.split();
        let holdable = nearest.find(group)?.holdable();
        // A revision that is whole only together with the copies has no single layout.
        let joint =
            nearest.joint.iter().max().map(|key| Complete { key: *key, shards: group.size() as u32, layout: [0; 16] });
        let Some(newest) = holdable.into_iter().chain(joint).max_by_key(|complete| complete.key) else {
            return Ok(true);
        };
        // A copy level does not count: without the level itself there are fewer copies than the setting says.
        let has_it = |level: &Level| {
            let is_newest = level.complete.first().is_some_and(|saved| saved.key >= newest.key);
            !may_go(level) && !level.is_copy() && is_newest
        };
        if let Some(index) = farther.iter().rposition(has_it) {
            return self.copy_newest(entry, index + 1);
        }
        let own = nearest.shard(group.rank() as u32, &newest);
        let own = own.filter(|(_, kept)| kept.entry.shards as usize == group.size());
        let mut lacking = [u64::from(own.is_none())];
        group.all_max(&mut lacking)?;
        let Some((portion, kept)) = own.filter(|_| lacking == [0]) else {
            let (path, number) = (nearest.location.device.path(), newest.key.number);
            let text = format!(
                "revision {number} stays in {path}: it is newer than all others, and other ranks have saved it"
            );
            remark(group.rank(), &text);
            return Ok(false);
        };
        // Levels that stay come first, and of these the ones that regularly take revisions.
        let mut order: Vec<usize> = (0..farther.len()).filter(|index| !farther[*index].is_copy()).collect();
        order.sort_by_key(|index| (may_go(&farther[*index]), farther[*index].location.every == 0));
        let mut failed = Ok(());
        for index in order {
            let (source, level) = (Source::Published(portion.clone(), kept.clone()), &mut farther[index]);
            match level.save_now(&self.epoch, entry, &self.resources, index + 1, source) {
                Ok(()) => {
                    level.complete = level.complete_with(Some(newest.key), group.size());
                    let stays = !may_go(level);
                    let is_safe = self.copy_newest(entry, index + 1)?;
                    // Disks that may be lost are not enough: the program learns why the space did not take it.
                    return if stays { Ok(is_safe) } else { failed.map(|()| is_safe) };
                }
                Err(error @ Error::GroupFailed { .. }) => return Err(error),
                Err(error) => failed = failed.and(Err(error)),
            }
        }
        failed.map(|()| false)
    }
}

impl Level {
    /// Saves `source` on this level, number `index`, and waits for it. An error is the same on all ranks. Collective.
    fn save_now(
        &mut self,
        epoch: &Epoch,
        entry: &Entered,
        resources: &Resources,
        index: usize,
        source: Source,
    ) -> Result<()> {
        let group = epoch.group.with(entry);
        let size = agree(group, source.size())?;
        let allocation = self.have_room(epoch, entry, ShardSizes::of_owner(&size))?.swap_remove(0);
        let site = self.site(0, allocation).ok_or_else(lost_layout)?;
        let fed = resources.feed(index, source, size, site);
        agree(group, fed.and_then(|shard| shard.wait()).map(drop))
    }
}

impl Levels {
    /// Removes the levels in the memory of this node, if `rank` is its first one.
    fn remove_memory(&self, rank: usize) {
        // The job has ended, and files that stay do no harm.
        let in_memory = self.iter().filter(|level| level.location.kind == LevelKind::Memory);
        let delta = in_memory.filter(|level| level.location.domain.leader() == rank);
        delta.for_each(|level| places::remove_with_copies(&*level.location.device));
    }

    /// Gives up the revisions that are being copied to farther levels.
    pub(super) fn give_up_feeding(&mut self) {
        for level in self.split().1 {
            if let Some(Attempt::Running(shard)) = &level.saving {
                shard.fail(Error::GroupFailed { what: "ranks failed before it was saved here".to_owned() });
            }
        }
    }
}

impl Level {
    pub(super) fn last_record(&mut self) -> Option<Record> {
        if let Some(Attempt::Running(saving)) = &self.saving
            && matches!(saving.poll(), Some(Ok(())))
        {
            // The attempt has ended, so this does not wait.
            let _ = self.settle();
        }
        self.history.last
    }

    /// Marks the end of the current portion in order. Does so also for portions taken over from a job that has
    /// certainly ended.
    fn end(&mut self) -> Result<()> {
        self.current_ledgers().try_for_each(|ledger| lock(ledger).end())?;
        if self.location.locks_work {
            // An error here casts no doubt on revisions of this session.
            let held = self.holds.keys();
            let may_end = |other: &&mut Ledger| other.is_begun() && !other.lacks(&held);
            self.files.others.iter_mut().filter(may_end).for_each(|other| drop(other.end()));
        }
        Ok(())
    }

    /// Settles the revision under way on a farther level, from the facts of all ranks.
    pub(super) fn settle_farther(&mut self, facts: &LevelFacts, ranks: usize) {
        if facts.busy.is_set() {
            return;
        }
        self.feeding.under_feed = None;
        if facts.under_way == EqualOnAllRanks::default() && !facts.failed.is_set() {
            return;
        }
        let mine = self.settle();
        let ended = self.saving.take();
        let key = ended.as_ref().and_then(Attempt::key);
        if facts.failed.is_set() || !facts.under_way.is_so() {
            self.history.failing.again(&mine);
            self.history.unsaved = Some(mine);
            // The holder's copy of the last revision may be unreadable, so the next revision is sent whole.
            self.feeding.sent = None;
        } else {
            self.history.failing.is_over();
            if let Some(Attempt::Copying(copying)) = &ended {
                self.feeding.sent = copying.sent();
            }
            self.complete = match (&ended, key) {
                (Some(Attempt::Copying(copying)), Some(key)) if copying.is_again() => self.complete_again(key, ranks),
                _ => self.complete_with(key, ranks),
            };
        }
    }

    /// Waits for this rank's part of the last revision.
    pub(super) fn settle(&mut self) -> Result<()> {
        match &self.saving {
            None => Ok(()),
            Some(Attempt::Failed(error)) => Err(error.clone()),
            // Copies are waited for only in calls that all ranks make (`finish_copies`).
            Some(Attempt::Copying(copying)) => copying.failure(),
            Some(Attempt::Running(saving)) => {
                let phases = saving.wait()?;
                self.history.last = Some(Record { revision: saving.key().number, bytes: saving.item_bytes(), phases });
                Ok(())
            }
        }
    }
}
