//! Completing the staged data of killed jobs by a command, as their next start would.

use super::{
    GoneOver,
    opening::{lock, see_free},
};
use crate::{
    commit::RevisionKey,
    device::{Device, Disk},
    error::{Error, Result},
    pool::{self, Dead, LostRecord, Owed, Sealed},
    printable::printable_path,
    restore::{ShardSet, one},
    salvage::{
        IN_POOL, SalvageOutcome, complete, has_layout_of, is_gone, is_ours, is_same, open_dead, prospect, to_mend,
    },
    space::Locks,
    survey::{Places, SpaceSurvey},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    path::{Path, PathBuf},
};

/// The data found in memory, and its fate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Salvaged {
    pub shards: Vec<SalvagedShard>,
    /// Revisions that are newer than the complete ones in their spaces, and are still incomplete.
    pub incomplete: Vec<Incomplete>,
    /// Number of pools that were removed, with their records.
    pub removed: usize,
    /// Dead pools that are left.
    pub left: Vec<PoolLeft>,
    /// The ranks of the requested space that have nothing left in memory.
    pub gone_over: GoneOver,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolLeft {
    pub pool: PathBuf,
    /// The reason that keeps the pool, and the remedy.
    pub why: String,
    /// Whether the pool, or a record of data staged in it, is unusable.
    pub damaged: bool,
}

/// A shard that was fully staged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SalvagedShard {
    /// The directory of the shard's space.
    pub space: PathBuf,
    pub key: RevisionKey,
    pub shard: u32,
    pub fate: SalvageFate,
}

/// A revision of which some shards were completed and others are missing: another node's memory may hold them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incomplete {
    pub space: PathBuf,
    pub key: RevisionKey,
    /// Number of shards of the complete revision.
    pub shard_count: u32,
    /// The shards that are missing, ascending.
    pub missing: Vec<Range<u32>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SalvageFate {
    Completed,
    /// The shard had been published before.
    WasComplete,
    /// The shard can never be completed: why.
    Lost(String),
    /// The shard's space does not exist; it may come back.
    SpaceGone,
    /// A job has the shard's space open.
    InUse,
    /// The shard was not completed, for this reason; a retry is possible.
    Failed(String),
}

impl SalvageFate {
    /// Why a pool with such a shard of `space` stays; `None` if it need not.
    fn keeps(&self, space: &Path, clean: bool) -> Option<String> {
        let space = printable_path(space);
        match self {
            SalvageFate::Completed | SalvageFate::WasComplete | SalvageFate::Lost(_) => None,
            SalvageFate::SpaceGone if clean => None,
            SalvageFate::SpaceGone => Some(format!(
                "the space {space} is not there; if it was moved, name it: mainstay salvage SPACE; --clean gives up \
                 the data staged for it"
            )),
            SalvageFate::InUse => Some(format!("a job has the space {space} open; salvage after its end")),
            SalvageFate::Failed(why) => {
                Some(format!("a shard of {space} is not complete: {why}; salvage again once that is over"))
            }
        }
    }
}

/// Completes the shards that dead pools in `directory` hold, of the space in `space` and its levels or of all spaces,
/// and removes pools that hold no more. `clean`: also removes pools that are damaged, or of which the space is missing.
/// Fails if `directory` cannot be listed, or if `space` is no space and nothing was staged for it. A failure of one
/// shard is reported as its fate.
pub fn salvage(directory: &Path, space: Option<&Path>, clean: bool) -> Result<Salvaged> {
    go_over(directory, space, clean, false)
}

/// The result that `salvage` would have now: shards that it would complete are `Completed`, and pools that it would
/// remove count as `removed`. Changes neither the pools nor the spaces.
pub fn salvageable(directory: &Path, space: Option<&Path>, clean: bool) -> Result<Salvaged> {
    go_over(directory, space, clean, true)
}

fn go_over(directory: &Path, asked: Option<&Path>, clean: bool, dry_run: bool) -> Result<Salvaged> {
    let only = asked.map(places_of);
    let mut visit = Visit {
        only,
        dry_run,
        locks: BTreeMap::new(),
        shards: Vec::new(),
        saved: BTreeMap::new(),
        gone_over: asked.map_or_else(GoneOver::default, GoneOver::of_space),
    };
    let remove = if dry_run { pool::is_removable } else { pool::remove };
    let (mut removed, mut left) = (0, Vec::new());
    for found in pool::list(directory)? {
        let (before, mut damaged) = (visit.shards.len(), false);
        let path = pool::path(directory, found.id);
        let anothers = visit.another_space_of(directory, found.id);
        let clean = clean && anothers.is_none();
        let kept = match open_dead(directory, found.id, || visit.is_free(directory, found.id)) {
            Ok(Some(dead)) => {
                let kept = visit.completes(&dead, clean, &mut damaged)?;
                if kept.is_none() {
                    visit.goes_over(&dead, &found.records)?;
                }
                kept
            }
            Ok(None) if found.has_pool => {
                visit.passes_over(directory, found.id);
                continue;
            }
            // No job can claim records without their pool.
            Ok(None) => None,
            Err(Error::PoolRefused { .. }) if clean => None,
            Err(Error::PoolRefused { .. }) if anothers.is_some() => anothers,
            Err(error) => {
                damaged = true;
                Some(unusable(error, &path))
            }
        };
        // A pool that cannot be removed is left too; the others are still processed.
        let kept = kept.or_else(|| match remove(directory, found.id) {
            Ok(true) => None,
            Ok(false) => Some("a process is in it; salvage after its end".to_owned()),
            Err(error) => {
                damaged = true;
                Some(unusable(error, &path))
            }
        });
        match kept {
            Some(why) => left.push(PoolLeft { pool: path, why, damaged }),
            None => {
                removed += 1;
                visit.gone_since(before);
            }
        }
    }
    if let Some(asked) = asked.filter(|_| visit.shards.is_empty()) {
        SpaceSurvey::open(asked)?;
    }
    let mut incomplete = Vec::new();
    for (space, saved) in &visit.saved {
        // Shards missing in one place may be in another place of the same space.
        let survey = asked.map_or_else(|| SpaceSurvey::open(space), SpaceSurvey::open_all)?;
        incomplete.extend(incomplete_of(space, &survey, saved));
    }
    Ok(Salvaged { shards: visit.shards, incomplete, removed, left, gone_over: visit.gone_over })
}

/// The space in the directory `space`, and the visible levels before it.
pub(super) fn places_of(space: &Path) -> Vec<Disk> {
    let places = Places::of(&space.canonicalize().unwrap_or_else(|_| space.to_owned())).all;
    places.iter().map(|place| Disk::existing(&place.directory)).collect()
}

/// Why a pool that could not be opened or removed stays.
fn unusable(error: Error, path: &Path) -> String {
    match error {
        Error::PoolRefused { why, .. } => {
            by_hand(path, &why).unwrap_or_else(|| format!("nothing in it can be used: {why}; --clean removes it"))
        }
        error => error.to_string(),
    }
}

fn of_another(space: &Path) -> String {
    format!("it holds a shard of another space, {}; salvage that", printable_path(space))
}

/// The remedy for a pool that has lost the record of staged data.
fn lost_for_good(lost: LostRecord) -> String {
    by_hand(&lost.path, &lost.why).unwrap_or_else(|| format!("{lost}; --clean removes the pool"))
}

/// The remedy for a pool or a record at `path` that may only be removed on request.
fn by_hand(path: &Path, why: &str) -> Option<String> {
    to_mend(path, why).map(|mend| format!("{mend}, or remove it by hand: {}", printable_path(path)))
}

/// The revisions of `saved` that a restore could bring back if no shards were missing.
fn incomplete_of(space: &Path, survey: &SpaceSurvey, saved: &BTreeMap<RevisionKey, Present>) -> Vec<Incomplete> {
    let newest = survey.newest().map(|revision| revision.key);
    let lack = |(key, saved): (&RevisionKey, &Present)| {
        let in_space = survey.revisions.iter().find(|revision| revision.key == *key);
        let mut there = saved.shards.clone();
        there.extend(in_space.into_iter().flat_map(|revision| revision.shards.iter().map(|shard| shard.shard)));
        // A revision that failed everywhere does not exist.
        let is_any = !there.is_empty();
        let missing = there.into_iter().map(one).collect::<ShardSet>().gaps(saved.shard_count);
        let is_lacking = is_any && Some(*key) > newest && !missing.is_empty();
        is_lacking.then(|| Incomplete { space: space.to_owned(), key: *key, shard_count: saved.shard_count, missing })
    };
    saved.iter().rev().filter_map(lack).collect()
}

/// The shards of a revision that were in a pool and are in its space now, or would be.
struct Present {
    shard_count: u32,
    shards: BTreeSet<u32>,
}

/// The space of a shard.
enum Of {
    Space(Disk),
    /// A space that was not requested.
    Another,
    /// The shard's space does not exist.
    Nowhere,
}

struct Visit {
    /// The places of the requested space.
    only: Option<Vec<Disk>>,
    dry_run: bool,
    /// The locks of each space, taken once for all of its pools; a dry run takes none.
    locks: BTreeMap<PathBuf, Result<Option<Locks>>>,
    shards: Vec<SalvagedShard>,
    saved: BTreeMap<PathBuf, BTreeMap<RevisionKey, Present>>,
    gone_over: GoneOver,
}

impl Visit {
    /// Why a pool stays that, by its note, belongs to no requested space.
    fn another_space_of(&self, directory: &Path, id: [u8; 16]) -> Option<String> {
        let (only, note) = (self.only.as_ref()?, pool::spaces_of(directory, id)?);
        let is_asked = |device: &Disk| note.is_of(|space| is_same(device.directory(), space));
        // A space that was moved is recognized by its layout.
        let sealed = pool::sealed_of(directory, id).unwrap_or_default();
        let is_ours = |owed| matches!(self.device_of(owed), Of::Space(_));
        let is_of_it = only.iter().any(is_asked) || sealed.iter().flat_map(Sealed::owed).any(is_ours);
        note.spaces().next().filter(|_| !is_of_it).map(|(space, _)| of_another(space))
    }

    /// Whether a pool that a process is in holds shards of a space that no job has open: then the process will end
    /// soon.
    fn is_free(&mut self, directory: &Path, id: [u8; 16]) -> bool {
        let sealed = pool::sealed_of(directory, id).unwrap_or_default();
        sealed
            .iter()
            .flat_map(Sealed::owed)
            .any(|owed| matches!(self.device_of(owed), Of::Space(device) if self.lock(&device).is_ok()))
    }

    /// Notes the shards of a pool that stayed in use although no job has their space open.
    fn passes_over(&mut self, directory: &Path, id: [u8; 16]) {
        for owed in pool::sealed_of(directory, id).unwrap_or_default().iter().flat_map(Sealed::owed) {
            if matches!(self.device_of(owed), Of::Space(device) if self.lock(&device).is_ok()) {
                self.note(owed, SalvageFate::Failed(IN_POOL.to_owned()));
            }
        }
    }

    fn note(&mut self, owed: Owed<'_>, fate: SalvageFate) {
        let (space, key, shard) = (owed.target.space().to_owned(), owed.shard.plan.key, owed.shard.plan.shard);
        self.shards.push(SalvagedShard { space, key, shard, fate });
    }

    /// Completes the shards in a pool. Returns why the pool must stay, if it must. `damaged`: whether the pool lacks
    /// records.
    fn completes(&mut self, dead: &Dead, clean: bool, damaged: &mut bool) -> Result<Option<String>> {
        let mut kept = None;
        let staged = dead.staged()?;
        for owed in staged.sealed.iter().flat_map(Sealed::owed) {
            let space = owed.target.space();
            let keeps = match self.fate(owed, dead) {
                Some(fate) => {
                    let keeps = fate.keeps(space, clean);
                    self.note(owed, fate);
                    keeps
                }
                None => Some(of_another(space)),
            };
            kept = kept.or(keeps);
        }
        staged.sealed.iter().flat_map(Sealed::ended).for_each(|ended| self.note_ended(ended));
        *damaged = !staged.lost.is_empty();
        let lost = if clean { Vec::new() } else { staged.lost };
        let lost: Vec<String> = lost.into_iter().map(lost_for_good).collect();
        Ok(kept.into_iter().chain(lost).reduce(|one, next| format!("{one}; {next}")))
    }

    /// Notes that a revision may still lack other shards, although this one was completed before.
    fn note_ended(&mut self, ended: Owed<'_>) {
        let Of::Space(device) = self.device_of(ended) else { return };
        if self.lock(&device).is_ok() {
            let (key, shard_count) = (ended.shard.plan.key, ended.shard.plan.shards);
            let of_space = self.saved.entry(device.directory().to_path_buf()).or_default();
            of_space.entry(key).or_insert(Present { shard_count, shards: BTreeSet::new() });
        }
    }

    /// Notes, also in the spaces, that nothing is left in the pool, or in the records of these ranks.
    fn goes_over(&mut self, dead: &Dead, ranks: &[u32]) -> Result<()> {
        let Some(note) = dead.spaces() else { return Ok(()) };
        let ours: Vec<Disk> = match &self.only {
            Some(only) => {
                let is_ours = |space: &Path| only.iter().any(|only| is_same(only.directory(), space));
                if !note.is_of(is_ours) {
                    return Ok(());
                }
                self.gone_over.add(note.lineage, ranks);
                only.iter().map(|only| Disk::existing(only.directory())).collect()
            }
            None => note.spaces().flat_map(|(space, _)| places_of(space)).collect(),
        };
        if self.dry_run {
            return Ok(());
        }
        for device in ours {
            // A job that has the space open has begun a lineage of its own.
            if SpaceSurvey::open(device.directory()).is_ok() && matches!(self.lock(&device), Ok(Some(_))) {
                GoneOver::note_ranks(device.directory(), note.lineage, ranks)?;
            }
        }
        Ok(())
    }

    /// Notes that the pool with the shards from `first` on is removed: shards that waited for their space are lost with
    /// it.
    fn gone_since(&mut self, first: usize) {
        for shard in self.shards[first..].iter_mut().filter(|shard| shard.fate == SalvageFate::SpaceGone) {
            shard.fate = SalvageFate::Lost("its space is not there, and its pool was removed".to_owned());
        }
    }

    /// Completes a shard, and returns its fate; `None` if it belongs to no requested space.
    fn fate(&mut self, owed: Owed<'_>, dead: &Dead) -> Option<SalvageFate> {
        let device = match self.device_of(owed) {
            Of::Space(device) => device,
            Of::Another => return None,
            Of::Nowhere => return Some(SalvageFate::SpaceGone),
        };
        Some(match self.lock(&device) {
            Err(Error::InUse { .. }) => SalvageFate::InUse,
            Err(error) if is_gone(error) => SalvageFate::SpaceGone,
            Err(error) => SalvageFate::Failed(error.to_string()),
            Ok(_) => match (if self.dry_run { prospect } else { complete })(&device, owed, dead.contents()) {
                Ok(outcome @ (SalvageOutcome::Completed | SalvageOutcome::WasComplete)) => {
                    let plan = &owed.shard.plan;
                    let of_space = self.saved.entry(device.directory().to_path_buf()).or_default();
                    let none = Present { shard_count: plan.shards, shards: BTreeSet::new() };
                    of_space.entry(plan.key).or_insert(none).shards.insert(plan.shard);
                    if outcome == SalvageOutcome::Completed { SalvageFate::Completed } else { SalvageFate::WasComplete }
                }
                Ok(SalvageOutcome::Lost(why) | SalvageOutcome::Cut(why)) => SalvageFate::Lost(why),
                Ok(SalvageOutcome::Elsewhere) => SalvageFate::SpaceGone,
                Err(error) => SalvageFate::Failed(error.to_string()),
            },
        })
    }

    fn device_of(&self, owed: Owed<'_>) -> Of {
        let its_own = Disk::existing(owed.target.space());
        match &self.only {
            Some(only) => match only.iter().find(|only| is_ours(*only, owed)) {
                Some(only) => Of::Space(Disk::existing(only.directory())),
                None => Of::Another,
            },
            None if has_layout_of(&its_own, owed) => Of::Space(its_own),
            None => Of::Nowhere,
        }
    }

    fn lock(&mut self, device: &Disk) -> &Result<Option<Locks>> {
        let dry_run = self.dry_run;
        let take = || if dry_run { see_free(device).map(|()| None) } else { lock(device).map(Some) };
        self.locks.entry(device.directory().to_path_buf()).or_insert_with(take)
    }
}
