//! One look at a space, while a job may write.

use super::{
    HoldState, HoldSurvey, LayoutSurvey, PortionSurvey, RevisionSurvey, ShardSurvey, SpaceSurvey,
    below::why_none,
    shard::{TRIES, damage_of, is_missing, slots},
};
use crate::{
    commit::{Ledger, OpenedLedger, RevisionKey},
    device::{Access, Device, Disk},
    error::{Error, Result},
    ground::unix_ns,
    restore::{Seen, Sight, find},
    space::{
        HoldsRead, LOCK_FILE, LayoutFile, Portion, contradictions,
        format::{HoldAnswer, Lineage, Slot},
        is_layout, list, open_layout,
    },
};
use std::{cmp::Reverse, collections::BTreeMap, io, path::Path};

impl SpaceSurvey {
    pub fn open(directory: &Path) -> Result<SpaceSurvey> {
        Self::open_on(&Disk::existing(directory))
    }

    /// Surveys the space on `device`; repeats it if the space changed before any complete revision was found.
    pub fn open_on(device: &dyn Device) -> Result<SpaceSurvey> {
        let (mut survey, mut changed) = look(device)?;
        for _ in 1..TRIES {
            if !changed || survey.newest().is_some() {
                break;
            }
            (survey, changed) = look(device)?;
        }
        Ok(survey)
    }

    /// Whether a job has the space in `directory` open; `None` if unknown.
    pub fn is_in_use(directory: &Path) -> Result<Option<bool>> {
        let device = Disk::existing(directory);
        in_use(&device, &list(&device)?)
    }
}

/// Looks once at the whole space; also returns whether any of it changed meanwhile.
fn look(device: &dyn Device) -> Result<(SpaceSurvey, bool)> {
    let names = list(device)?;
    if !names.iter().any(|name| is_layout(name) || name == LOCK_FILE) {
        return Err(Error::NotASpace { path: device.path(), why: why_none(device.directory()) });
    }
    let in_use = in_use(device, &names)?;
    let (layouts, mut damage, mut changed) = open_layouts(device, names)?;
    let newest_layout = layouts.last().map(|layout| layout.header.layout_id);
    let (mut clean, mut sight, mut read, mut holds) = (true, Sight::default(), Vec::new(), Vec::new());
    let (mut lineage, mut ledgers, mut seen) = (None, Vec::new(), Vec::new());
    let mut shards: BTreeMap<_, BTreeMap<u32, ShardSurvey>> = BTreeMap::new();
    for layout in layouts {
        let (damage_before, mut layout_clean) = (damage.len(), true);
        match layout.read_holds() {
            Ok(read) => holds.push(read),
            Err(error) if is_missing(&error) => {
                changed = true;
                continue;
            }
            Err(error) => damage.extend(damage_of(&error).ok_or(error)?),
        }
        for portion in layout.portions() {
            let (slots, opened) = match read_portion(&portion) {
                Err(error) if is_missing(&error) => {
                    changed = true;
                    continue;
                }
                read => read?,
            };
            read.push((portion.clone(), slots));
            let Some(opened) = opened.map_err(|what| damage.extend(what)).ok() else { continue };
            let usable = opened.usable;
            damage.extend(opened.damage.into_iter().chain(opened.damaged_slots));
            sight.lineages.extend(opened.lineage);
            lineage = lineage.max(opened.lineage);
            layout_clean &= opened.clean;
            for kept in opened.ledger.found() {
                let seen = Seen::of(&kept.entry, layout.header.layout_id);
                let revision = shards.entry((seen.key, seen.layout, seen.shards)).or_default();
                let in_newest = opened.ledger.kept().iter().any(|other| other.key() == seen.key);
                revision.insert(kept.entry.shard, ShardSurvey::new(&portion, &kept, in_newest));
            }
            sight.add(&opened.ledger);
            ledgers.extend(usable.then(|| (layout.name.clone(), opened.ledger)));
        }
        clean &= layout_clean || Some(layout.header.layout_id) != newest_layout;
        let whole = damage.len() == damage_before;
        seen.push(LayoutSurvey { file: layout.name, header: layout.header, whole, clean: layout_clean });
    }
    changed |= read.iter().any(|(portion, before)| slots(portion) != *before);

    let complete = find(&[sight], &device.path())?.complete;
    let is_complete = |key, layout| complete.iter().any(|c| c.key == key && c.layout == layout);
    let revisions = shards.into_iter().map(|((key, layout, shard_count), shards)| RevisionSurvey {
        key,
        layout,
        held: false,
        shard_count,
        complete: is_complete(key, layout) && shards.len() as u64 == u64::from(shard_count),
        shards: shards.into_values().collect(),
        parts: Vec::new(),
    });
    let mut revisions: Vec<RevisionSurvey> = revisions.collect();
    revisions.sort_by_key(|revision| Reverse(revision.key));
    let path = device.directory().to_string_lossy().into_owned();
    let (portions, none) = (Vec::new(), Vec::new());
    let mut survey = SpaceSurvey { path, layouts: seen, revisions, portions, holds: none, in_use, clean, damage };
    survey.judge(&holds, lineage);
    survey.look_at_portions(ledgers);
    Ok((survey, changed))
}

/// The layouts, the oldest first, with their damage, and whether a file was removed meanwhile.
fn open_layouts(device: &dyn Device, names: Vec<String>) -> Result<(Vec<LayoutFile>, Vec<String>, bool)> {
    let (mut layouts, mut damage, mut foreign, mut changed) = (Vec::new(), Vec::new(), None, false);
    for name in names.into_iter().filter(|name| is_layout(name)) {
        match open_layout(device, name, Access::Read) {
            Ok(layout) => match layout.foreign_text(device) {
                Some(text) => damage.push(text),
                None => layouts.push(layout),
            },
            Err(error) if is_missing(&error) => changed = true,
            Err(Error::Damaged { what }) => damage.extend(what),
            Err(error @ Error::NotASpace { .. }) => foreign = Some(error),
            Err(error) => return Err(error),
        }
    }
    match foreign {
        Some(error) if layouts.is_empty() && damage.is_empty() => return Err(error),
        other => damage.extend(other.map(|error| error.to_string())),
    }
    layouts.sort_by_key(|layout| (layout.header.layout_number, layout.name.clone()));
    damage.extend(contradictions(&layouts));
    Ok((layouts, damage, changed))
}

type Read<T> = std::result::Result<T, Vec<String>>;

/// Reads a portion until apparent damage is known to be real. An unreadable portion counts as damaged, and the survey
/// goes on with the others.
fn read_portion(portion: &Portion) -> Result<([Option<Slot>; 2], Read<OpenedLedger>)> {
    let mut tries = 0;
    loop {
        tries += 1;
        let before = slots(portion);
        let opened = match Ledger::open(portion.clone()) {
            Ok(opened) => Ok(opened),
            Err(error) if is_missing(&error) => return Err(error),
            Err(error) => Err(damage_of(&error).ok_or(error)?),
        };
        let is_whole = opened.as_ref().is_ok_and(|opened| opened.damage.is_empty());
        if is_whole || tries == TRIES || slots(portion) == before {
            return Ok((before, opened));
        }
    }
}

fn in_use(device: &dyn Device, names: &[String]) -> Result<Option<bool>> {
    // Opening the lock file would make it.
    if !names.iter().any(|name| name == LOCK_FILE) {
        return Ok(Some(false));
    }
    match device.lock_file(LOCK_FILE, Access::Read).and_then(|lock| lock.is_locked()) {
        Ok(locked) => Ok(Some(locked)),
        Err(e) if matches!(e.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported) => Ok(None),
        Err(e) => Err(Error::io("finding the holder of", format!("{}/{LOCK_FILE}", device.path()), e)),
    }
}

impl SpaceSurvey {
    /// Sets the state of each hold. Of the answers of jobs, those of the newest `lineage` count while its job is
    /// running. The answer that there is no room also counts for the next job, if it saves to the layout of the
    /// revision.
    fn judge(&mut self, read: &[HoldsRead], lineage: Option<Lineage>) {
        let (now, at_work) = (unix_ns(), self.is_at_work());
        let newest = self.layouts.last().map(|layout| layout.header.layout_id);
        for file in read {
            let is_of_job = file.answers.as_ref().is_some_and(|answers| Some(answers.lineage) == lineage && at_work);
            for (_, hold) in file.holds() {
                let key = RevisionKey::new(hold.lineage, hold.number);
                let answer = file.answers.as_ref().and_then(|answers| answers.to(&hold.id));
                let takes_room = || self.complete(key).is_some_and(|revision| Some(revision.layout) == newest);
                let answer = answer.filter(|answer| is_of_job || (*answer == HoldAnswer::NoRoom && takes_room()));
                let state = HoldState::of(hold, now, self.complete(key), at_work, answer);
                self.holds.push(HoldSurvey { hold: hold.clone(), state });
            }
        }
        self.holds.sort_by_key(|held| (held.hold.created_unix_ns, held.hold.id));
        let counts = |held: &&HoldSurvey| held.state == HoldState::Counts;
        for held in self.holds.iter().filter(counts) {
            let of_key = |revision: &&mut RevisionSurvey| revision.key == held.key() && revision.complete;
            self.revisions.iter_mut().filter(of_key).for_each(|revision| revision.held = true);
        }
    }

    fn look_at_portions(&mut self, ledgers: Vec<(String, Ledger)>) {
        let held = self.holds.iter().filter(|held| matches!(held.state, HoldState::Counts | HoldState::Pending));
        let held: Vec<RevisionKey> = held.map(|held| held.key()).collect();
        let portions = ledgers.into_iter().map(|(file, mut ledger)| {
            ledger.set_held(held.clone());
            PortionSurvey::of(&file, &ledger)
        });
        self.portions = portions.collect();
    }
}
