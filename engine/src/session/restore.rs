//! Restores the program to the newest complete revision, or to a given one.

use super::{
    choose_revision::{Choices, ask_for_one},
    chosen::Chosen,
    damage::{Attempted, Damage, Intact, Unreadable, agree_on_errors, intact},
    entry::Call,
    level::{Level, LevelKind},
    levels::Levels,
    outputs::{Known, cut_outputs, find_outputs, refuse_shared},
    program::Program,
    ranks::Entered,
    reading::Reading,
    shard_transfers::{ShardTransfers, StoredShard},
    shards::Shards,
    state::SessionState,
};
use crate::{
    capture::{check_pointers, is_own_note},
    commit::Complete,
    error::{Error, ErrorKind, Result},
    ground::{Instant, unix_ns},
    group::{Group, agree, gather_unequal},
    remark::remark,
    restore::{Targets, has_moved, match_regions, pour},
    space::{
        Portion,
        format::{self, Manifest, Note},
    },
    stage::TouchOrder,
    status::Saved,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// The result of `restore`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    pub revision: u64,
    /// The step that the program had last given to `due` when it saved the revision; `None` if it had given none.
    pub step: Option<u64>,
    /// Damaged or unreadable parts of the space, and newer revisions that were passed over for this one.
    pub skipped: Vec<String>,
    /// The notes of this rank's program, by name. If another number of ranks saved the revision, the notes of rank 0.
    pub notes: BTreeMap<String, String>,
}

/// The results of a restore besides regions and output files.
#[derive(Default)]
pub(super) struct RestoredExtras {
    pub(super) notes: Vec<Note>,
    pub(super) reading: Reading,
    /// Shards that this rank has received; of a redistributed or chosen revision also those that it sees.
    pub(super) seen: BTreeMap<u32, (Portion, format::Entry)>,
    /// Those of them that this rank has read whole.
    pub(super) verified: BTreeSet<u32>,
}

/// The outcome of the attempts on the revisions that were found.
struct Attempts {
    found: Choices,
    came: Option<(Chosen, RestoredExtras)>,
    skipped: Damage,
}

impl SessionState {
    /// Tries only `revision` if given, otherwise the newest revision that can be read whole.
    pub(super) fn restore(&mut self, revision: Option<u64>) -> Result<Option<Restored>> {
        let ready = self.program.ready().and_then(|()| self.program.look_to_fill());
        let kept = self.program.globals.keep(&self.program.regions);
        let begun = Instant::now();
        let restored = self.go_back(Call::Restore, revision, ready);
        // The heap's regions are now those of the restored heap.
        let restored = self.program.look_at_heap().and(restored);
        let has_filled = matches!(restored, Ok(Some(_)));
        if let Some(stale) = self.program.globals.mend(&self.program.regions, kept, has_filled) {
            remark(self.epoch.group.rank(), &stale);
        }
        self.has_gone_back(&restored, begun);
        restored
    }

    /// Ends a call that went back to a revision, or tried to. Local.
    pub(super) fn has_gone_back(&mut self, restored: &Result<Option<Restored>>, begun: Instant) {
        self.tell_recovery(restored, begun);
        // The program is back at a checkpoint: the interval starts anew here.
        self.program.due.begin(Instant::now());
        // The pool is allocated only now, because that would have slowed the reads.
        self.resources.begin_pool(&self.program.regions);
        self.resources.touch(&self.levels, TouchOrder::BeginningFirst);
    }

    /// Reports the recovery that this restore ends, if any.
    fn tell_recovery(&mut self, restored: &Result<Option<Restored>>, begun: Instant) {
        let (Some(mut recovery), Ok(restored)) = (self.recovering.take_if(|_| restored.is_ok()), restored) else {
            return;
        };
        recovery.parts.state_ns = (begun.elapsed().as_nanos() as u64).saturating_sub(recovery.parts.copies_ns);
        // The clocks of ranks differ, and the longest regrouping counts.
        let named = recovery.parts.named().iter().map(|(_, ns)| ns).sum();
        recovery.total_ns = unix_ns().saturating_sub(recovery.noticed_unix_ns).max(named);
        recovery.lineage = self.epoch.lineage.number;
        if let Some(restored) = restored {
            recovery.lost = restored.skipped.clone();
        }
        self.has_recovered(recovery);
    }

    /// Goes back to `revision`, or else to the newest one that can be read whole. `call` says whether the regions are
    /// filled from it. Collective.
    pub(super) fn go_back(&mut self, call: Call, revision: Option<u64>, ready: Result<()>) -> Result<Option<Restored>> {
        let begun = Instant::now();
        let entry = self.enter_ready(call, ready)?;
        self.program.restored.reading = Reading::default();
        self.program.restored.shards = Default::default();
        ask_for_one(self.epoch.group.with(&entry), revision)?;
        refuse_shared(self.epoch.group.with(&entry), &mut self.program.outputs)?;
        let mut tried = self.try_newest(&entry, call, revision);
        // After a group failure no further agreement is possible.
        if self.later.is_some() && !matches!(tried, Err(Error::GroupFailed { .. })) {
            // Ranks may have different errors.
            let mut lacks = [tried.as_ref().map_or_else(is_of_revision, |tried| tried.came.is_none()).into()];
            self.epoch.group.with(&entry).all_max(&mut lacks)?;
            if lacks != [0] {
                self.open_later_to_restore(&entry)?;
                tried = self.try_newest(&entry, call, revision);
            }
        }
        let Attempts { found, came, skipped } = tried?;
        let group = self.epoch.group.with(&entry);
        let saved_at = came.as_ref().map(|(chosen, back)| self.levels.step_of(chosen, back, group.rank()));
        self.program.due.go_back_to(group, saved_at)?;
        let Some((chosen, back)) = came else {
            self.program.restored.reading = Reading::Nothing;
            self.remark_nothing_left(skipped, found.has_damage());
            // A new job learns before its first step if it cannot save.
            self.make_ahead(&entry)?;
            return Ok(None);
        };
        let revision = chosen.complete;
        self.program.restored.shards = Shards::find(&self.levels, &chosen, back.seen, back.verified);
        // The restored revision is kept. Revisions that were passed over are kept no longer, nor are revisions newer
        // than the requested one.
        self.levels.go_back_to(&found, &chosen);
        self.program.restored.divided = self.program.regions.divided();
        let level = self.levels.at(chosen.level);
        let mut saved_unix_ns = None;
        if let Some((_, kept)) = level.shard(group.rank() as u32, &revision) {
            let phases = kept.entry.phases;
            saved_unix_ns = Some(phases.t1_unix_ns);
            let [perceived, durable] = [phases.perceived_ns, phases.durable_ns].map(Duration::from_nanos);
            self.program.due.schedule.learn(perceived, durable);
        }
        if self.epoch.attempted {
            self.begin_lineage(&entry)?;
        }
        let copying = Instant::now();
        self.make_again(&entry, &chosen)?;
        if let Some(recovery) = &mut self.recovering {
            let (lineage, number) = (revision.key.lineage.number, revision.key.number);
            recovery.back_to = Some(Saved { lineage, revision: number, saved_unix_ns });
            recovery.parts.copies_ns = copying.elapsed().as_nanos() as u64;
        }
        let notes = notes_of_program(back.notes);
        self.program.restored.reading = back.reading;
        let skipped = skipped.into_what();
        if let Some(reporter) = &mut self.announcer.reporter {
            reporter.has_lost(&skipped);
        }
        if !skipped.is_empty() && self.recovering.is_none() {
            let text = format!("revision {} came back; passed over: {}", revision.key.number, skipped.join("; "));
            remark(self.epoch.group.rank(), &text);
        }
        let took_ns = begun.elapsed().as_nanos() as u64;
        let step = Some(self.program.due.step).filter(|step| *step > 0);
        if let Some(diary) = &mut self.announcer.diary {
            diary.restored(revision.key, step, took_ns, &skipped);
        }
        self.report.iter().for_each(|report| report.restored(revision.key, took_ns));
        self.tell();
        Ok(Some(Restored { revision: revision.key.number, step, skipped, notes }))
    }

    /// Makes lost copies of the restored revision again, and the portions for the next one. The program goes on
    /// meanwhile: here it waits only for small messages. Collective.
    fn make_again(&mut self, entry: &Entered, chosen: &Chosen) -> Result<()> {
        let is_touched = self.resources.policy.is_in_portion();
        self.levels
            .iter_mut()
            .for_each(|level| level.files.makes_later = is_touched && level.location.kind == LevelKind::Memory);
        let made = self.copy_again(entry, chosen);
        // The state is back, and the program may go on with it. The next checkpoint reports the error.
        if made.is_ok() {
            let _ = self.make_ahead(entry);
        }
        self.levels.iter_mut().for_each(|level| level.files.makes_later = false);
        made
    }

    /// Tries revisions until one is restored whole, or only `revision` if given. While some levels are not open yet,
    /// tries only the newest: they may have a revision that the open levels lack. Collective.
    fn try_newest(&mut self, entry: &Entered, call: Call, revision: Option<u64>) -> Result<Attempts> {
        let group = self.epoch.group.with(entry);
        let mut found = self.find(group, revision)?;
        self.program.share_passed_over(group)?;
        let damaged = self.levels.pass_over(&mut found, &self.program.restored.passed_over)?;
        if self.later.is_some() {
            found.all.truncate(1);
        }
        let mut poured = false;
        let read = |level: &Level, candidate: &Complete, transfers: &mut ShardTransfers| {
            if call == Call::Choose {
                return level.choose_one(group, &self.program.outputs, candidate, transfers);
            }
            match level.restore_one(group, &mut self.program, candidate, transfers) {
                // The regions already hold parts of a revision that was passed over. So this error counts only as damage of
                // the candidate.
                Err(Unreadable::Error(error)) if poured && error.kind() != ErrorKind::GroupFailed => {
                    Err(Damage::found(vec![error.to_string()]).into())
                }
                came => {
                    // If shards are lacking, nothing has been filled yet.
                    poured |= !matches!(&came, Err(Unreadable::Damage(damage)) if damage.is_lacking());
                    came
                }
            }
        };
        let (came, mut skipped) = self.levels.newest(group, &mut self.epoch.post, &found, read)?;
        skipped.add(damaged);
        Ok(Attempts { found, came, skipped })
    }

    /// Remarks on the reason if nothing was restored, but something is damaged or earlier jobs had several levels. The
    /// nodes' memory is lost with the nodes. A program that begins anew for that reason looks like one that begins for
    /// the first time.
    fn remark_nothing_left(&mut self, skipped: Damage, is_damaged: bool) {
        if !is_damaged && (self.levels.note.is_none() || self.epoch.lineage.number < 2) {
            return;
        }
        let mut why = skipped.into_what();
        if let Some(reporter) = &mut self.announcer.reporter {
            reporter.has_lost(&why);
        }
        if why.is_empty() {
            why.push("these nodes have no saved revision".to_owned());
        }
        remark(
            self.epoch.group.rank(),
            &format!("no level has a whole revision, the job begins anew: {}", why.join("; ")),
        );
    }
}

impl Program {
    /// Shares the damage that the program found. A rank that replaces a lost one knows none of it. Collective.
    pub(super) fn share_passed_over(&mut self, group: &dyn Group) -> Result<()> {
        let reported = gather_unequal(group, &self.restored.passed_over)?;
        self.restored.passed_over.clear();
        for (of, what) in reported.into_iter().flatten() {
            if !self.restored.passed_over.iter().any(|(known, _)| *known == of) {
                self.restored.passed_over.push((of, what));
            }
        }
        Ok(())
    }
}

/// Notes by name, without those that Mainstay has set.
pub(super) fn notes_of_program(notes: Vec<Note>) -> BTreeMap<String, String> {
    notes.into_iter().filter(|note| !is_own_note(note)).map(|note| (note.name, note.value)).collect()
}

/// Whether another revision, or the same on another level, may be restored after this error.
pub(super) fn is_of_revision(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Damaged | ErrorKind::Io | ErrorKind::OutOfSight | ErrorKind::RevisionMissing)
}

impl Levels {
    /// The step at which `chosen` was saved, if rank `rank` sees a shard of it; 0: unknown.
    fn step_of(&self, chosen: &Chosen, back: &RestoredExtras, rank: usize) -> u64 {
        let own = self.at(chosen.level).shard(rank as u32, &chosen.complete);
        let shared = back.seen.values().map(|(_, entry)| entry.phases.step);
        shared.chain(own.map(|(_, kept)| kept.entry.phases.step)).max().unwrap_or(0)
    }
}

impl Level {
    /// Restores `candidate`. The result is damage of any ranks, or an error that is the same on all. Collective.
    fn restore_one(
        &self,
        group: &dyn Group,
        program: &mut Program,
        candidate: &Complete,
        transfers: &mut ShardTransfers,
    ) -> Attempted<RestoredExtras> {
        if candidate.shards as usize != group.size() {
            return self.redistribute(group, program, candidate, transfers);
        }
        let (portion, manifest) = self.read_shard(group, candidate, transfers)?;
        let same = manifest
            .as_ref()
            .map_or(Ok(()), |manifest| program.globals.check(&manifest.annex.notes, candidate.key.number));
        agree(group, same)?;
        agree(group, manifest.as_ref().map_or(Ok(()), |manifest| program.resize(&manifest.items)))?;
        let outputs = &program.outputs;
        let mut moved = [u64::from(manifest.as_ref().is_ok_and(|manifest| has_moved(manifest, program.regions.all())))];
        group.all_max(&mut moved)?;
        if moved != [0] {
            return self.redistribute(group, program, candidate, transfers);
        }
        let number = candidate.key.number;
        let to_fill = |manifest: &Manifest| program.to_fill(&manifest.items, &manifest.annex.notes, number);
        let regions = manifest.as_ref().map_or(Ok(Vec::new()), to_fill);
        let targets = match (&manifest, &regions) {
            (Ok(manifest), Ok(regions)) => match_regions(manifest, regions, number).map(Some),
            (Ok(_), Err(error)) => Err(error.clone()),
            (Err(_), _) => Ok(None),
        };
        let targets = agree(group, targets)?;
        let known = manifest.as_ref().map_or_else(|_| Vec::new(), |manifest| manifest.annex.outputs.clone());
        let found = find_outputs(group, outputs, Known::OfThisRank(known))?;
        agree(group, regions.as_ref().map_or(Ok(()), |regions| program.lay_out_heap(regions)))?;
        pour_together(group, &portion, &manifest, targets.as_ref())?;
        // Every rank has read the revision whole. Only now are the lengths certain to which the files are cut.
        let pointers = match (&manifest, &regions) {
            (Ok(manifest), Ok(regions)) => check_pointers(regions, &manifest.annex.notes),
            _ => Ok(()),
        };
        agree(group, pointers)?;
        cut_outputs(group, outputs, &found, number)?;
        let manifest = manifest?;
        let notes = manifest.annex.notes.clone();
        let reading = Reading::of(candidate.key.number, portion, manifest);
        Ok(RestoredExtras { notes, reading, seen: transfers.received_by_number(), ..RestoredExtras::default() })
    }

    /// This rank's shard of `candidate`, which the same number of ranks saved: its portion, and its manifest or the
    /// damage found in it. Collective.
    pub(super) fn read_shard(
        &self,
        group: &dyn Group,
        candidate: &Complete,
        transfers: &ShardTransfers,
    ) -> Result<(Portion, Intact<Manifest>)> {
        let rank = group.rank() as u32;
        let unseen =
            Error::OutOfSight { path: self.location.device.path(), revision: candidate.key.number, shard: rank };
        let (portion, kept) = agree(group, self.own_shard(rank, candidate, transfers).ok_or(unseen))?;
        if self.location.kind == LevelKind::Memory {
            // A mapped portion is read in place. If it cannot be mapped, it is read as from a disk.
            let _ = portion.map_all();
        }
        let manifest = agree_on_errors(group, portion.read_manifest(&kept.entry))?;
        Ok((portion, manifest))
    }

    /// The shard of `rank`, which is this rank, in `candidate`: the one that it received for this attempt, or else one
    /// that it sees here.
    pub(super) fn own_shard(&self, rank: u32, candidate: &Complete, transfers: &ShardTransfers) -> Option<StoredShard> {
        transfers.whole(rank).or_else(|| self.stored(rank, candidate))
    }
}

/// Verifies each rank's shard, and fills its `targets`. Without targets, only damage of the manifest counts. The result
/// is the damage of all ranks. Collective.
pub(super) fn pour_together(
    group: &dyn Group,
    portion: &Portion,
    manifest: &Intact<Manifest>,
    targets: Option<&Targets<'_>>,
) -> Attempted<()> {
    let mine = match (manifest, targets) {
        (Err(damage), _) => Ok(Err(damage.clone())),
        (Ok(_), None) => Ok(Ok(())),
        (Ok(manifest), Some(targets)) => {
            let sink = |at: u64, bytes: &[u8]| targets.fill(at, bytes);
            targets.fill_zeros();
            // A block that stays unreadable may be readable in another revision.
            intact(pour(portion, manifest, &sink))
        }
    };
    let all = gather_unequal(group, &agree(group, mine)?.err())?;
    if all.iter().all(Option::is_none) {
        return Ok(());
    }
    Err(Damage::united(all.into_iter().flatten()).into())
}
