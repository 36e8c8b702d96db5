//! The document of `mainstay status`.

use super::Space;
use mainstay_engine::status::{self, Failures, LevelStanding, Loss, Parts, Standing};
use serde::Serialize;

#[derive(Serialize)]
pub struct Status<'a> {
    #[serde(flatten)]
    space: Space<'a>,
    looked_unix_ns: u64,
    /// States that need the user's attention.
    alarms: &'a [String],
    /// The job that reported last; `None` for a job with one level.
    job: Option<Job<'a>>,
    /// Nearest first.
    levels: Vec<Level<'a>>,
    losses: Vec<LossOf<'a>>,
    /// Nodes out of sight, with losses known only from the last report of a job that has ended.
    unlooked: Vec<&'a str>,
    lost: &'a [String],
    /// Number of recoveries without a new start.
    recovered: u64,
    /// The latest of these recoveries, newest last.
    recoveries: Vec<Recovery<'a>>,
    /// How often a due checkpoint was put off, because the last one was still under way.
    put_off: u64,
    /// Unreadable parts.
    unseen: &'a [String],
}

#[derive(Serialize)]
struct Job<'a> {
    host: &'a str,
    pid: u32,
    lineage: u64,
    opened_unix_ns: u64,
    told_unix_ns: u64,
    ended: bool,
    ranks: u32,
    nodes: Vec<Node<'a>>,
}

#[derive(Serialize)]
struct Node<'a> {
    name: &'a str,
    host: &'a str,
    ranks: Vec<Ranks>,
}

#[derive(Serialize)]
struct Ranks {
    from: u32,
    below: u32,
}

#[derive(Serialize)]
struct Level<'a> {
    level: &'static str,
    directories: &'a [String],
    every: Option<u32>,
    keep: Option<u32>,
    /// Age of the newest complete revision.
    age_ns: Option<u64>,
    complete: Vec<Saved>,
    copies: Vec<Copy<'a>>,
    under_way: Option<u64>,
    passed_over: u64,
    /// The revisions that the level lacks for that reason.
    lacks: &'a [u64],
    failures_in_a_row: u64,
    why: Option<&'a str>,
}

#[derive(Serialize)]
struct Copy<'a> {
    copy: u32,
    complete: Vec<Saved>,
    lacks: &'a [u64],
    /// By the rank that owns the shard.
    holders: Option<&'a [u32]>,
}

#[derive(Serialize)]
struct Saved {
    revision: u64,
    lineage: u64,
    t1_unix_ns: Option<u64>,
}

#[derive(Serialize)]
struct Recovery<'a> {
    noticed_unix_ns: u64,
    /// The ranks that failed.
    failed: &'a [u32],
    /// `spare`, `spawned`, `shrunk`.
    way: &'static str,
    ranks_before: u32,
    ranks: u32,
    regroup_ns: u64,
    open_ns: u64,
    state_ns: u64,
    copies_ns: u64,
    total_ns: u64,
    /// The revision that the job went back to; `None` if it began anew.
    back_to: Option<Saved>,
    /// The lineage from then on.
    lineage: u64,
    step: Option<u64>,
    lost: &'a [String],
}

#[derive(Serialize)]
struct LossOf<'a> {
    /// `processes`, `node`, `all_nodes`.
    of: &'static str,
    node: Option<&'a str>,
    survived: bool,
    revision: Option<u64>,
    lineage: Option<u64>,
    level: Option<&'static str>,
}

impl Status<'_> {
    pub fn of(standing: &Standing, now_unix_ns: u64) -> Status<'_> {
        let losses = standing.losses.iter().map(|(loss, left)| LossOf {
            of: match loss {
                Loss::Processes => "processes",
                Loss::Node(_) => "node",
                Loss::AllNodes => "all_nodes",
            },
            node: standing.node(*loss).map(|node| &node.name[..]),
            survived: left.is_some(),
            revision: left.map(|left| left.saved.revision),
            lineage: left.map(|left| left.saved.lineage),
            level: left.map(|left| left.level.name()),
        });
        let progress = standing.status.as_ref().map(|status| &status.progress);
        Status {
            space: Space::of(&standing.survey),
            looked_unix_ns: now_unix_ns,
            alarms: &standing.alarms,
            job: standing.status.as_ref().map(Job::of),
            levels: standing.levels.iter().map(|level| Level::of(standing, level, now_unix_ns)).collect(),
            losses: losses.collect(),
            unlooked: standing.unlooked_nodes().map(|node| &node.name[..]).collect(),
            lost: &standing.lost,
            recovered: progress.map_or(0, |progress| progress.recovered),
            recoveries: progress.iter().flat_map(|progress| &progress.recoveries).map(Recovery::of).collect(),
            put_off: progress.map_or(0, |progress| progress.put_off),
            unseen: &standing.unseen,
        }
    }
}

impl Job<'_> {
    fn of(status: &status::Status) -> Job<'_> {
        let (job, progress) = (&status.job, &status.progress);
        let nodes = job.nodes.iter().map(|node| Node {
            name: &node.name,
            host: &node.host,
            ranks: node.ranks.iter().map(|(from, below)| Ranks { from: *from, below: *below }).collect(),
        });
        Job {
            host: &job.host,
            pid: job.pid,
            lineage: progress.lineage,
            opened_unix_ns: job.opened_unix_ns,
            told_unix_ns: progress.told_unix_ns,
            ended: progress.ended,
            ranks: job.ranks,
            nodes: nodes.collect(),
        }
    }
}

impl Level<'_> {
    fn of<'a>(standing: &'a Standing, level: &'a LevelStanding, now_unix_ns: u64) -> Level<'a> {
        let places = standing.status.as_ref().map(|status| &status.job.places);
        let place = places.and_then(|places| places.iter().find(|place| place.level == level.level));
        let holders = |index: usize| Some(&place?.holders.get(index)?[..]);
        let copies = level.copies.iter().enumerate().map(|(index, complete)| Copy {
            copy: index as u32 + 1,
            complete: complete.iter().map(Saved::of).collect(),
            lacks: level.copies_lack.get(index).map_or(&[], Vec::as_slice),
            holders: holders(index),
        });
        let Failures { in_a_row, why } = &level.failures;
        let newest = level.complete.first().and_then(|saved| saved.saved_unix_ns);
        Level {
            level: level.level.name(),
            directories: &level.directories,
            every: level.every,
            keep: level.keep,
            age_ns: newest.map(|unix_ns| now_unix_ns.saturating_sub(unix_ns)),
            complete: level.complete.iter().map(Saved::of).collect(),
            copies: copies.collect(),
            under_way: level.under_way,
            passed_over: level.passed_over,
            lacks: &level.lacks,
            failures_in_a_row: *in_a_row,
            why: Some(&why[..]).filter(|why| !why.is_empty()),
        }
    }
}

impl Recovery<'_> {
    fn of(recovery: &status::Recovery) -> Recovery<'_> {
        let Parts { regroup_ns, open_ns, copies_ns, state_ns } = recovery.parts;
        Recovery {
            noticed_unix_ns: recovery.noticed_unix_ns,
            failed: &recovery.failed,
            way: recovery.way.name(),
            ranks_before: recovery.ranks_before,
            ranks: recovery.ranks,
            regroup_ns,
            open_ns,
            state_ns,
            copies_ns,
            total_ns: recovery.total_ns,
            back_to: recovery.back_to.as_ref().map(Saved::of),
            lineage: recovery.lineage,
            step: recovery.step,
            lost: &recovery.lost,
        }
    }
}

impl Saved {
    fn of(saved: &status::Saved) -> Saved {
        Saved { revision: saved.revision, lineage: saved.lineage, t1_unix_ns: saved.saved_unix_ns }
    }
}
