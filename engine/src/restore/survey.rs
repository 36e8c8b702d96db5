//! What a space holds, for those who only look: no group, no lock, no right to write.
//!
//! A job may be writing meanwhile. A reader holds nothing back: what it is about to read may be let
//! go and overwritten. What must hold: nothing is called damaged that was only let go. A block is
//! used again only when neither slot refers to it, so damage found between two equal readings of the
//! slots is damage, and everything else is looked at again.

use super::{
    HoldState, HoldSurvey, PortionSurvey, Seen, ShardSurvey, Sight, Verified,
    find::{find, gaps},
    shard::{TRIES, damage_of, is_missing, slots},
};
use crate::{
    clock::unix_ns,
    commit::{Ledger, RevisionKey},
    device::{Access, Device, Disk},
    error::{Error, Result, numbered},
    space::{
        HoldsRead, LOCK_FILE, Portion, contradictions, files_of_layout,
        format::{Answer, Header, Lineage, PhaseRecord, Slot},
        is_layout, list, open_layout,
    },
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    io,
    ops::Range,
    path::Path,
};

/// What a space holds, as far as it can be seen from here.
#[derive(Debug)]
pub struct SpaceSurvey {
    /// As it is: `printable` before it is printed.
    pub path: String,
    /// Oldest first.
    pub layouts: Vec<LayoutSurvey>,
    /// Newest first.
    pub revisions: Vec<RevisionSurvey>,
    /// By layout, file and rank; those that cannot be read are missing.
    pub portions: Vec<PortionSurvey>,
    /// In the order in which they were taken.
    pub holds: Vec<HoldSurvey>,
    /// Whether a job has it open; `None` where that cannot be told.
    pub in_use: Option<bool>,
    /// Whether the last job closed it in order.
    pub clean: bool,
    /// What could not be read; block data is read by `verify` only.
    pub damage: Vec<String>,
}

/// One file of a layout.
#[derive(Debug)]
pub struct LayoutSurvey {
    pub file: String,
    pub header: Header,
    /// Nothing in it is damaged; block data is read by `verify` only.
    pub whole: bool,
    /// The job that had it last closed each of its portions in order.
    pub clean: bool,
}

#[derive(Debug)]
pub struct RevisionSurvey {
    pub key: RevisionKey,
    /// Id of the layout that it lies in.
    pub layout: [u8; 16],
    /// Somebody holds it: no job lets it go.
    pub held: bool,
    /// Shards that make it complete.
    pub shard_count: u32,
    pub complete: bool,
    /// Those that were found, by number.
    pub shards: Vec<ShardSurvey>,
}

impl SpaceSurvey {
    pub fn open(directory: &Path) -> Result<SpaceSurvey> {
        Self::open_on(&Disk::existing(directory))
    }

    /// Looks at the space on `device`, again if it changed before anything complete was found.
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

    /// Whether a job has the space in `directory` open; `None` where that cannot be told.
    pub fn is_in_use(directory: &Path) -> Result<Option<bool>> {
        let device = Disk::existing(directory);
        in_use(&device, &list(&device)?)
    }

    /// The complete revision of this key.
    pub fn complete(&self, key: RevisionKey) -> Option<&RevisionSurvey> {
        self.revisions.iter().find(|revision| revision.key == key && revision.complete)
    }

    /// Whether a job may be writing: it has the space open, or nothing says that it has not.
    pub fn is_at_work(&self) -> bool {
        self.in_use.unwrap_or(!self.clean)
    }

    /// Of which layouts files are missing here; where nodes have directories of their own they may be elsewhere.
    pub fn not_here(&self) -> Vec<String> {
        let mut ranks: BTreeMap<(u64, [u8; 16], u32), BTreeSet<u32>> = BTreeMap::new();
        for LayoutSurvey { header, .. } in &self.layouts {
            let here = ranks.entry((header.layout_number, header.layout_id, header.ranks)).or_default();
            here.extend(header.portions.iter().map(|place| place.rank));
        }
        let missing = |((_, id, count), here): ((u64, [u8; 16], u32), BTreeSet<u32>)| {
            let gaps = gaps(here.into_iter(), count);
            let said = || format!("no {} here has the portion of {}", files_of_layout(id), numbered("rank", &gaps));
            (!gaps.is_empty()).then(said)
        };
        ranks.into_iter().filter_map(missing).collect()
    }

    /// The newest complete revision.
    pub fn newest(&self) -> Option<&RevisionSurvey> {
        self.revisions.iter().find(|revision| revision.complete)
    }

    /// The revision of this number: numbers only grow, but a run may have left one incomplete.
    pub fn revision(&self, number: u64) -> Option<&RevisionSurvey> {
        let of_number = || self.revisions.iter().filter(|revision| revision.key.number == number);
        of_number().find(|revision| revision.complete).or_else(|| of_number().next())
    }
}

impl SpaceSurvey {
    /// Says what each hold is worth. Of what jobs answered that of the newest `lineage` counts while it is at work; and that
    /// there is no room, by which the next job goes too where it saves to the layout that the revision lies in.
    fn judge(&mut self, read: &[HoldsRead], lineage: Option<Lineage>) {
        let (now, at_work) = (unix_ns(), self.is_at_work());
        let newest = self.layouts.last().map(|layout| layout.header.layout_id);
        for file in read {
            let is_of_job = file.answers.as_ref().is_some_and(|answers| Some(answers.lineage) == lineage && at_work);
            for (_, hold) in file.holds() {
                let key = RevisionKey::new(hold.lineage, hold.number);
                let answer = file.answers.as_ref().and_then(|answers| answers.to(&hold.id));
                let takes_room = || self.complete(key).is_some_and(|revision| Some(revision.layout) == newest);
                let answer = answer.filter(|answer| is_of_job || (*answer == Answer::NoRoom && takes_room()));
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
}

impl SpaceSurvey {
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

impl RevisionSurvey {
    /// Bytes of all items of the shards that were found.
    pub fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.bytes).sum()
    }

    /// Shards that were not found, ascending.
    pub fn missing(&self) -> Vec<Range<u32>> {
        gaps(self.shards.iter().map(|shard| shard.shard), self.shard_count)
    }

    /// Whether the newest root of every portion leads to it. What only older roots lead to is on its way
    /// out: it is gone with the next root.
    pub fn is_in_newest_roots(&self) -> bool {
        self.shards.iter().all(|shard| shard.in_newest_root)
    }

    /// Bytes that `verify` reads and tells of.
    pub fn block_bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.block_bytes).sum()
    }

    /// The first rank's t1, nanoseconds since 1970.
    pub fn t1_unix_ns(&self) -> u64 {
        self.shards.iter().map(|shard| shard.phases.t1_unix_ns).min().unwrap_or(0)
    }

    /// The longest t2 − t1 of all ranks, if it is known of all.
    pub fn perceived_ns(&self) -> Option<u64> {
        self.longest(|phases| phases.perceived_ns)
    }

    /// The longest t3 − t1 of all ranks, if it is known of all.
    pub fn durable_ns(&self) -> Option<u64> {
        self.longest(|phases| phases.durable_ns)
    }

    fn longest(&self, time_ns: fn(&PhaseRecord) -> u64) -> Option<u64> {
        let all = self.shards.iter().map(|shard| Some(time_ns(&shard.phases)).filter(|ns| *ns > 0));
        all.collect::<Option<Vec<u64>>>()?.into_iter().max()
    }

    /// Reads every block of every shard found and compares it with its hash; `progress` is told how
    /// many more bytes were good. A shard that cannot be read is damaged, and the others are read all
    /// the same.
    pub fn verify(&self, progress: &(dyn Fn(u64) + Sync)) -> Result<Verified> {
        let (mut damage, mut let_go) = (Vec::new(), false);
        for shard in &self.shards {
            match shard.verify(progress)? {
                Verified::Whole => {}
                Verified::Damaged { what } => damage.extend(what),
                Verified::LetGo => let_go = true,
            }
        }
        Ok(match (damage.is_empty(), let_go) {
            (false, _) => Verified::Damaged { what: damage },
            (true, true) => Verified::LetGo,
            (true, false) => Verified::Whole,
        })
    }
}

/// One look at all that is there, and whether any of it changed meanwhile.
fn look(device: &dyn Device) -> Result<(SpaceSurvey, bool)> {
    let names = list(device)?;
    if !names.iter().any(|name| is_layout(name) || name == LOCK_FILE) {
        return Err(Error::NotASpace { path: device.path(), why: "there is no layout in it".to_owned() });
    }
    let in_use = in_use(device, &names)?;
    let (mut layouts, mut damage, mut foreign, mut changed) = (Vec::new(), Vec::new(), None, false);
    for name in names.into_iter().filter(|name| is_layout(name)) {
        match open_layout(device, name, Access::Read) {
            Ok(layout) => layouts.push(layout),
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
            damage.extend(opened.damage.into_iter().chain(opened.torn));
            sight.lineages.extend(opened.lineage);
            lineage = lineage.max(opened.lineage);
            layout_clean &= opened.clean;
            for kept in opened.ledger.found() {
                let seen = Seen::of(&kept.entry, layout.header.layout_id);
                let revision = shards.entry((seen.key, seen.layout, seen.shards)).or_default();
                let in_newest = opened.ledger.kept().iter().any(|other| other.key() == seen.key);
                revision.insert(seen.shard, ShardSurvey::new(&portion, &kept, in_newest));
                sight.lineages.push(seen.key.lineage);
                sight.shards.push(seen);
            }
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

type Read<T> = std::result::Result<T, Vec<String>>;

/// Reads a portion until what is damaged in it is damaged for good. What cannot be read is as good as
/// damaged: the other portions are worth a look.
fn read_portion(portion: &Portion) -> Result<([Option<Slot>; 2], Read<crate::commit::Opened>)> {
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
    // Opening it would make it.
    if !names.iter().any(|name| name == LOCK_FILE) {
        return Ok(Some(false));
    }
    match device.lock_file(LOCK_FILE).and_then(|lock| lock.is_locked()) {
        Ok(locked) => Ok(Some(locked)),
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Ok(None),
        Err(e) => Err(Error::io("asking who holds", format!("{}/{LOCK_FILE}", device.path()), e)),
    }
}
