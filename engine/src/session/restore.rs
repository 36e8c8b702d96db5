//! Bringing the program back to the newest complete revision, or to the one that it asks for.

use super::{
    choice::{Choices, ask_for_one},
    chosen::Chosen,
    entry::Call,
    flaws::{Attempted, Flaws, split_flaws},
    inner::Inner,
    level::{Level, LevelKind},
    levels::Levels,
    outputs::{Known, cut_outputs, find_outputs, refuse_shared},
    program::Program,
    ranks::Entered,
    reading::Reading,
    shards::Shards,
};
use crate::{
    capture::{check_pointers, is_own_note},
    commit::Complete,
    error::{Error, ErrorKind, Result},
    ground::{Instant, unix_ns},
    group::{Group, agree, gather},
    remark::remark,
    restore::{Targets, has_moved, match_regions, pour},
    space::{
        Portion,
        format::{self, Manifest, Note},
    },
    stage::TouchOrder,
    status::Saved,
};
use std::{collections::BTreeMap, time::Duration};

/// What `restore` brought back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    pub revision: u64,
    /// The step that the program had last given to `due` when it saved the revision; `None` if it had given none.
    pub step: Option<u64>,
    /// What was damaged or could not be read: parts of the space, and newer revisions that were passed over for this
    /// one.
    pub skipped: Vec<String>,
    /// The notes of this rank's program, by name; of a revision of another number of ranks, the notes of rank 0.
    pub notes: BTreeMap<String, String>,
}

/// What a restore brings back besides regions and output files.
pub(super) struct Back {
    pub(super) notes: Vec<Note>,
    pub(super) reading: Reading,
    /// Shards of a revision that was shared out, which this rank sees or was brought.
    pub(super) seen: BTreeMap<u32, (Portion, format::Entry)>,
}

/// What came of trying the revisions that were found.
struct Tried {
    found: Choices,
    came: Option<(Chosen, Back)>,
    skipped: Flaws,
}

impl Inner {
    /// `revision`: the only one that is tried; the newest that can be read whole if none was asked for.
    pub(super) fn restore(&mut self, revision: Option<u64>) -> Result<Option<Restored>> {
        let ready = self.program.ready().and_then(|()| self.program.look_to_fill());
        let kept = self.program.globals.keep(&self.program.regions);
        let begun = Instant::now();
        let restored = self.restore_one_of(revision, ready);
        // The regions of the heap are those that came back with it.
        let restored = self.program.look_at_heap().and(restored);
        let has_filled = matches!(restored, Ok(Some(_)));
        if let Some(stale) = self.program.globals.mend(&self.program.regions, kept, has_filled) {
            remark(self.epoch.group.rank(), &stale);
        }
        self.tell_recovery(&restored, begun);
        // The program is back at a checkpoint: the time until the next one begins here.
        self.program.due.begin(Instant::now());
        // The pool is made only now, as making it would have slowed the reads down.
        self.means.begin_pool(&self.program.regions);
        self.means.touch(&self.levels, TouchOrder::BeginningFirst);
        restored
    }

    /// Where this restore ends a recovery, tells of it.
    fn tell_recovery(&mut self, restored: &Result<Option<Restored>>, begun: Instant) {
        let (Some(mut recovery), Ok(restored)) = (self.recovering.take_if(|_| restored.is_ok()), restored) else {
            return;
        };
        recovery.parts.state_ns = (begun.elapsed().as_nanos() as u64).saturating_sub(recovery.parts.copies_ns);
        // Clocks of ranks differ, and the longest regrouping counts.
        let named = recovery.parts.named().iter().map(|(_, ns)| ns).sum();
        recovery.total_ns = unix_ns().saturating_sub(recovery.noticed_unix_ns).max(named);
        recovery.lineage = self.epoch.lineage.number;
        if let Some(restored) = restored {
            recovery.lost = restored.skipped.clone();
        }
        self.has_recovered(recovery);
    }

    fn restore_one_of(&mut self, revision: Option<u64>, ready: Result<()>) -> Result<Option<Restored>> {
        let begun = Instant::now();
        let entry = self.enter_ready(Call::Restore, ready)?;
        self.program.reading = Reading::default();
        self.program.shards = Default::default();
        ask_for_one(self.epoch.group.with(&entry), revision)?;
        refuse_shared(self.epoch.group.with(&entry), &mut self.program.outputs)?;
        let mut tried = self.try_newest(&entry, revision);
        // Those that a failure keeps waiting come to nothing that is agreed on next.
        if self.later.is_some() && !matches!(tried, Err(Error::GroupFailed { .. })) {
            // Ranks may have failed at different things.
            let mut lacks = [tried.as_ref().map_or_else(is_of_revision, |tried| tried.came.is_none()).into()];
            self.epoch.group.with(&entry).all_max(&mut lacks)?;
            if lacks != [0] {
                self.open_later_to_restore(&entry)?;
                tried = self.try_newest(&entry, revision);
            }
        }
        let Tried { found, came, skipped } = tried?;
        let group = self.epoch.group.with(&entry);
        let saved_at = came.as_ref().map(|(chosen, back)| self.levels.step_of(chosen, back, group.rank()));
        self.program.due.go_back_to(group, saved_at)?;
        let Some((chosen, back)) = came else {
            self.program.reading = Reading::Nothing;
            self.remark_nothing_left(skipped, found.has_flaws());
            // A job that begins is told before its first step that it cannot save itself.
            self.make_ahead(&entry)?;
            return Ok(None);
        };
        let revision = chosen.complete;
        self.program.shards = Shards::find(&self.levels, &chosen, back.seen);
        // Revisions that were passed over are kept no longer, nor are newer ones than was asked for; the one that was read
        // whole is.
        self.levels.go_back_to(&found, &chosen);
        self.program.divided = self.program.regions.divided();
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
        let notes =
            back.notes.into_iter().filter(|note| !is_own_note(note)).map(|note| (note.name, note.value)).collect();
        self.program.reading = back.reading;
        let skipped = skipped.into_what();
        if let Some(telling) = &mut self.outward.telling {
            telling.has_lost(&skipped);
        }
        if !skipped.is_empty() && self.recovering.is_none() {
            let text = format!("revision {} came back; passed over: {}", revision.key.number, skipped.join("; "));
            remark(self.epoch.group.rank(), &text);
        }
        let took_ns = begun.elapsed().as_nanos() as u64;
        let step = Some(self.program.due.step).filter(|step| *step > 0);
        if let Some(diary) = &mut self.outward.diary {
            diary.restored(revision.key, step, took_ns, &skipped);
        }
        self.report.iter().for_each(|report| report.restored(revision.key, took_ns));
        self.tell();
        Ok(Some(Restored { revision: revision.key.number, step, skipped, notes }))
    }

    /// Has lost copies of the revision that was restored made again, and the portions for the next one. The program goes on
    /// meanwhile: nothing that it waits for here is larger than a message. Collective.
    fn make_again(&mut self, entry: &Entered, chosen: &Chosen) -> Result<()> {
        let is_touched = self.means.policy.is_in_portion();
        self.levels.iter_mut().for_each(|level| level.makes_later = is_touched && level.kind == LevelKind::Memory);
        let made = self.copy_again(entry, chosen);
        // The state is back, and the program may go on with it: the checkpoint tells.
        if made.is_ok() {
            let _ = self.make_ahead(entry);
        }
        self.levels.iter_mut().for_each(|level| level.makes_later = false);
        made
    }

    /// Tries revisions until one came back whole, or `revision` alone: the newest alone while there are levels that are not open yet, which may
    /// have it if the open ones have not. Collective.
    fn try_newest(&mut self, entry: &Entered, revision: Option<u64>) -> Result<Tried> {
        let group = self.epoch.group.with(entry);
        let mut found = self.find(group, revision)?;
        self.program.share_passed_over(group)?;
        let damaged = self.levels.pass_over(&mut found, &self.program.passed_over)?;
        if self.later.is_some() {
            found.all.truncate(1);
        }
        let mut poured = false;
        let (came, mut skipped) = self.levels.newest(group, &mut self.epoch.post, &found, |level, candidate| {
            match level.restore_one(group, &mut self.program, candidate) {
                // The regions already hold parts of a revision that was passed over: this error, too, is only a flaw of
                // the candidate.
                Err(error) if poured && error.kind() != ErrorKind::GroupFailed => {
                    Ok(Err(Flaws::found(vec![error.to_string()])))
                }
                came => {
                    // Where shards are lacking nothing has been touched yet.
                    poured |= !matches!(&came, Ok(Err(flaws)) if flaws.is_lacking());
                    came
                }
            }
        })?;
        skipped.add(damaged);
        Ok(Tried { found, came, skipped })
    }

    /// Says why nothing came back where something is damaged, and where jobs before this one have had several levels: the memory
    /// of their nodes goes with these, and a program that begins anew for that looks like one that began for the first time.
    fn remark_nothing_left(&mut self, skipped: Flaws, is_damaged: bool) {
        if !is_damaged && (self.levels.note.is_none() || self.epoch.lineage.number < 2) {
            return;
        }
        let mut why = skipped.into_what();
        if let Some(telling) = &mut self.outward.telling {
            telling.has_lost(&why);
        }
        if why.is_empty() {
            why.push("what was saved before, if anything was, is not on these nodes".to_owned());
        }
        remark(
            self.epoch.group.rank(),
            &format!("no level has a whole revision, the job begins anew: {}", why.join("; ")),
        );
    }
}

impl Program {
    /// A rank that has taken a lost one's place knows nothing of what the others have found damaged. Collective.
    pub(super) fn share_passed_over(&mut self, group: &dyn Group) -> Result<()> {
        let told = gather(group, &self.passed_over)?;
        self.passed_over.clear();
        for (of, what) in told.into_iter().flatten() {
            if !self.passed_over.iter().any(|(known, _)| *known == of) {
                self.passed_over.push((of, what));
            }
        }
        Ok(())
    }
}

/// Whether another revision, or the same on another level, may come back where this one did not.
fn is_of_revision(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Damaged | ErrorKind::Io | ErrorKind::OutOfSight | ErrorKind::RevisionMissing)
}

impl Levels {
    /// The step at which `chosen` was saved, as far as rank `rank` sees a shard of it; 0: unknown.
    fn step_of(&self, chosen: &Chosen, back: &Back, rank: usize) -> u64 {
        let own = self.at(chosen.level).shard(rank as u32, &chosen.complete);
        let shared = back.seen.values().map(|(_, entry)| entry.phases.step);
        shared.chain(own.map(|(_, kept)| kept.entry.phases.step)).max().unwrap_or(0)
    }
}

impl Level {
    /// Restores `candidate`. The inner error says why it is passed over, on whichever ranks; the outer one, the same on
    /// all ranks, ends the search. Collective.
    fn restore_one(&self, group: &dyn Group, program: &mut Program, candidate: &Complete) -> Result<Attempted<Back>> {
        if candidate.shards as usize != group.size() {
            return self.redistribute(group, program, candidate);
        }
        let (portion, manifest) = self.read_shard(group, candidate)?;
        let same = manifest
            .as_ref()
            .map_or(Ok(()), |manifest| program.globals.check(&manifest.annex.notes, candidate.key.number));
        agree(group, same)?;
        agree(group, manifest.as_ref().map_or(Ok(()), |manifest| program.resize(&manifest.items)))?;
        let outputs = &program.outputs;
        let mut moved = [u64::from(manifest.as_ref().is_ok_and(|manifest| has_moved(manifest, program.regions.all())))];
        group.all_max(&mut moved)?;
        if moved != [0] {
            return self.redistribute(group, program, candidate);
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
        if let Err(flaws) = pour_together(group, &portion, &manifest, targets.as_ref())? {
            return Ok(Err(flaws));
        }
        // The revision was read whole on every rank: only now is it sure which lengths the files go back to.
        let pointers = match (&manifest, &regions) {
            (Ok(manifest), Ok(regions)) => check_pointers(regions, &manifest.annex.notes),
            _ => Ok(()),
        };
        agree(group, pointers)?;
        cut_outputs(group, outputs, &found, number)?;
        Ok(manifest.map(|manifest| {
            let notes = manifest.annex.notes.clone();
            let reading = Reading::of(candidate.key.number, portion, manifest);
            Back { notes, reading, seen: BTreeMap::new() }
        }))
    }

    /// This rank's shard of `candidate`, which was saved by as many ranks: where it lies, and its manifest or the flaws
    /// of that. Collective.
    pub(super) fn read_shard(&self, group: &dyn Group, candidate: &Complete) -> Result<(Portion, Attempted<Manifest>)> {
        let rank = group.rank() as u32;
        let unseen = Error::OutOfSight { path: self.device.path(), revision: candidate.key.number, shard: rank };
        let (portion, kept) = agree(group, self.shard(rank, candidate).ok_or(unseen))?;
        if self.kind == LevelKind::Memory {
            // It is read where it lies then. What cannot be mapped is read as from a disk.
            let _ = portion.map_all();
        }
        let manifest = agree(group, split_flaws(portion.read_manifest(&kept.entry)))?;
        Ok((portion, manifest))
    }
}

/// Verifies each rank's shard, and fills its `targets`; without targets the manifest alone counts. The inner error has
/// the flaws of all ranks. Collective.
pub(super) fn pour_together(
    group: &dyn Group,
    portion: &Portion,
    manifest: &Attempted<Manifest>,
    targets: Option<&Targets<'_>>,
) -> Result<Attempted<()>> {
    let mine = match (manifest, targets) {
        (Err(flaws), _) => Ok(Err(flaws.clone())),
        (Ok(_), None) => Ok(Ok(())),
        (Ok(manifest), Some(targets)) => {
            let sink = |at: u64, bytes: &[u8]| targets.fill(at, bytes);
            targets.fill_zeros();
            // A block that cannot be read, however often it is tried, may be there in another revision.
            split_flaws(pour(portion, manifest, &sink))
        }
    };
    let all = gather(group, &agree(group, mine)?.err())?;
    if all.iter().all(Option::is_none) {
        return Ok(Ok(()));
    }
    Ok(Err(Flaws::united(all.into_iter().flatten())))
}
