//! The remains of a session for its successor after a failure, and the facts about them that all ranks share.

use super::{diary::Diary, locking::KeptLocks, status_reporter::Past};
use crate::{
    commit::RevisionKey,
    config::{self, Config},
    error::Result,
    group::{Divided, Group, gather},
    status::{Parts, Recovery, Way},
};
use serde::{Deserialize, Serialize};

/// An environment variable of processes that were started to replace others.
const STARTED: &str = "MAINSTAY_RUN_REPLACES";

/// The facts that a surviving rank brings along from before the failure.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct SurvivorFacts {
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
    pub(super) noticed_unix_ns: u64,
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
        let mine = (carryover.before, carryover.kept.has_any(), was_started());
        let reported: Vec<(Option<SurvivorFacts>, bool, bool)> = gather(group, &mine)?;
        let has_locks = reported.iter().any(|(_, is_locked, _)| *is_locked);
        let started =
            reported.iter().filter(|(before, _, was_started)| before.is_none() && *was_started).count() as u32;
        let survivors: Vec<Option<SurvivorFacts>> = reported.into_iter().map(|(before, ..)| before).collect();
        let before: Vec<SurvivorFacts> = survivors.iter().flatten().copied().collect();
        let Some(SurvivorFacts { ranks: ranks_before, .. }) = before.first().copied() else {
            return Ok(RecoveryFacts { spares_left: spares, has_locks, ..RecoveryFacts::default() });
        };
        let highest = |of: fn(&SurvivorFacts) -> u64| before.iter().map(of).max().unwrap_or(0);
        let (ranks, new) = (group.size() as u32, (survivors.len() - before.len()) as u32);
        let spares = before.iter().map(|before| before.spares_left).min().unwrap_or(0);
        let recovering = Recovery {
            noticed_unix_ns: before.iter().map(|before| before.noticed_unix_ns).min().unwrap_or(0),
            failed: (0..ranks_before).filter(|rank| before.iter().all(|before| before.rank != *rank)).collect(),
            way: match () {
                () if ranks < ranks_before => Way::Shrunk,
                // Spares that were left may have died.
                () if started > 0 || new > spares => Way::Spawned,
                () => Way::Spare,
            },
            ranks_before,
            ranks,
            parts: Parts { regroup_ns: highest(|before| before.regroup_ns), ..Parts::default() },
            step: Some(highest(|before| before.step)).filter(|step| *step > 0),
            ..Recovery::default()
        };
        Ok(RecoveryFacts {
            recovering: Some(recovering),
            has_locks,
            lineage: highest(|before| before.lineage),
            next_number: highest(|before| before.next_number),
            newest: before.iter().filter_map(|before| before.newest).max(),
            fed: before.iter().filter_map(|before| before.fed).max(),
            spares_left: spares.saturating_sub(new - started),
            missed_recoveries: missed_recoveries(group, &survivors, carryover)?,
        })
    }
}

/// Whether this process was started to replace a failed rank. The front ends set the variable.
fn was_started() -> bool {
    std::env::var_os(STARTED).is_some()
}

/// The recoveries that a new rank 0 must report in place of the failed one. The lowest surviving rank has kept them.
/// `survivors` shows which ranks were there before. Collective.
fn missed_recoveries(
    group: &dyn Group,
    survivors: &[Option<SurvivorFacts>],
    carryover: &Carryover,
) -> Result<Vec<Recovery>> {
    let Some(first) = survivors.iter().position(Option::is_some).filter(|first| *first > 0) else {
        return Ok(Vec::new());
    };
    let since = carryover.past.as_ref().filter(|_| group.rank() == first).map(|past| past.since.clone());
    Ok(gather(group, &since.unwrap_or_default())?.swap_remove(first))
}
