//! The space of one level or copy: read before anything is written there, then taken over.

use super::{
    super::{
        domain::Domain,
        epoch::same_id,
        holds::Holds,
        level::{CurrentLayout, Feeding, Files, History, LayoutRepair, Level, LevelKind, Location, Writers},
        sights::gather_sights,
    },
    newest::Newest,
    scan::{Scan, scan},
    wanted::Wanted,
};
use crate::{
    commit::{OpenedLedger, RevisionKey},
    config::Config,
    device::Device,
    error::Result,
    ground::lock,
    group::{Group, agree, gather_unequal},
    remark::remark,
    restore::{Found, Sight, find},
    salvage,
    space::{Locks, format::Lineage},
};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

/// A space that is locked and read. This job has written nothing there yet.
pub(in crate::session) struct Looked {
    pub(in crate::session) wanted: Wanted,
    pub(super) scan: Scan,
    /// The findings of every rank's scan.
    pub(super) sights: Vec<Sight>,
    /// The newest revisions that are complete on the level and its copies: on all together, and on each. Empty without
    /// copies.
    pub(super) joint: Vec<RevisionKey>,
    pub(super) left: salvage::Left,
    newest: Newest,
    /// The newest layout fits these ranks, and has portions of this rank.
    goes_on: bool,
    /// The newest layout if some ranks lack their portions in it. The same on all ranks.
    mends: Option<LayoutRepair>,
    pub(in crate::session) found: Found,
    config: Config,
    pub(in crate::session) domain: Domain,
    locks: Arc<Locks>,
    locks_work: bool,
}

impl Looked {
    /// Opens a level's copy `old` anew, for other holders. The former portions are still read, until newer revisions in
    /// a layout of these holders replace them. No write is under way there. Collective.
    pub(in crate::session) fn with_holders(
        group: &dyn Group,
        old: Level,
        holders: Vec<usize>,
        lineage: Lineage,
    ) -> Result<Level> {
        let id = same_id(group)?;
        let Level { files, feeding, joint, history, received, location, .. } = old;
        let Location { kind, every, config, device, back, locks, locks_work, .. } = location;
        let (locks, domain) = ((locks, locks_work), Domain::find(group, &*device, id)?);
        // Other ranks write these portions from now on.
        drop((files.current, files.others, received));
        let writers = Writers::Holders(holders);
        let wanted = Wanted { kind, writers, every, has_others: true, feeds: feeding.feeds, device, back };
        let mut looked = Looked::at(group, wanted, config, domain, locks)?;
        std::mem::take(&mut looked.left).give_up(&looked.config.pool_directory);
        looked.joint = joint;
        let history = History { last: None, unsaved: None, ..history };
        Ok(Level { history, ..looked.take_over(group, lineage)? })
    }

    /// The place of the level; `None` for a copy.
    pub(in crate::session) fn place(&self) -> Option<(LevelKind, &Domain, &dyn Device)> {
        let is_level = matches!(self.wanted.writers, Writers::Owners);
        is_level.then(|| (self.wanted.kind, &self.domain, &*self.wanted.device))
    }

    /// The newest revision that is whole here, with or without the copies of the level.
    pub(in crate::session) fn newest(&self) -> Option<RevisionKey> {
        self.found.complete.first().map(|complete| complete.key).max(self.joint.iter().copied().max())
    }

    /// Completes the data that a killed job left in the space, and reads the space. This rank has its `locks`; the
    /// ranks of the `domain` see it. Refused if data cannot be completed now, but possibly later. Collective.
    pub(super) fn at(
        group: &dyn Group,
        wanted: Wanted,
        config: Config,
        domain: Domain,
        (locks, locks_work): (Arc<Locks>, bool),
    ) -> Result<Looked> {
        let Wanted { ref writers, ref device, .. } = wanted;
        // No rank makes a pool, or looks for revisions, while another one still completes shards. None begins a lineage
        // while data can still be completed, now or later: a new lineage would end the claim.
        let mut left = agree(group, salvage::at_opening(&**device, &config.pool_directory, locks_work))?;
        let reported = gather_unequal(group, &(left.over().to_vec(), left.cut().to_vec()))?;
        let (over, cut): (Vec<_>, Vec<_>) = reported.into_iter().unzip();
        left.forget_taken(&over.concat());
        BTreeSet::from_iter(cut.concat()).iter().for_each(|line| remark(group.rank(), line));
        agree(group, left.check_taken(&**device, &config.pool_directory))?;

        let scan = scan(group, &wanted, &domain, locks_work);
        let mut scan = agree(group, scan)?;
        scan.sight.damaged_slots.extend_from_slice(left.lost());
        let sights = gather_sights(group, &scan.sight, &writers.looked_after(group.rank()))?;
        let found = find(&sights, &device.path())?;
        let reported = Newest::of_all(gather_unequal(group, &scan.newest)?, writers);
        let mut newest = reported.get(group.rank()).unwrap_or(&reported[0]).clone();
        let mut goes_on = Newest::is_shared(&reported, writers);
        let mut mends = None;
        if !goes_on
            && wanted.can_mend(&config)
            && let Some(mended) = Newest::to_mend(&reported)
            && mended.can_be_mended(&reported, &scan.seen_in(group, &mended)?, writers)
        {
            let writes = !writers.shards_of(group.rank()).is_empty();
            goes_on = !writes || newest.writable && newest.is_of(&mended);
            mends = Some(LayoutRepair { layout_number: mended.layout_number, layout_id: mended.layout_id });
            newest = mended;
        }
        let joint = Vec::new();
        Ok(Looked {
            wanted,
            scan,
            newest,
            sights,
            joint,
            left,
            goes_on,
            mends,
            found,
            config,
            domain,
            locks,
            locks_work,
        })
    }

    /// Writes the new lineage into every portion of the newest layout. A job thought dead that still writes there finds
    /// it and stops. Collective.
    pub(in crate::session) fn take_over(self, group: &dyn Group, lineage: Lineage) -> Result<Level> {
        let Looked { wanted, scan, newest, joint, goes_on, mends, found, config, domain, locks, locks_work, .. } = self;
        let Wanted { kind, writers, every, feeds, device, back, .. } = wanted;
        let Scan { layouts, opened, sight, .. } = scan;
        // Holds are read under the lock. A hold written before the lock was taken is found here. A process that writes
        // one later sees the lock.
        let holds = Holds::find(group, &layouts, &found.holdable())?;
        let (mut ledgers, mut others, mut begun) = (Vec::new(), Vec::new(), Ok(()));
        let written = writers.shards_of(group.rank());
        for OpenedLedger { mut ledger, usable, .. } in opened {
            ledger.set_staying(holds.keys(), joint.clone());
            let in_newest = ledger.portion().layout_id() == newest.layout_id;
            if in_newest && usable {
                begun = begun.and(ledger.begin(lineage, &[]));
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
        let current = goes_on.then_some(CurrentLayout { layout_id: newest.layout_id, ledgers });
        let Found { mut complete, .. } = found;
        complete.truncate(config.keep as usize);
        let files = Files {
            current,
            mends,
            made: None,
            others,
            layouts,
            damage: sight.damage,
            damaged_shards: sight.damaged_shards,
            damaged_slots: sight.damaged_slots,
            outgrown: Vec::new(),
            makes_later: false,
        };
        Ok(Level {
            saving: None,
            files,
            complete,
            holds,
            feeding: Feeding { feeds, fed: Vec::new(), under_feed: None, sent: None },
            joint,
            doubted: None,
            history: History::default(),
            received: None,
            mending: None,
            location: Location { kind, writers, every, config, domain, device, back, locks_work, locks },
        })
    }
}
