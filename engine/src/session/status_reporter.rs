//! Writes the status of the session for readers outside.

use super::{
    domain::Domain,
    level::{Level, LevelKind},
    levels::Levels,
    places::NoteFile,
};
use crate::{
    commit::RevisionKey,
    device::Device,
    error::Result,
    ground::{process_id, unix_ns, variable},
    group::{Group, agree, gather, host_name},
    printable::{printable_path, shortened},
    space::format::Lineage,
    status::{
        self, CopyStatus, Job, JobProgress, JournalEntry, LevelStatus, PlaceOfLevel, RECOVERIES_MAX, Recovery, Saved,
        Status, StatusWriter,
    },
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    ops::Range,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::PathBuf,
};

/// Texts of a list that the status has at most.
const TEXTS_MAX: usize = 100;
/// Directories of a level that the status has at most.
const DIRECTORIES_MAX: usize = 64;

/// On rank 0: the last reported status, and its writer.
pub(super) struct StatusReporter {
    pub(super) writer: StatusWriter,
    /// Number of nodes.
    pub(super) nodes: usize,
    reported: JobProgress,
    /// Revisions and parts that the last restore could not read.
    lost: Vec<String>,
    pub(super) recoveries: Recoveries,
    /// Number of times that `due` had put a checkpoint off when the last one began.
    pub(super) put_off: u64,
    /// The t1 of revisions, if a shard with it was found.
    saved_unix_ns: BTreeMap<RevisionKey, u64>,
}

/// The nodes of all ranks, and the directories of their levels.
pub(super) struct NodeLocations(Vec<Whereabout>);

/// The node and the level directories of one rank.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Whereabout {
    /// The lowest rank of its node.
    node: u32,
    name: String,
    host: String,
    /// For each level, the nearest first: the lowest rank that sees the same files there, and the directory.
    levels: Vec<(LevelKind, u32, Vec<u8>)>,
}

/// The name of this rank's node, and its host.
pub(super) fn node_name() -> (String, String) {
    let host = host_name();
    // The label makes ranks of one host count as separate nodes.
    let label = variable("MAINSTAY_NODE").and_then(|label| label.into_string().ok()).filter(|label| !label.is_empty());
    (label.unwrap_or_else(|| host.clone()), host)
}

impl NodeLocations {
    /// `node`: the lowest rank of this rank's node. `places`: the levels, the nearest first. Collective.
    pub(super) fn of_all<'a>(
        group: &dyn Group,
        node: usize,
        places: impl Iterator<Item = (LevelKind, &'a Domain, &'a dyn Device)>,
    ) -> Result<NodeLocations> {
        let level = |(level, domain, device): (LevelKind, &Domain, &dyn Device)| {
            (level, domain.leader() as u32, device.directory().to_path_buf().into_os_string().into_vec())
        };
        let (name, host) = node_name();
        let mine = Whereabout { node: node as u32, name, host, levels: places.map(level).collect() };
        gather(group, &mine).map(NodeLocations)
    }

    pub(super) fn has_several(&self) -> bool {
        self.0[0].levels.len() > 1
    }

    /// Writes the places of the levels into `note`.
    pub(super) fn note(&self, note: &mut NoteFile) {
        for (index, (level, ..)) in
            self.0[0].levels.iter().enumerate().filter(|(_, (level, ..))| *level != LevelKind::Pfs)
        {
            let within = self.directories(index).into_iter().filter_map(|path| Some(path.parent()?.to_owned()));
            note.lies_within(*level, within.collect::<BTreeSet<_>>().into_iter().collect());
        }
    }

    /// All directories of the level with this index.
    fn directories(&self, index: usize) -> BTreeSet<PathBuf> {
        let of_rank = |rank: &Whereabout| rank.levels.get(index).map(|(.., path)| OsStr::from_bytes(path).into());
        self.0.iter().filter_map(of_rank).collect()
    }

    fn nodes(&self) -> Vec<status::Node> {
        let mut nodes: BTreeMap<u32, status::Node> = BTreeMap::new();
        for (rank, Whereabout { node, name, host, .. }) in (0..).zip(&self.0) {
            let new = || status::Node { name: shortened(name), host: shortened(host), ranks: Vec::new() };
            let ranks = &mut nodes.entry(*node).or_insert_with(new).ranks;
            match ranks.last_mut() {
                Some((_, below)) if *below == rank => *below += 1,
                _ => ranks.push((rank, rank + 1)),
            }
        }
        let mut names = BTreeSet::new();
        for (lowest, node) in &mut nodes {
            // Nodes of one name get their lowest rank as a suffix.
            if !names.insert(node.name.clone()) {
                node.name = format!("{}/{lowest}", node.name);
            }
        }
        nodes.into_values().collect()
    }

    fn job(&self, levels: &Levels) -> Job {
        let nodes = self.nodes();
        let holders = holders_of(levels);
        let place = |(index, family): (usize, Range<usize>)| {
            let level = levels.at(family.start);
            let leader = |rank: &Whereabout| rank.levels.get(index).map(|(_, leader, _)| *leader);
            let is_one = self.0.iter().all(|rank| leader(rank) == leader(&self.0[0]));
            PlaceOfLevel {
                level: level.location.kind,
                directories: self
                    .directories(index)
                    .iter()
                    .take(DIRECTORIES_MAX)
                    .map(|path| printable_path(path))
                    .collect(),
                every: level.location.every,
                keep: level.location.config.keep,
                outlives_nodes: match level.location.kind {
                    LevelKind::Memory => false,
                    LevelKind::Disk => is_one && nodes.len() > 1,
                    LevelKind::Pfs => is_one || nodes.len() == 1,
                },
                holders: holders.get(index).cloned().unwrap_or_default(),
            }
        };
        let places = levels.families().into_iter().enumerate().map(place).collect();
        let (host, ranks) = (shortened(&self.0[0].host), self.0.len() as u32);
        Job { host, pid: process_id(), opened_unix_ns: unix_ns(), ranks, nodes, places }
    }
}

/// The holders of the copies, by level and copy.
pub(super) fn holders_of(levels: &Levels) -> Vec<Vec<Vec<u32>>> {
    let of = |family: Range<usize>| {
        let made = family.skip(1).filter(|copy| !levels.at(*copy).is_former());
        made.map(|copy| levels.at(copy).holders()).collect()
    };
    levels.families().into_iter().map(of).collect()
}

/// The places of the levels at `places`. Writes them to `note`, with the lineage that begins. `None` without a note, or
/// with one level. `node`: the lowest rank of this rank's node. Collective.
pub(super) fn node_locations_of<'a>(
    group: &dyn Group,
    note: Option<&mut NoteFile>,
    node: usize,
    places: impl Iterator<Item = (LevelKind, &'a Domain, &'a dyn Device)>,
    lineage: Lineage,
) -> Result<Option<NodeLocations>> {
    let Some(note) = note else { return Ok(None) };
    let node_locations = NodeLocations::of_all(group, node, places)?;
    node_locations.note(note);
    note.begin(group, lineage.number)?;
    // A session with one level writes no status.
    Ok(Some(node_locations).filter(NodeLocations::has_several))
}

impl StatusReporter {
    /// Starts the status, on rank 0, in the farthest level of `levels` that takes it. Collective.
    pub(super) fn start(group: &dyn Group, all: &NodeLocations, levels: &Levels) -> Result<Option<StatusReporter>> {
        let mut directories: Vec<PathBuf> =
            levels.iter().map(|level| level.location.device.directory().to_path_buf()).collect();
        directories.reverse();
        // The status of an earlier rank 0 that did not close the space, or still writes.
        let earlier = if group.rank() == 0 { Status::newest_in(&directories) } else { None };
        let recoveries = match earlier.filter(|status| !status.progress.ended) {
            Some(Status { progress, .. }) => Recoveries { count: progress.recovered, newest: progress.recoveries },
            None => Recoveries::default(),
        };
        let writer = (group.rank() == 0).then(|| StatusWriter::start(directories, all.job(levels)));
        let begin = |writer| StatusReporter {
            writer,
            nodes: all.nodes().len(),
            reported: JobProgress::default(),
            lost: Vec::new(),
            recoveries,
            put_off: 0,
            saved_unix_ns: BTreeMap::new(),
        };
        Ok(agree(group, writer.transpose())?.map(begin))
    }

    pub(super) fn has_lost(&mut self, what: &[String]) {
        self.lost = what.iter().take(TEXTS_MAX).map(|what| shortened(what)).collect();
    }

    /// Ends the status, because the session is opened anew. Returns the recoveries to report then, and the journal
    /// entries that are not written yet.
    pub(super) fn end(self) -> (Past, Vec<JournalEntry>) {
        (Past { before: Some(self.recoveries), since: Vec::new() }, self.writer.end())
    }

    /// Includes the recoveries that were reported earlier for the same job.
    pub(super) fn take_over(&mut self, past: Past) {
        if let Some(before) = past.before {
            self.recoveries = before;
        }
        past.since.into_iter().for_each(|recovery| self.recoveries.add(recovery));
    }

    /// Reports the state of `levels`, if it has changed.
    pub(super) fn tell(&mut self, levels: &[Level], lineage: u64, end: Option<End>) {
        let mut statuses: Vec<LevelStatus> = Vec::new();
        for level in levels.iter().filter(|level| !level.is_former()) {
            match statuses.last_mut().filter(|_| level.is_copy()) {
                Some(of) => of.copies.push(CopyStatus { complete: self.saved_on(level), lacks: lacks_of(level) }),
                None => statuses.push(self.status_of(level)),
            }
        }
        if let (Some(End { memory_goes: true }), Some(nearest)) = (end, statuses.first_mut()) {
            nearest.complete.clear();
            nearest.copies.iter_mut().for_each(|copy| copy.complete.clear());
        }
        let told_unix_ns = self.reported.told_unix_ns;
        let (lost, ended) = (self.lost.clone(), end.is_some());
        let Recoveries { count: recovered, newest: recoveries } = self.recoveries.clone();
        let put_off = self.put_off;
        let progress =
            JobProgress { told_unix_ns, lineage, ended, lost, recovered, recoveries, put_off, levels: statuses };
        if progress != self.reported {
            let is_there = |key: &RevisionKey| levels.iter().any(|level| level.complete.iter().any(|c| c.key == *key));
            self.saved_unix_ns.retain(|key, _| is_there(key));
            self.reported = JobProgress { told_unix_ns: unix_ns(), ..progress };
            self.writer.tell(self.reported.clone());
        }
    }

    fn saved_on(&mut self, level: &Level) -> Vec<Saved> {
        let saved = level.complete.iter().map(|complete| {
            let shard = || level.stored(0, complete).map(|(_, kept)| kept.entry.phases.t1_unix_ns);
            // Another level may know it, or this level may later.
            let saved_unix_ns = self.saved_unix_ns.get(&complete.key).copied().or_else(shard);
            self.saved_unix_ns.extend(saved_unix_ns.map(|saved| (complete.key, saved)));
            Saved { lineage: complete.key.lineage.number, revision: complete.key.number, saved_unix_ns }
        });
        saved.collect()
    }

    fn status_of(&mut self, level: &Level) -> LevelStatus {
        LevelStatus {
            complete: self.saved_on(level),
            copies: Vec::new(),
            under_way: Some(level.under_way()).filter(|number| *number > 0),
            passed_over: level.history.passed_over,
            lacks: lacks_of(level),
            failures: level.history.failing.failures().clone(),
        }
    }
}

fn lacks_of(level: &Level) -> Vec<u64> {
    level.lacking().map(|key| key.number).collect()
}

/// The recoveries of a job before its session was opened anew.
#[derive(Debug, Clone, Default)]
pub(super) struct Past {
    /// `None` if rank 0 is another process now.
    before: Option<Recoveries>,
    /// Later recoveries that are not written down yet. The same on all ranks that were there.
    pub(super) since: Vec<Recovery>,
}

/// The number of recoveries of the job, and the newest of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Recoveries {
    count: u64,
    newest: Vec<Recovery>,
}

impl Recoveries {
    pub(super) fn add(&mut self, recovery: Recovery) {
        // A former rank 0 may have reported it already.
        if self.newest.iter().any(|known| known.lineage == recovery.lineage) {
            return;
        }
        self.count += 1;
        if self.newest.len() == RECOVERIES_MAX {
            self.newest.remove(0);
        }
        self.newest.push(recovery.shortened(shortened));
    }
}

/// The end of the session.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    /// The revisions on the nearest level are removed with it.
    pub(super) memory_goes: bool,
}
