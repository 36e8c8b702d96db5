//! The state of a space: the job's report and the data visible from here, combined.
//!
//! Invariant: a revision counts as lost only if no job is running and data that should be on this node is missing.

use super::{
    Saved,
    closed::was_closed,
    document::{Failures, Job, Node, Status},
    ended::LastOpening,
    outlook::{HeldRevisions, Loss, Outlook, Store, Survivor},
    seen::{Seen, newest_status, seen_of},
};
use crate::{
    error::Result,
    ground::unix_ns,
    group::host_name,
    plural::count,
    space::LevelKind,
    survey::{Places, SpaceSurvey},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::Duration,
};

/// Number of failures in a row from which on there is an alarm.
const SHOUTED_FROM: u64 = 2;
/// A job may run for an hour, or for two of its intervals, before a missing first checkpoint is an alarm.
const FIRST_MAX: Duration = Duration::from_secs(3600);

/// The state of a space now.
#[derive(Debug)]
pub struct Standing {
    /// The contents of the space itself.
    pub survey: SpaceSurvey,
    /// The report of the newest job, if it has several levels.
    pub status: Option<Status>,
    /// Nearest level first.
    pub levels: Vec<LevelStanding>,
    /// The revision left after each loss; empty if no job reported the nodes that it runs on.
    pub losses: Vec<(Loss, Option<Survivor>)>,
    /// Nodes, by their index in `Job::nodes`, for which the losses rely on the last report of a job that has ended:
    /// their data is not visible from here, and may be gone.
    pub unlooked: Vec<usize>,
    /// Data that the last restore could not bring back, and data that is gone since.
    pub lost: Vec<String>,
    /// Alarms: conditions that need action.
    pub alarms: Vec<String>,
    /// Places that could not be examined.
    pub unseen: Vec<String>,
}

/// The state of a level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LevelStanding {
    pub level: LevelKind,
    /// As the job reported them; otherwise the visible ones.
    pub directories: Vec<String>,
    pub every: Option<u32>,
    pub keep: Option<u32>,
    /// The complete revisions, newest first.
    pub complete: Vec<Saved>,
    /// For each copy on other nodes, its complete revisions, newest first.
    pub copies: Vec<Vec<Saved>>,
    pub under_way: Option<u64>,
    pub passed_over: u64,
    /// The numbers of the revisions that it lacks for that reason, newest last.
    pub lacks: Vec<u64>,
    /// The same for each copy on other nodes.
    pub copies_lack: Vec<Vec<u64>>,
    pub failures: Failures,
    /// For the level itself and each copy, the revisions of which only these shards are left.
    in_part: Vec<InPart>,
}

type InPart = Vec<(Saved, BTreeSet<u32>)>;

impl Standing {
    /// The state of the space in the directory `space`. Fails as a survey of it does; problems of other levels are in
    /// `unseen`.
    pub fn of(space: &Path) -> Result<Standing> {
        let mut survey = SpaceSurvey::open(space)?;
        survey.clean = was_closed(space, &survey);
        let Places { all, mut unseen } = Places::of(space);
        let lineage = survey.portions.iter().map(|portion| portion.lineage.number).max().unwrap_or(0);
        // A job with one level came after the one that reported.
        let status = newest_status(&all, &mut unseen).filter(|status| status.progress.lineage >= lineage);
        let seen = seen_of(&survey, &all, &mut unseen);
        let mut lost = status.as_ref().map(|status| status.progress.lost.clone()).unwrap_or_default();
        let levels = match &status {
            Some(status) => levels_of_status(status, &seen, survey.is_at_work(), !unseen.is_empty(), &mut lost),
            None => seen_levels(&seen),
        };
        let losses = status.as_ref().map(|status| losses(&status.job, &levels)).unwrap_or_default();
        let waits = survey.is_at_work() && lost.is_empty() && may_wait(space, status.as_ref());
        let alarms = alarms(&levels, &losses, waits);
        let unlooked =
            status.iter().filter(|_| !survey.is_at_work()).flat_map(|status| elsewhere(&status.job)).collect();
        Ok(Standing { survey, status, levels, losses, unlooked, lost, alarms, unseen })
    }

    /// The nodes that are not examined.
    pub fn unlooked_nodes(&self) -> impl Iterator<Item = &Node> {
        let nodes = self.status.as_ref().map_or(&[][..], |status| &status.job.nodes);
        self.unlooked.iter().filter_map(|index| nodes.get(*index))
    }

    /// The node of a loss, if the loss is that of one node.
    pub fn node(&self, loss: Loss) -> Option<&Node> {
        let Loss::Node(index) = loss else { return None };
        self.status.as_ref()?.job.nodes.get(index)
    }
}

/// Whether the first checkpoint of the last job in `space` may not be due yet.
fn may_wait(space: &Path, status: Option<&Status>) -> bool {
    let last = LastOpening::read(space);
    let first_max = last.as_ref().map_or(0, |last| last.every_ns.saturating_mul(2)).max(FIRST_MAX.as_nanos() as u64);
    let opened = status.map(|status| status.job.opened_unix_ns).or(last.map(|last| last.unix_ns));
    opened.is_none_or(|opened| unix_ns().saturating_sub(opened) < first_max)
}

/// The levels of a job that reported its state.
fn levels_of_status(
    status: &Status,
    seen: &BTreeMap<(LevelKind, u32), Seen>,
    at_work: bool,
    is_unsure: bool,
    lost: &mut Vec<String>,
) -> Vec<LevelStanding> {
    let job = &status.job;
    let here = host_name();
    let mut ranks_here: Vec<u32> = job
        .nodes
        .iter()
        .filter(|node| is_here(node, &here))
        .flat_map(|node| &node.ranks)
        .flat_map(|(from, below)| *from..*below)
        .collect();
    ranks_here.sort_unstable();
    let all: Vec<u32> = (0..job.ranks).collect();
    let (none, mut levels) = (Seen::default(), Vec::new());
    for (place, level) in job.places.iter().zip(&status.progress.levels) {
        let own = seen.get(&(place.level, 0)).unwrap_or(&none);
        let expected = if place.outlives_nodes { &all } else { &ranks_here };
        let may_judge = |seen: &Seen| !at_work && !is_unsure && !seen.is_unsure;
        let is_lost = |seen: &Seen, expected: &[u32], saved: &Saved| {
            let lacks = |shards: &BTreeSet<u32>| expected.iter().any(|rank| !shards.contains(rank));
            let newer = seen.revisions.range((saved.lineage, saved.revision + 1)..).next().is_some();
            let lacking = seen.revisions.get(&saved.key()).map_or(!expected.is_empty(), |(shards, ..)| lacks(shards));
            may_judge(seen) && lacking && !newer
        };
        // Revisions older than those that the job keeps may disappear at any moment.
        let oldest = level.complete.last().filter(|_| at_work).map(Saved::key);
        let is_kept = |saved: &Saved| oldest.is_none_or(|oldest| saved.key() >= oldest);
        let whole = |seen: &Seen| seen.whole().into_iter().filter(is_kept).collect();
        let (gone, there): (Vec<Saved>, Vec<Saved>) =
            level.complete.iter().partition(|saved| is_lost(own, expected, saved));
        lost.extend(gone.iter().map(|saved| {
            format!("revision {} in {}: the data on this node is gone", saved.revision, place.level.name())
        }));
        // Shards of a revision on other nodes count as present if the job reported them. For a revision without a
        // report, only visible shards count.
        let rest = |seen: &Seen, expected: &[u32], gone: &[Saved]| -> InPart {
            let is_left =
                |rank: &u32, saved: &Saved| expected.binary_search(rank).is_err() || seen.has(saved.key(), *rank);
            let known = gone.iter().map(|saved| (*saved, (0..job.ranks).filter(|rank| is_left(rank, saved)).collect()));
            known.chain(seen.in_part(job.ranks).filter(|_| !at_work)).collect()
        };
        let mut in_part = vec![rest(own, expected, &gone)];
        let mut copies = Vec::new();
        for ((copy, holders), number) in level.copies.iter().zip(&place.holders).zip(1..) {
            let seen = seen.get(&(place.level, number)).unwrap_or(&none);
            let held_here: Vec<u32> =
                (0..job.ranks).filter(|rank| ranks_here.contains(&holders[*rank as usize])).collect();
            let expected = if place.outlives_nodes { &all } else { &held_here };
            let (gone, there): (Vec<Saved>, Vec<Saved>) =
                copy.complete.iter().partition(|saved| is_lost(seen, expected, saved));
            lost.extend(gone.iter().map(|saved| {
                let (level, revision) = (place.level.name(), saved.revision);
                format!("revision {revision} in {level}, copy {number}: the data on this node is gone")
            }));
            in_part.push(rest(seen, expected, &gone));
            copies.push(united(&there, whole(seen)));
        }
        levels.push(LevelStanding {
            level: place.level,
            directories: place.directories.clone(),
            every: Some(place.every),
            keep: Some(place.keep),
            complete: united(&there, whole(own)),
            copies,
            // No revision is in progress any more.
            under_way: level.under_way.filter(|_| at_work),
            passed_over: level.passed_over,
            lacks: level.lacks.clone(),
            copies_lack: level.copies.iter().map(|copy| copy.lacks.clone()).collect(),
            failures: level.failures.clone(),
            in_part,
        });
    }
    levels
}

fn is_here(node: &Node, here: &str) -> bool {
    !here.is_empty() && node.host == here
}

/// The nodes of `job` other than this one, if losing them would lose any data.
fn elsewhere(job: &Job) -> Vec<usize> {
    let here = host_name();
    let goes = job.places.iter().any(|place| !place.outlives_nodes);
    let nodes = job.nodes.iter().enumerate();
    nodes.filter(|(_, node)| goes && !is_here(node, &here)).map(|(index, _)| index).collect()
}

/// Without a job's report: the visible data.
fn seen_levels(seen: &BTreeMap<(LevelKind, u32), Seen>) -> Vec<LevelStanding> {
    let kinds: BTreeSet<LevelKind> = seen.keys().map(|(level, _)| *level).collect();
    let of_level = |level: LevelKind| {
        let copies = seen.range((level, 1)..=(level, u32::MAX)).map(|(_, seen)| seen.whole());
        let own = seen.get(&(level, 0));
        LevelStanding {
            level,
            directories: own.map(|own| own.directories.clone()).unwrap_or_default(),
            every: None,
            keep: None,
            complete: own.map(Seen::whole).unwrap_or_default(),
            copies: copies.collect(),
            under_way: None,
            passed_over: 0,
            lacks: Vec::new(),
            copies_lack: Vec::new(),
            failures: Failures::default(),
            in_part: Vec::new(),
        }
    };
    kinds.into_iter().map(of_level).collect()
}

/// The revisions that either source calls complete, newest first.
fn united(reported: &[Saved], seen: Vec<Saved>) -> Vec<Saved> {
    let mut all: BTreeMap<(u64, u64), Saved> = seen.into_iter().map(|saved| (saved.key(), saved)).collect();
    for reported in reported {
        let one = all.entry(reported.key()).or_insert(*reported);
        // A source may not know the time of a revision, such as one that it has no shard of.
        one.saved_unix_ns = reported.saved_unix_ns.or(one.saved_unix_ns);
    }
    all.into_values().rev().collect()
}

fn losses(job: &Job, levels: &[LevelStanding]) -> Vec<(Loss, Option<Survivor>)> {
    let held = |level: &LevelStanding| {
        let complete = [&level.complete].into_iter().chain(&level.copies).cloned();
        let stores = complete.zip(level.in_part.iter().cloned());
        HeldRevisions { stores: stores.map(|(complete, in_part)| Store { complete, in_part }).collect() }
    };
    let outlook = Outlook::of(job, &levels.iter().map(held).collect::<Vec<_>>());
    let nodes = (0..job.nodes.len()).map(Loss::Node);
    [Loss::Processes].into_iter().chain(nodes).chain([Loss::AllNodes]).map(|loss| (loss, outlook.after(loss))).collect()
}

/// `waits`: a job is running, and its first checkpoint may not be due yet.
fn alarms(levels: &[LevelStanding], losses: &[(Loss, Option<Survivor>)], waits: bool) -> Vec<String> {
    let failing = levels.iter().filter(|level| level.failures.in_a_row >= SHOUTED_FROM);
    let mut alarms: Vec<String> = failing
        .map(|level| level.failures.text(level.level, level.complete.first().map(|saved| saved.revision)))
        .collect();
    let is_whole =
        |level: &LevelStanding| !level.complete.is_empty() || level.copies.iter().any(|copy| !copy.is_empty());
    // The levels together may have a revision that none has alone.
    let is_left = losses.iter().any(|(loss, survivor)| *loss == Loss::Processes && survivor.is_some());
    if !waits && !is_left && !levels.iter().any(is_whole) {
        alarms.push("nothing is saved: no level has a complete revision".to_owned());
    }
    alarms
}

impl Failures {
    /// The failures as a sentence, with the `newest` revision that the level has.
    pub(crate) fn text(&self, level: LevelKind, newest: Option<u64>) -> String {
        let newest = newest.map_or("none is there".to_owned(), |number| format!("the newest there is {number}"));
        let why = if self.why.is_empty() { String::new() } else { format!(": {}", self.why) };
        format!(
            "saving fails: the level {} did not get {} in a row; {newest}{why}",
            level.name(),
            count(self.in_a_row, "revision")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A report without a time replaced the time of the visible revision.
    #[test]
    fn when_a_revision_was_saved_is_known_if_either_says_it() {
        let saved = |revision, saved_unix_ns| Saved { lineage: 1, revision, saved_unix_ns };
        let reported = [saved(4, Some(40)), saved(3, None), saved(2, None), saved(1, Some(10))];
        let seen = vec![saved(3, Some(31)), saved(1, Some(11))];
        assert_eq!(
            united(&reported, seen),
            [saved(4, Some(40)), saved(3, Some(31)), saved(2, None), saved(1, Some(10))]
        );
    }
}
