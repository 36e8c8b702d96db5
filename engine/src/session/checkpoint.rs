//! One checkpoint, from t1 to t2. The I/O threads do the rest, until t3.

use super::{
    agreement::Agreement, attempt::Attempt, entry::Call, open_checkpoint::OpenCheckpoint, state::SessionState,
};
use crate::{
    capture::Size,
    commit::RevisionKey,
    error::{Error, Result},
    feed::Source,
    group::agree,
    place::{Shard, Site},
    stage::{Staging, TouchOrder},
};
use std::sync::Arc;

impl SessionState {
    /// Stages one piece of a stream. Local.
    pub(super) fn write(&mut self, name: &str, offset: u64, bytes: &[u8]) -> Result<()> {
        let Some(mut begun) = self.program.begun.take() else {
            return Err(Error::argument("write", "no checkpoint has begun; call begin first, on all ranks"));
        };
        let written = match &mut begun.staging {
            Ok(staging) => {
                let regions = self.program.regions.all();
                self.resources.with_hands(&self.levels, |tools| staging.write(tools, name, offset, bytes, regions))
            }
            Err(error) => Err(error.clone()),
        };
        if let (Err(error), Ok(staging)) = (&written, &begun.staging) {
            staging.shard().fail(error.clone());
        }
        self.program.begun = Some(begun);
        written
    }

    /// Saves the regions, after the pieces that the program wrote before. Returns at t2.
    pub(super) fn checkpoint(&mut self, ready: Result<()>) -> Result<u64> {
        let ready = match self.program.begun {
            // The program went on after t1, and may have moved its regions.
            Some(_) => ready.and_then(|()| self.program.look_again()),
            None => self.begin(Call::Checkpoint, 0, ready).map(drop),
        };
        self.finish(ready)
    }

    /// Finishes the checkpoint that began, if there is one.
    pub(super) fn finish(&mut self, ready: Result<()>) -> Result<u64> {
        let Some(begun) = self.program.begun.take() else { return ready.map(|()| 0) };
        let OpenCheckpoint { number, mut staging, feeds, compared } = begun;
        let mut ready = ready;
        if let (Some(compared), Some(changing), Ok(staging), Ok(())) =
            (&compared, &mut self.resources.changing, &mut staging, &ready)
        {
            let (regions, whole) = (self.program.regions.all(), staging.shard().size().clone());
            let plan = changing.plan_late(compared, number, regions, &whole, self.resources.policy.small_below);
            match plan {
                Ok(plan) => staging.plan_regions(plan),
                Err(error) => ready = Err(error),
            }
        }
        let source = staging.as_ref().map(|staging| staging.shard().clone()).map_err(Error::clone);
        if let (Some(changing), Ok(shard)) = (&mut self.resources.changing, &source) {
            changing.staged(shard, self.levels.nearest(), self.program.regions.all());
        }
        let staged = self.stage(staging, ready);
        self.program.knows_failure = staged.is_err();
        // The journal has the revision too, unless the job is killed before the journal is written.
        if let (Some(report), Ok(shard), Ok(())) = (&self.report, &source, &staged) {
            let key = RevisionKey::new(self.epoch.lineage, number);
            report.checkpoint(key, shard.phases().perceived_ns);
        }
        self.feed(staged.clone().and(source), feeds);
        // So from the second revision on, a copy finds its pages in memory.
        self.resources.touch(&self.levels, TouchOrder::EndFirst);
        // Other copies move on in later calls. Receiving them here would delay the program as long as other ranks send.
        self.copy_now(Call::Checkpoint).and(staged).map(|()| number)
    }

    /// Feeds the farther levels of `feeds` from `source`. A level that cannot be fed notes the reason.
    fn feed(&mut self, source: Result<Arc<Shard>>, feeds: Vec<(usize, Vec<(Site, Size)>)>) {
        let (_, farther) = self.levels.split();
        for (index, mut sites) in feeds {
            let level = &mut farther[index - 1];
            level.saving = Some(match level.feeding.under_feed.filter(|_| level.is_copy()) {
                Some(key) => {
                    let source = Some(source.clone().map(Source::UnderWay));
                    let (post, rank) = (&mut self.epoch.post, self.epoch.group.rank());
                    let owners = level.location.writers.shards_of(rank).into_iter().zip(sites);
                    let sites = owners.map(|(owner, (site, size))| (owner, site, size)).collect();
                    Attempt::Copying(level.begin_copying(post, (index, rank), key, source, sites))
                }
                None => {
                    let (site, size) = sites.swap_remove(0);
                    let fed = source
                        .clone()
                        .and_then(|source| self.resources.feed(index, Source::UnderWay(source), size, site));
                    fed.map_or_else(Attempt::Failed, Attempt::Running)
                }
            });
        }
    }

    /// Stages the rest of the shard that `staging` began. Gives the shard up if `ready` is an error.
    fn stage(&mut self, staging: Result<Staging>, ready: Result<()>) -> Result<()> {
        let staging = staging.inspect_err(|error| {
            self.resources.end_copying();
            self.levels.nearest_mut().saving = Some(Attempt::Failed(error.clone()));
        })?;
        let (saving, profile, regions) = (staging.shard().clone(), self.profile(), self.program.regions.all());
        self.resources.with_hands(&self.levels, |tools| match ready {
            Ok(()) => staging.finish(tools, regions, profile),
            Err(error) => staging.abandon(tools, error),
        });
        let outcome = match saving.failure() {
            Some(error) => Err(error.clone()),
            None => saving.poll().unwrap_or(Ok(())),
        };
        self.levels.nearest_mut().saving = Some(Attempt::Running(saving));
        outcome
    }

    /// Gives up the checkpoint that began, and waits until nothing writes for it any more: the next one may get the
    /// same blocks. Collective, because otherwise the revision would exist on some ranks only.
    pub(super) fn abandon(&mut self) -> Result<()> {
        let had_begun = self.program.begun.is_some();
        let arrival = self.arrive(Call::Abandon)?;
        let ready = self.program.ready();
        let (not_ready, had_not_begun) = (ready.is_err().into(), (!had_begun).into());
        let mine = Agreement { not_ready, had_begun: had_begun.into(), had_not_begun, ..Agreement::default() };
        let (entry, agreed) = self.enter(arrival, mine)?;
        let group = self.epoch.group.with(&entry);
        let all = agreed.all;
        if !all.had_begun.is_set() {
            agreed.previous(group)?;
        }
        let nothing = || Error::argument("abandon", "no checkpoint has begun; call begin first, on all ranks");
        let given_up = ready.and(if had_begun { Ok(()) } else { Err(nothing()) });
        if all.had_not_begun.is_set() || all.not_ready.is_set() { agree(group, given_up) } else { Ok(()) }
    }

    /// Fails a checkpoint that began and was not finished, for example after an exception that skipped `checkpoint`.
    /// This may have happened on this rank alone. If this rank refused the call, the others would wait for it. If it
    /// dropped the checkpoint silently, they would take the revision for complete. On ranks that have finished the
    /// checkpoint this does nothing.
    pub(super) fn fail_unfinished(&mut self) {
        if let Some(OpenCheckpoint { staging, feeds, .. }) = self.program.begun.take() {
            let why =
                "the checkpoint before was not finished, and is given up; end each with checkpoint, or with abandon";
            let given_up = Error::argument("begin", why);
            // The call that settles the revision reports the error.
            let _ = self.stage(staging, Err(given_up.clone()));
            self.program.knows_failure = false;
            // Holders wait for the shards announced at t1. Nothing waits for the other levels.
            let copies = feeds.into_iter().filter(|(index, _)| self.levels.at(*index).is_copy()).collect();
            self.feed(Err(given_up), copies);
        }
    }
}
