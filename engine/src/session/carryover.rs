//! The remains of a session for its successor after a failure, and the facts about them that all ranks share.

use super::{diary::Diary, locking::KeptLocks, status_reporter::Past};
use crate::{
    commit::RevisionKey,
    config::{self, Config},
    error::Result,
    group::{Divided, Group, broadcast, gather_unlike},
    restore::ShardSet,
    status::{Parts, Recovery, Way},
};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// An environment variable of processes that were started to replace others.
const STARTED: &str = "MAINSTAY_RUN_REPLACES";

/// The facts that a surviving rank brings along from before the failure.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct SurvivorFacts {
    #[serde(skip)]
    pub(super) rank: u32,
    pub(super) ranks: u32,
    /// The number of the lineage under which it saved.
    pub(super) lineage: u64,
    /// The number that its next revision would have got.
    pub(super) next_number: u64,
    /// The newest revision that it knows to be complete, on any level.
    pub(super) newest: Option<RevisionKey>,
    /// The newest revision that was being copied to a farther level. It may be whole there without any rank knowing.
    pub(super) fed: Option<RevisionKey>,
    pub(super) spares_left: u32,
    /// The step that the program last gave to `due`.
    pub(super) step: u64,
    #[serde(skip)]
    pub(super) noticed_unix_ns: u64,
    #[serde(skip)]
    pub(super) regroup_ns: u64,
    #[serde(skip)]
    pub(super) divided: Divided,
}

/// The remains of a session for its successor. Empty unless the opening is a recovery.
#[derive(Default)]
pub(super) struct Carryover {
    pub(super) before: Option<SurvivorFacts>,
    /// Its locks, of all levels.
    pub(super) kept: KeptLocks,
    /// Rank 0: the status before the failure.
    pub(super) past: Option<Past>,
    /// Rank 0: the journal entries not yet written.
    pub(super) diary: Option<Diary>,
    /// This rank is to hold no copies of others.
    pub(super) holds_none: bool,
}

impl Carryover {
    /// A copy for the opening of the levels that are opened later. If this opening fails, the next one needs the rest,
    /// too.
    pub(super) fn for_later_levels(&self) -> Carryover {
        let (kept, past) = (self.kept.clone(), self.past.clone());
        Carryover { before: self.before, kept, past, diary: None, holds_none: self.holds_none }
    }
}

/// The facts about the surviving ranks, known to all ranks. Empty unless the opening is a recovery.
#[derive(Debug, Default)]
pub(super) struct RecoveryFacts {
    pub(super) recovering: Option<Recovery>,
    /// Whether any rank has locks from before. In an opening that failed, all ranks that knew of the job may have been
    /// lost.
    pub(super) has_locks: bool,
    /// The highest of all ranks.
    pub(super) lineage: u64,
    pub(super) next_number: u64,
    pub(super) newest: Option<RevisionKey>,
    pub(super) fed: Option<RevisionKey>,
    pub(super) spares_left: u32,
    /// If rank 0 is new: the recoveries that are not in the journal yet.
    pub(super) missed_recoveries: Vec<Recovery>,
}

impl RecoveryFacts {
    /// The state from which the job goes on, if `config` lets it go on after failures. A new rank 0 takes over the
    /// recoveries that the journal lacks. Collective.
    pub(super) fn of(group: &dyn Group, config: &Config, carryover: &mut Carryover) -> Result<RecoveryFacts> {
        if config.recovery == config::Recovery::Off {
            return Ok(RecoveryFacts::default());
        }
        let found = RecoveryFacts::find(group, carryover, config.spares)?;
        if group.rank() == 0 && !found.missed_recoveries.is_empty() {
            carryover.past.get_or_insert_default().since.clone_from(&found.missed_recoveries);
        }
        Ok(found)
    }

    /// Finds out which ranks go on, and which are new. `spares` is the number of spares at the first opening.
    /// Collective.
    fn find(group: &dyn Group, carryover: &Carryover, spares: u32) -> Result<RecoveryFacts> {
        // Most ranks kept their number and know the same. So they differ only in times.
        let moved = carryover.before.map(|before| u64::from(before.rank).wrapping_sub(group.rank() as u64));
        let mine = (carryover.before.zip(moved), carryover.kept.has_any(), was_started());
        let reported = gather_unlike(group, &mine, &mine)?;
        let all = reported.stretches(group);
        let has_locks = all.iter().any(|(_, (_, is_locked, _))| *is_locked);
        let is_started =
            |(_, (before, _, was_started)): &&(_, &(Option<_>, bool, bool))| before.is_none() && *was_started;
        let started: u32 = all.iter().filter(is_started).map(|(ranks, _)| ranks.len() as u32).sum();
        let survivors: Vec<(Range<usize>, SurvivorFacts, u64)> = all
            .into_iter()
            .filter_map(|(ranks, (before, ..))| before.map(|(before, moved)| (ranks, before, moved)))
            .collect();
        let before = || survivors.iter().map(|(_, before, _)| before);
        let Some(SurvivorFacts { ranks: ranks_before, .. }) = before().next().copied() else {
            return Ok(RecoveryFacts { spares_left: spares, has_locks, ..RecoveryFacts::default() });
        };
        let survived: ShardSet = survivors.iter().map(|(ranks, _, moved)| before_moving(ranks, *moved)).collect();
        let highest = |of: fn(&SurvivorFacts) -> u64| before().map(of).max().unwrap_or(0);
        let (ranks, new) = (group.size() as u32, group.size() as u32 - survived.count() as u32);
        let spares = before().map(|before| before.spares_left).min().unwrap_or(0);
        let [noticed_unix_ns, regroup_ns] = times(group, carryover.before.as_ref())?;
        let recovering = Recovery {
            noticed_unix_ns,
            failed: survived.gaps(ranks_before).into_iter().flatten().collect(),
            way: match () {
                () if ranks < ranks_before => Way::Shrunk,
                // Spares that were left may have died.
                () if started > 0 || new > spares => Way::Spawned,
                () => Way::Spare,
            },
            ranks_before,
            ranks,
            parts: Parts { regroup_ns, ..Parts::default() },
            step: Some(highest(|before| before.step)).filter(|step| *step > 0),
            ..Recovery::default()
        };
        let first = survivors.first().map_or(0, |(ranks, ..)| ranks.start);
        Ok(RecoveryFacts {
            recovering: Some(recovering),
            has_locks,
            lineage: highest(|before| before.lineage),
            next_number: highest(|before| before.next_number),
            newest: before().filter_map(|before| before.newest).max(),
            fed: before().filter_map(|before| before.fed).max(),
            spares_left: spares.saturating_sub(new - started),
            missed_recoveries: missed_recoveries(group, first, carryover)?,
        })
    }
}

/// The former numbers of `ranks`, which lie `moved` above today's.
fn before_moving(ranks: &Range<usize>, moved: u64) -> Range<u32> {
    let before = |rank: usize| (rank as u64).wrapping_add(moved) as u32;
    before(ranks.start)..before(ranks.end)
}

/// The first time at which a rank noticed the failure, and the longest time to regroup. Collective.
fn times(group: &dyn Group, before: Option<&SurvivorFacts>) -> Result<[u64; 2]> {
    let mut times = before.map_or([0; 2], |before| [!before.noticed_unix_ns, before.regroup_ns]);
    group.all_max(&mut times)?;
    Ok([!times[0], times[1]])
}

/// Whether this process was started to replace a failed rank. The front ends set the variable.
fn was_started() -> bool {
    std::env::var_os(STARTED).is_some()
}

/// The recoveries that a new rank 0 must report in place of the failed one. The lowest surviving rank, `first`, has kept
/// them. Collective.
fn missed_recoveries(group: &dyn Group, first: usize, carryover: &Carryover) -> Result<Vec<Recovery>> {
    if first == 0 {
        return Ok(Vec::new());
    }
    let since = carryover.past.as_ref().filter(|_| group.rank() == first).map(|past| past.since.clone());
    broadcast(group, first, &since.unwrap_or_default())
}
