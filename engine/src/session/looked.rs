//! Looking at the spaces of a session before anything is written there: who else is there, what they hold, and whether it
//! fits together.

use super::{
    choice::{joint, newest_of_all},
    copies,
    domain::Domain,
    epoch::same_id,
    failing::FailureStreak,
    holds::Holds,
    level::{Current, Level, LevelKind, Mends, Writers, layouts_of},
    locking::{self, KeptLocks},
    missed::ToldOnDisks,
    places::NoteFile,
    plan::LevelPlan,
};
use crate::{
    commit::{Complete, Ledger, OpenedLedger, RevisionKey},
    config::{Config, DiskLost},
    device::{Access, Device},
    error::{Error, Result, numbered},
    ground::lock,
    group::{Group, agree, gather},
    restore::{Found, Hurt, Sight, find, hex},
    salvage,
    space::{
        GoneBack, LayoutFile, Locks, Per, Stray, Strays, clear_away, files_of_layout, format::Lineage,
        layouts_and_strays, short,
    },
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{Arc, Mutex},
};

/// What a rank found in the newest layout that it sees.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Newest {
    layout_number: u64,
    layout_id: [u8; 16],
    /// This rank may go on writing into the layout.
    writable: bool,
    /// A user has said how large its portions are.
    is_sized: bool,
    /// The shards whose portions in it are in sight, told by one of the ranks that see the same files.
    seen: Vec<u32>,
}

impl Newest {
    fn is_of(&self, other: &Newest) -> bool {
        (self.layout_number, self.layout_id) == (other.layout_number, other.layout_id)
    }

    /// Whether those that write, of which `told` has what they found, all go on with one layout.
    fn is_shared(told: &[Newest], writers: &Writers) -> bool {
        let mut found = writing(told, writers).map(|(_, newest)| newest);
        let Some(first) = found.next() else { return false };
        first.writable && found.all(|other| other.writable && other.is_of(first))
    }

    /// The layout that all ranks go on with once the portions that some of them lack are made: those went with their
    /// nodes, as nobody sees them, and the others are as they were. `None`: there is no such layout.
    fn mended(told: &[Newest], writers: &Writers) -> Option<Newest> {
        let newest = told.iter().filter(|newest| newest.writable).max_by_key(|newest| newest.layout_number)?;
        let is_older = |other: &Newest| other.layout_number < newest.layout_number;
        let here: Vec<&Newest> = told.iter().filter(|other| other.is_of(newest)).collect();
        let is_seen = |shard: usize| here.iter().any(|other| other.seen.contains(&(shard as u32)));
        let goes_on = |(rank, own): (usize, &Newest)| {
            own.writable && own.is_of(newest) || !writers.shards_of(rank).into_iter().any(is_seen)
        };
        let fits = told.iter().all(|other| other.is_of(newest) || is_older(other));
        (fits && writing(told, writers).all(goes_on)).then(|| Newest { seen: Vec::new(), ..newest.clone() })
    }
}

/// What the ranks that write shards have told.
fn writing<'a>(told: &'a [Newest], writers: &Writers) -> impl Iterator<Item = (usize, &'a Newest)> {
    told.iter().enumerate().filter(|(rank, _)| !writers.shards_of(*rank).is_empty())
}

/// What this rank finds in the portions that it looks after.
struct Scan {
    layouts: Vec<LayoutFile>,
    opened: Vec<OpenedLedger>,
    newest: Newest,
    sight: Sight,
}

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

/// A revision of which a part is out of sight, and which is newer than all that is whole on any level, refuses the start:
/// before anything is written, as a job that began anew would remove what is seen of it. What was in memory goes with its
/// node, which the restore tells; so does what was on a disk, where the user has said so.
fn check_sight(looked: &mut [Looked], known: Option<RevisionKey>, disk_lost: DiskLost) -> Result<()> {
    let newest = looked.iter().filter_map(Looked::newest).max().max(known);
    for level in looked.iter_mut().filter(|level| matches!(level.wanted.writers, Writers::Owners)) {
        let Some(unseen) = level.found.newest_unseen().filter(|unseen| Some(unseen.whole.key) > newest) else {
            continue;
        };
        let revision = unseen.whole.key.number;
        let is_disk_level = level.wanted.kind == LevelKind::Disk;
        let is_lost = level.wanted.kind == LevelKind::Memory || is_disk_level && disk_lost == DiskLost::Accepted;
        if is_lost || !level.joint.is_empty() {
            let shards = numbered("shard", &unseen.shards);
            let name = level.wanted.kind.name();
            let told = format!("revision {revision} in {name}: {shards} went with the nodes that held them");
            level.scan.sight.torn.push(told);
            continue;
        }
        let (path, files) = (level.wanted.device.path(), files_of_layout(unseen.whole.layout));
        let shards = unseen.shards.clone();
        return Err(Error::LayoutOutOfSight { path, revision, shards, files, is_disk_level });
    }
    Ok(())
}

/// Disks that are out of reach refuse the start, too, if a job has told that they have something newer than all that is left.
/// What is damaged there is not out of reach. Collective.
fn check_told(
    group: &dyn Group,
    looked: &mut [Looked],
    known: Option<RevisionKey>,
    disk_lost: DiskLost,
    back: &[GoneBack],
) -> Result<()> {
    let is_disk = |level: &Looked| level.wanted.kind == LevelKind::Disk;
    let Some(first) = looked.iter().position(is_disk) else { return Ok(()) };
    let directories: Vec<_> = looked.iter().map(|level| level.wanted.device.directory()).collect();
    let Some(told) = ToldOnDisks::find(group, &directories, back)? else { return Ok(()) };
    let left = looked.iter().filter_map(Looked::newest).max().max(known);
    let disks = || looked.iter().filter(|level| is_disk(level));
    let seen = disks().map(|level| level.found.lineage_max).max().unwrap_or(0);
    if disks().any(|level| !level.found.damage.is_empty()) || !told.is_missed(seen, left) {
        return Ok(());
    }
    match disk_lost {
        DiskLost::Refused => return Err(told.refusal(left)),
        DiskLost::Accepted => looked[first].scan.sight.torn.push(told.text()),
    }
    Ok(())
}

/// Notes for each level with copies which revision is the newest that is complete on all of them together.
fn note_joint(looked: &mut [Looked]) -> Result<()> {
    let is_copy = |level: &Looked| !matches!(level.wanted.writers, Writers::Owners);
    let mut begin = 0;
    while begin < looked.len() {
        let end = (begin + 1..looked.len()).find(|index| !is_copy(&looked[*index])).unwrap_or(looked.len());
        let family = &mut looked[begin..end];
        if family.len() > 1 {
            let sights = family.iter().flat_map(|level| level.sights.iter().cloned()).collect();
            let all = joint(sights, &family[0].found.complete, &family[0].wanted.device.path())?;
            let has = |level: &Looked, key| level.found.complete.iter().any(|complete| complete.key == key);
            let is_made = |level: &&Looked| !matches!(level.wanted.writers, Writers::Nobody);
            let on_each = |complete: &&Complete| family.iter().filter(is_made).all(|level| has(level, complete.key));
            let joint: Vec<RevisionKey> =
                all.first().into_iter().chain(all.iter().find(on_each)).map(|complete| complete.key).collect();
            family.iter_mut().for_each(|level| level.joint.clone_from(&joint));
        }
        begin = end;
    }
    Ok(())
}

/// A revision that is newer than all that are whole on one level, and complete on all levels together: what there is of it
/// is to stay on each. Collective.
fn spread_newest(group: &dyn Group, looked: &[Looked]) -> Result<Option<RevisionKey>> {
    let newest = newest_of_all(looked.iter().flat_map(|level| &level.sights));
    let newest = newest.filter(|_| newest > looked.iter().filter_map(Looked::newest).max());
    let comes_back = newest.is_some() && (group.size() == 1 || copies::can_exchange(group)?);
    Ok(newest.filter(|_| comes_back))
}

/// Levels whose lineages of one number have different ids belong to different jobs, or one was out of sight when the
/// other went on.
fn one_history(looked: &[Looked]) -> Result<()> {
    let mut ids: BTreeMap<u64, [u8; 16]> = BTreeMap::new();
    for level in looked {
        for RevisionKey { lineage, .. } in level.found.holdable().into_iter().map(|complete| complete.key) {
            let first = *ids.entry(lineage.number).or_insert(lineage.id);
            if first != lineage.id {
                let path = level.wanted.device.path();
                return Err(Error::LineageConflict {
                    path,
                    lineage: lineage.number,
                    first: hex(&first),
                    second: hex(&lineage.id),
                });
            }
        }
    }
    Ok(())
}

fn scan(group: &dyn Group, wanted: &Wanted, domain: &Domain, locks_work: bool) -> Result<Scan> {
    let Wanted { device, writers, back, .. } = wanted;
    let device = &**device;
    let (rank, written) = (group.rank(), writers.shards_of(group.rank()));
    if rank == domain.leader() {
        clear_away(device)?;
    }
    let (layouts, Strays { foreign, damaged }) = layouts_and_strays(device, Access::Write)?;
    let (mut opened, mut newest, mut sight) = (Vec::new(), Newest::default(), Sight::default());
    if rank == domain.leader() {
        sight.torn.extend(foreign);
        for Stray { told, of } in damaged {
            sight.damage.push(told);
            sight.hurt.push(of.map(|(layout, shard)| Hurt { layout, shard }));
        }
    }
    sight.layouts = layouts_of(&layouts);
    let mut writable = 0;
    for layout in &layouts {
        let header = &layout.header;
        // A layout can have several files; a rank's portion lies in one of them.
        if header.layout_id != newest.layout_id {
            let (layout_number, layout_id) = (header.layout_number, header.layout_id);
            newest = Newest { layout_number, layout_id, is_sized: header.is_sized, ..Newest::default() };
            writable = 0;
        }
        if rank == domain.leader() {
            newest.seen.extend(header.portions.iter().map(|place| place.rank));
        }
        for portion in layout.portions().filter(|p| domain.looks_after(rank, writers.of(p.rank() as usize))) {
            let is_written = written.contains(&(portion.rank() as usize));
            let found = Ledger::open(portion)?;
            // Without locks, a job that was not seen to end may still be writing here.
            let alone = locks_work || found.clean;
            if is_written && header.ranks as usize == group.size() && found.usable && alone {
                writable += 1;
                newest.writable = writable == written.len();
            }
            if !found.damage.is_empty() {
                let portion = found.ledger.portion();
                sight.hurt.push(Some(Hurt { layout: short(portion.layout_id()), shard: portion.rank() }));
            }
            sight.damage.extend(found.damage.iter().cloned());
            sight.torn.extend(found.torn.iter().cloned());
            sight.lineages.extend(found.lineage);
            sight.add(&found.ledger);
            opened.push(found);
        }
    }
    sight.leave_out(back);
    Ok(Scan { layouts, opened, newest, sight })
}
