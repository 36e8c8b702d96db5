//! Opens a space for writing: finds the other ranks, reads the space, and draws a lineage of its own.

use super::{
    agreement::LEVELS_MAX,
    announcer::Announcer,
    carryover::{Carryover, RecoveryFacts},
    copies::Post,
    deferred_levels::LaterLevels,
    diary::Diary,
    due::{Due, SignalFlag},
    epoch::{Epoch, next_lineage, same_id},
    level::{Level, LevelKind},
    level_plan::{LevelPlan, Origin},
    levels::Levels,
    looked::Looked,
    node::Node,
    places::{self, NoteFile},
    program::Program,
    ranks::Ranks,
    report::Report,
    requests::Listener,
    resources::Resources,
    schedule::Schedule,
    state::SessionState,
    status_reporter::{StatusReporter, node_locations_of},
};
use crate::{
    capture::Outputs,
    config::{Config, DiskLost, Stage, Start, Surroundings, check_alike, passed_over},
    device::Device,
    error::{Error, Result},
    ground::Instant,
    group::{Group, agree},
    pool::Pool,
    printable::shortened,
    remark::Remark,
    restore::Found,
    space::{format::Lineage, probe_name},
    stage::{Policy, find_threshold},
    status::{Opening, Recovery},
};
use std::path::PathBuf;

static PASSED_OVER: Remark = Remark::new();

/// A session that lacks only its ranks.
struct Open {
    // Drop order: the same as in `SessionState`.
    program: Program,
    resources: Resources,
    node: u32,
    lineage: Lineage,
    next_number: u64,
    spares_left: u32,
    announcer: Announcer,
    levels: Levels,
    later: Option<LaterLevels>,
    report: Option<Report>,
    recovering: Option<Recovery>,
}

/// A group that could not open a space together, and the error.
pub(super) struct Refused {
    pub(super) group: Box<dyn Group>,
    pub(super) error: Error,
}

impl SessionState {
    /// Opens the levels of `whence`, the nearest first. A recovery goes on with `remains`. Collective.
    pub(super) fn try_open(
        group: Box<dyn Group>,
        origin: Origin,
        config: Config,
        carryover: &mut Carryover,
    ) -> std::result::Result<SessionState, Refused> {
        match Self::open_for(&*group, &origin, config, carryover) {
            Ok(open) => Ok(open.with(group, origin)),
            Err(error) => Err(Refused { group, error }),
        }
    }

    fn open_for(group: &dyn Group, origin: &Origin, config: Config, carryover: &mut Carryover) -> Result<Open> {
        let path = match origin {
            Origin::Levels(plans) => return Self::open_levels(group, plans.clone(), None, config, carryover),
            Origin::Path(path) => path,
        };
        let (plans, note) = places::plans(group, path, &config)?;
        let report = if group.rank() == 0 { Report::begin(path) } else { None };
        PASSED_OVER.make(group.rank(), || passed_over(&Surroundings::here()));
        let mut open = Self::open_levels(group, plans, note, config, carryover)?;
        report.iter().for_each(Report::opened);
        open.report = report;
        if group.rank() == 0 {
            let nodes = open.announcer.reporter.as_ref().map_or(0, |reporter| reporter.nodes);
            let config = &open.program.config;
            let opening = Opening {
                lineage: open.lineage.number,
                ranks: group.size() as u32,
                nodes: nodes as u32,
                // An interval computed from `mtbf` is shorter than `mtbf`.
                every_ns: config.every.max(config.mtbf).as_nanos() as u64,
                ..Opening::default()
            };
            let mut diary = Diary::begin(path, open.levels.all(), opening);
            match carryover.diary.take() {
                Some(before) => diary.take_over(before),
                // This rank was not rank 0 before, and the former rank 0 wrote none of these recoveries down.
                None => missed_recoveries(carryover)
                    .for_each(|recovery| diary.recovered(recovery.clone().shortened(shortened))),
            }
            open.announcer.diary = Some(diary);
        }
        Ok(open)
    }

    fn open_levels(
        group: &dyn Group,
        plans: Vec<LevelPlan>,
        mut note: Option<NoteFile>,
        config: Config,
        carryover: &mut Carryover,
    ) -> Result<Open> {
        agree(group, config.check())?;
        check_alike(group, &config)?;
        let going_on = RecoveryFacts::of(group, &config, carryover)?;
        let begun = Instant::now();
        agree(group, check_plans(&plans))?;
        let (looked, open) = look_at_levels(group, &plans, note.as_ref(), &config, &going_on, carryover)?;
        let (node, pool, policy) = find_pool(group, &looked[0], &config)?;
        let (lineage, next_number) = next_numbers(group, &looked, note.as_ref(), &going_on)?;

        let farthest = plans[plans.len() - 1].device.clone();
        let (mut node_locations, mut later) = (None, None);
        if open == plans.len() {
            node_locations =
                node_locations_of(group, note.as_mut(), node, looked.iter().filter_map(Looked::place), lineage)?;
        } else {
            let (from, note) = (open, note.take());
            later = Some(LaterLevels { plans, from, note, carryover: carryover.for_later_levels() });
        }
        let levels = looked.into_iter().map(|looked| looked.take_over(group, lineage)).collect::<Result<_>>()?;
        let levels = Levels::new(levels, note);
        let reporter = node_locations.map(|all| StatusReporter::start(group, &all, &levels)).transpose()?.flatten();
        let mut announcer = Announcer { reporter, diary: None, waits: later.is_some() };
        if let (Some(reporter), Some(past)) = (&mut announcer.reporter, carryover.past.clone()) {
            reporter.take_over(past);
        }

        let mut resources = Resources::new(group, &config, &levels, pool, policy, lineage)?;
        let signal = config.checkpoint_signal.map(|signal| SignalFlag::new(signal.number())).transpose();
        let listener = later.as_ref().map_or_else(|| Listener::begin(group.rank(), &*farthest, lineage), |_| None);
        let due = Due::new(Schedule::new(&config, Instant::now()), listener, agree(group, signal)?);
        let has_any = levels.iter().any(Level::has_any);
        let mut program = Program::new(config, due, Outputs::of_space(farthest.directory()), group.rank());
        program.holds_copies = !carryover.holds_none;
        program.restored.unread = program.config.start == Start::Restored && has_any;
        if !has_any {
            // Nothing can be restored, so a checkpoint comes next.
            resources.begin_pool(&program.regions);
        }
        let RecoveryFacts { mut recovering, spares_left, .. } = going_on;
        if let Some(recovering) = &mut recovering {
            // Ranks from before the failure replace this by a longer time.
            recovering.parts.open_ns = begun.elapsed().as_nanos() as u64;
        }
        Ok(Open {
            program,
            resources,
            node: node as u32,
            lineage,
            next_number,
            spares_left,
            announcer,
            levels,
            later,
            report: None,
            recovering,
        })
    }
}

/// Reads the levels that the job goes on from, with their copies: all of `plans`, or only the first if ranks were lost
/// and its memory has all that they need. Also returns the number of plans. Collective.
fn look_at_levels(
    group: &dyn Group,
    plans: &[LevelPlan],
    note: Option<&NoteFile>,
    config: &Config,
    going_on: &RecoveryFacts,
    carryover: &mut Carryover,
) -> Result<(Vec<Looked>, usize)> {
    let holds = !carryover.holds_none;
    // A recovery from the nodes' memory does not wait for storage: the other levels are opened later.
    let is_from_memory = going_on.recovering.is_some() && plans[0].kind == LevelKind::Memory;
    let mut now = if is_from_memory { 1 } else { plans.len() };
    let mut kept = (going_on.recovering.is_some() || going_on.has_locks).then_some(&mut carryover.kept);
    let mut looked = Looked::at_all(group, plans, 0..now, note, config, holds, kept.as_deref_mut())?;
    let mut disk_lost = config.disk_lost;
    // A revision that was being copied to another level may be whole only there.
    if now < plans.len() && looked[0].newest() < going_on.newest.max(going_on.fed) {
        if looked[0].newest().is_some() && looked[0].newest() >= going_on.newest {
            // As when these levels are opened later: the job can go on without the disk.
            disk_lost = DiskLost::Accepted;
        }
        looked.extend(Looked::at_all(group, plans, now..plans.len(), note, config, holds, kept)?);
        now = plans.len();
    }
    let known = going_on.newest.filter(|_| now < plans.len());
    Looked::check_all(group, &mut looked, config, disk_lost, known, note)?;
    Ok((looked, now))
}

/// The lowest rank of this node, the node's pool, and the way into it, for a session whose nearest level is `nearest`.
/// Collective.
fn find_pool(group: &dyn Group, nearest: &Looked, config: &Config) -> Result<(usize, Option<Pool>, Policy)> {
    let in_portion = stages_in_portion(group, nearest, config)?;
    // A new pool may need the memory of staged data. So all ranks complete that data before any rank makes a pool.
    let (node, pool) = find_node(group, config, same_id(group)?, !in_portion)?;
    let policy = Policy::new(config, || find_threshold_together(group, &*nearest.wanted.device, config))?;
    Ok((node, pool, if in_portion { policy.in_portion() } else { policy }))
}

/// The lineage and the number of the next revision: higher than all that the levels, the note and the job know.
/// Collective.
fn next_numbers(
    group: &dyn Group,
    looked: &[Looked],
    note: Option<&NoteFile>,
    going_on: &RecoveryFacts,
) -> Result<(Lineage, u64)> {
    let highest = |of: fn(&Found) -> u64| looked.iter().map(|looked| of(&looked.found)).max().unwrap_or(0);
    let noted = note.map_or(0, NoteFile::lineage);
    let lineage = next_lineage(group, highest(|found| found.lineage_max).max(noted).max(going_on.lineage))?;
    Ok((lineage, (highest(|found| found.number_max) + 1).max(going_on.next_number)))
}

impl Open {
    fn with(self, group: Box<dyn Group>, origin: Origin) -> SessionState {
        let Open { program, resources, node, lineage, next_number, spares_left, .. } = self;
        let Open { announcer, levels, later, report, recovering, .. } = self;
        let (post, group) = (Post::default(), Ranks::new(group));
        let epoch = Epoch {
            node,
            lineage,
            attempted: false,
            has_saved: false,
            next_number,
            spares_left,
            over: None,
            post,
            group,
        };
        let mut session =
            SessionState { program, resources, epoch, announcer, levels, later, report, origin, recovering };
        let SessionState { epoch, levels, .. } = &mut session;
        levels.iter_mut().for_each(|level| level.acknowledge(epoch));
        session.tell();
        if session.recovering.is_none() {
            session.announcer.await_opening();
        }
        session
    }
}

/// The recoveries that are recorded once all levels are open.
fn missed_recoveries(carryover: &Carryover) -> impl Iterator<Item = &Recovery> {
    carryover.past.iter().flat_map(|past| &past.since)
}

/// Refuses too many levels, or none.
fn check_plans(plans: &[LevelPlan]) -> Result<()> {
    let levels: usize = plans.iter().map(LevelPlan::places).sum();
    if plans.is_empty() || levels > LEVELS_MAX {
        let why = format!("{levels} of them, with their copies; give 1 to {LEVELS_MAX}");
        return Err(Error::argument("levels", why));
    }
    check_apart(plans)?;
    Ok(())
}

/// Refuses two levels or copies in one directory: each would take the other's files for its own.
fn check_apart(plans: &[LevelPlan]) -> Result<()> {
    let mut before: Vec<(LevelKind, PathBuf)> = Vec::new();
    for plan in plans {
        for device in [&plan.device].into_iter().chain(&plan.copies).chain(&plan.former) {
            let directory = device.directory();
            let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_path_buf());
            if let Some((other, _)) = before.iter().find(|(_, other)| *other == directory) {
                let (kind, path) = (plan.kind.name(), device.path());
                let why = format!(
                    "{path} is where the level {} lies as well; give each level a directory of its own",
                    other.name()
                );
                return Err(Error::argument(kind, why));
            }
            before.push((plan.kind, directory));
        }
    }
    Ok(())
}

/// Whether data is staged in its final place: in portions of the nearest level, if they are in memory on all nodes.
/// Collective.
fn stages_in_portion(group: &dyn Group, nearest: &Looked, config: &Config) -> Result<bool> {
    let (kind, device) = (nearest.wanted.kind, &nearest.wanted.device);
    if kind != LevelKind::Memory || config.stage != Stage::Pool {
        return Ok(false);
    }
    let mut elsewhere = [u64::from(!device.directory().is_memory())];
    group.all_max(&mut elsewhere)?;
    Ok(elsewhere == [0])
}

/// The lowest rank of this node, and the node's pool if the stage has one. `with_chunks`: the pool gets more than its
/// tables. Collective.
fn find_node(group: &dyn Group, config: &Config, id: [u8; 16], with_chunks: bool) -> Result<(usize, Option<Pool>)> {
    let node = Node::find(group, config, id);
    if Policy::has_pool(config.stage) {
        let node = node?;
        return Ok((node.leader(), Some(node.make_pool(group, config, with_chunks)?)));
    }
    // Without a pool, the node is needed only for the status.
    Ok((node.map_or(group.rank(), |node| node.leader()), None))
}

/// The configured threshold, or else the one that rank 0 finds. Collective.
fn find_threshold_together(group: &dyn Group, device: &dyn Device, config: &Config) -> Result<u64> {
    /// The published threshold (slides 003).
    const THRESHOLD_PUBLISHED: u64 = 64 << 10;
    match config.threshold_bytes {
        Some(set) => Ok(set),
        None => {
            let mut found = [0];
            if group.rank() == 0 {
                // A full disk allows no measurement, and a restore needs no threshold.
                found = [probe_name().and_then(|name| find_threshold(device, &name)).unwrap_or(THRESHOLD_PUBLISHED)];
            }
            group.all_max(&mut found)?;
            Ok(found[0])
        }
    }
}
