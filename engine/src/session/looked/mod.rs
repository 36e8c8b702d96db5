//! Looking at the spaces of a session before anything is written there: who else is there, what they hold, and whether it
//! fits together.

mod fitting;
mod newest;
mod scan;

use self::{
    fitting::{check_sight, check_told, note_joint, one_history, spread_newest},
    newest::Newest,
    scan::{Scan, scan},
};
use super::{
    copies,
    domain::Domain,
    epoch::same_id,
    failing::FailureStreak,
    holds::Holds,
    level::{Current, Level, LevelKind, Mends, Writers},
    locking::{self, KeptLocks},
    places::NoteFile,
    plan::LevelPlan,
};
use crate::{
    commit::{OpenedLedger, RevisionKey},
    config::Config,
    device::Device,
    error::Result,
    ground::lock,
    group::{Group, agree, gather},
    restore::{Found, Sight, find},
    salvage,
    space::{GoneBack, Locks, Per, format::Lineage},
};
use std::{
    ops::Range,
    sync::{Arc, Mutex},
};

/// A space that is locked and looked at, in which this job has written nothing yet.
pub(super) struct Looked {
    pub(super) wanted: Wanted,
    scan: Scan,
    /// What each rank has told of the scan.
    sights: Vec<Sight>,
    /// The newest revisions that are complete on the level and its copies, together and on each; none without copies.
    joint: Vec<RevisionKey>,
    left: salvage::Left,
    /// The newest layout is one for these ranks, and this one has its portions there.
    goes_on: bool,
    /// That layout, where some ranks lack theirs: the same on all.
    mends: Option<Mends>,
    pub(super) found: Found,
    config: Config,
    pub(super) domain: Domain,
    locks: Arc<Locks>,
    locks_work: bool,
}

/// A level, or a copy of one, as it is to be opened.
pub(super) struct Wanted {
    pub(super) kind: LevelKind,
    writers: Writers,
    every: u32,
    grows: bool,
    feeds: u32,
    pub(super) device: Arc<dyn Device>,
    /// What rollbacks have left out.
    back: Arc<[GoneBack]>,
}

impl Wanted {
    /// Whether a layout can go on where portions of it went with their nodes: in memory, where each file has one writer.
    fn can_mend(&self, config: &Config) -> bool {
        let one_writer = match self.writers {
            Writers::Owners => config.per == Per::Rank,
            Writers::Holders(_) => true,
            Writers::Nobody => false,
        };
        self.kind == LevelKind::Memory && one_writer
    }
}

impl Looked {
    /// Looks at `plans`, those of the range `which`, each with its copies. `note`: of the space, where there are several levels.
    /// `holds`: whether this rank holds copies of others. `kept`: the job goes on after a failure. Collective.
    pub(super) fn at_all(
        group: &dyn Group,
        plans: &[LevelPlan],
        which: Range<usize>,
        note: Option<&NoteFile>,
        config: &Config,
        holds: bool,
        mut kept: Option<&mut KeptLocks>,
    ) -> Result<Vec<Looked>> {
        let id = same_id(group)?;
        let back: Arc<[GoneBack]> = note.map(NoteFile::back).unwrap_or_default().into();
        // What has to be kept for them until they have it.
        let feeds = plans[1..].iter().filter(|plan| plan.every > 0).count() as u32;
        let mut looked: Vec<Looked> = Vec::new();
        for index in which {
            let plan = &plans[index];
            let config = config_of(plan, config, index == plans.len() - 1);
            let (every, feeds) = if index == 0 { (1, feeds) } else { (plan.every, 0) };
            // With one level, the program decides what to do where its space is too small.
            let grows = plan.kind == LevelKind::Memory || plans.len() > 1;
            let mut at = |device: &Arc<dyn Device>, writers, feeds| {
                let (kind, back) = (plan.kind, back.clone());
                let wanted = Wanted { kind, writers, every, grows, feeds, device: device.clone(), back };
                let domain = Domain::find(group, &**device, id)?;
                let locks = locking::take(group, &**device, &domain, kept.as_deref_mut())?;
                Looked::at(group, wanted, config.clone(), domain, locks)
            };
            let level = at(&plan.device, Writers::Owners, feeds)?;
            let holders = copies::holders(group, plan.kind, &level.domain, plan.copies.len() + 1, holds, &[])?;
            looked.push(level);
            for (holders, device) in holders.into_iter().zip(&plan.copies) {
                looked.push(at(device, Writers::Holders(holders), 0)?);
            }
            // One rank sees them all; several have to send each other what they find.
            if !plan.former.is_empty() && (group.size() == 1 || copies::can_exchange(group)?) {
                for device in &plan.former {
                    looked.push(at(device, Writers::Nobody, 0)?);
                }
            }
        }
        note_joint(&mut looked)?;
        Ok(looked)
    }

    /// Opens a level's copy `old` anew, for other holders: what nobody writes to any longer is read, until newer revisions
    /// have taken its place in a layout of these holders. Nothing is under way there. Collective.
    pub(super) fn with_holders(group: &dyn Group, old: Level, holders: Vec<usize>, lineage: Lineage) -> Result<Level> {
        let id = same_id(group)?;
        let Level { kind, every, grows, feeds, device, back, config, joint, .. } = old;
        let Level { passed_over, lacks, failing, remarked, .. } = old;
        let (locks, domain) = ((old.locks, old.locks_work), Domain::find(group, &*device, id)?);
        // Others write these portions from now on.
        drop((old.current, old.others, old.fetched, old.told_of, old.beside, old.told));
        let wanted = Wanted { kind, writers: Writers::Holders(holders), every, grows, feeds, device, back };
        let mut looked = Looked::at(group, wanted, config, domain, locks)?;
        std::mem::take(&mut looked.left).give_up(&looked.config.pool_directory);
        looked.joint = joint;
        Ok(Level { passed_over, lacks, failing, remarked, ..looked.take_over(group, lineage)? })
    }

    /// Refuses levels that do not fit together. `known`: a revision that is complete elsewhere, if there is one. `note`:
    /// of the space, where there are several levels, of which its jobs tell. Collective.
    pub(super) fn check_all(
        group: &dyn Group,
        looked: &mut [Looked],
        config: &Config,
        known: Option<RevisionKey>,
        note: Option<&NoteFile>,
    ) -> Result<()> {
        one_history(looked)?;
        let spread = spread_newest(group, looked)?;
        check_sight(looked, known.max(spread), config.disk_lost)?;
        if let Some(note) = note {
            check_told(group, looked, known.max(spread), config.disk_lost, note.back())?;
        }
        let has =
            |level: &&mut Looked| level.sights.iter().flat_map(|sight| &sight.shards).any(|it| Some(it.key) == spread);
        looked.iter_mut().filter(has).for_each(|level| level.joint.extend(spread));
        // Nothing that was staged refuses the start.
        looked.iter_mut().for_each(|level| std::mem::take(&mut level.left).give_up(&config.pool_directory));
        Ok(())
    }

    /// Where the level lies; `None` of a copy.
    pub(super) fn place(&self) -> Option<(LevelKind, &Domain, &dyn Device)> {
        let is_level = matches!(self.wanted.writers, Writers::Owners);
        is_level.then(|| (self.wanted.kind, &self.domain, &*self.wanted.device))
    }

    /// The newest revision that is whole here, with the copies of the level or without.
    pub(super) fn newest(&self) -> Option<RevisionKey> {
        self.found.complete.first().map(|complete| complete.key).max(self.joint.iter().copied().max())
    }

    /// Completes what a killed job left in the space, whose `locks` this rank has, and which those of the `domain` see, and
    /// looks at what is there. Refused while something cannot be completed now, and could be another time. Collective.
    fn at(
        group: &dyn Group,
        wanted: Wanted,
        config: Config,
        domain: Domain,
        (locks, locks_work): (Arc<Locks>, bool),
    ) -> Result<Looked> {
        let Wanted { ref writers, ref device, .. } = wanted;
        // No rank makes a pool, or looks for revisions, while another one still completes shards; and none begins a
        // lineage while something can be completed, now or another time: a new lineage would end the claim.
        let mut left = agree(group, salvage::at_opening(&**device, &config.pool_directory, locks_work))?;
        left.forget_taken(&gather(group, &left.over().to_vec())?.concat());
        agree(group, left.check_taken(&**device, &config.pool_directory))?;

        let scan = scan(group, &wanted, &domain, locks_work);
        let mut scan = agree(group, scan)?;
        scan.sight.torn.extend_from_slice(left.lost());
        let sights = gather(group, &scan.sight)?;
        let found = find(&sights, &device.path())?;
        let told = gather(group, &scan.newest)?;
        // The same on all ranks, whatever the files say.
        scan.newest.is_sized = told.iter().any(|newest| newest.is_of(&scan.newest) && newest.is_sized);
        let mut goes_on = Newest::is_shared(&told, writers);
        let mut mends = None;
        if !goes_on
            && wanted.can_mend(&config)
            && let Some(newest) = Newest::mended(&told, writers)
        {
            let writes = !writers.shards_of(group.rank()).is_empty();
            goes_on = !writes || scan.newest.writable && scan.newest.is_of(&newest);
            mends = Some(Mends { layout_number: newest.layout_number, layout_id: newest.layout_id });
            scan.newest = newest;
        }
        let joint = Vec::new();
        Ok(Looked { wanted, scan, sights, joint, left, goes_on, mends, found, config, domain, locks, locks_work })
    }

    /// Puts the new lineage into every portion of the newest layout: a job thought dead that still writes there finds it
    /// and stops. Collective.
    pub(super) fn take_over(self, group: &dyn Group, lineage: Lineage) -> Result<Level> {
        let Looked { wanted, scan, joint, goes_on, mends, found, config, domain, locks, locks_work, .. } = self;
        let Wanted { kind, writers, every, grows, feeds, device, back } = wanted;
        let Scan { layouts, opened, newest, sight } = scan;
        // Holds are read under the lock: a hold that was written before it was taken is found here, and whoever writes
        // one later sees the lock.
        let holds = Holds::find(group, &layouts, &found.holdable())?;
        let (mut ledgers, mut others, mut begun) = (Vec::new(), Vec::new(), Ok(()));
        let written = writers.shards_of(group.rank());
        for OpenedLedger { mut ledger, usable, .. } in opened {
            ledger.set_staying(holds.keys(), joint.clone());
            let in_newest = ledger.portion().layout_id() == newest.layout_id;
            if in_newest && usable {
                begun = begun.and(ledger.begin(lineage));
            }
            if goes_on && in_newest && written.contains(&(ledger.portion().rank() as usize)) {
                begun = begun.and_then(|()| ledger.portion().stay_open());
                ledgers.push(Arc::new(Mutex::new(ledger)));
            } else {
                others.push(ledger);
            }
        }
        agree(group, begun)?;
        ledgers.sort_by_key(|ledger| lock(ledger).portion().rank());
        let current = goes_on.then_some(Current { layout_id: newest.layout_id, is_sized: newest.is_sized, ledgers });
        let Found { mut complete, .. } = found;
        complete.truncate(config.keep as usize);
        Ok(Level {
            saving: None,
            current,
            mends,
            made: None,
            unopened: None,
            was_shared_out: false,
            others,
            layouts,
            complete,
            holds,
            damage: sight.damage,
            hurt: sight.hurt,
            torn: sight.torn,
            last: None,
            kind,
            writers,
            every,
            grows,
            feeds,
            fed: Vec::new(),
            under_feed: None,
            passed_over: 0,
            lacks: Vec::new(),
            failing: FailureStreak::default(),
            unsaved: None,
            remarked: None,
            config,
            domain,
            device,
            back,
            joint,
            doubted: None,
            sent: None,
            fetched: Vec::new(),
            told_of: None,
            in_sight: Vec::new(),
            beside: Vec::new(),
            parts: Vec::new(),
            wanted: Mutex::default(),
            told: Mutex::default(),
            mending: None,
            locks_work,
            locks,
        })
    }
}

/// The settings as they apply to the level of `plan`; those of sizes and files apply to the farthest alone.
fn config_of(plan: &LevelPlan, config: &Config, is_farthest: bool) -> Config {
    let config = Config { keep: plan.keep, ..config.clone() };
    if is_farthest {
        return config;
    }
    Config { per: Per::Rank, portion_bytes: 0, stripe_count: 0, stripe_bytes: 0, ..config }
}
