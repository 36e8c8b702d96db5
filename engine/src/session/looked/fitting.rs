//! Checks, before anything is written, whether the levels of a session fit together, and which of their revisions stay.
//! Refuses the start if a revision newer than all others is out of sight.

use super::{
    super::{
        choose_revision::{joint, newest_of_all},
        copies,
        level::{LevelKind, Writers},
        places::NoteFile,
        unreachable_disks::DiskReport,
    },
    space::Looked,
};
use crate::{
    commit::{Complete, RevisionKey},
    config::{Config, DiskLost},
    error::{Error, Result, numbered},
    group::Group,
    restore::hex,
    space::{GoneBack, files_of_layout},
};
use std::collections::BTreeMap;

impl Looked {
    /// Refuses levels that do not fit together. Returns the losses that are accepted. `known` is a revision that is
    /// complete on another level, if any. `note` is the note of the space, present with several levels. Collective.
    pub(in crate::session) fn check_all(
        group: &dyn Group,
        looked: &mut [Looked],
        config: &Config,
        disk_lost: DiskLost,
        known: Option<RevisionKey>,
        note: Option<&NoteFile>,
    ) -> Result<Vec<String>> {
        one_history(looked)?;
        let spread = spread_newest(group, looked)?;
        let mut lost = check_sight(looked, known.max(spread), disk_lost)?;
        if let Some(note) = note {
            lost.extend(check_unreachable_disks(group, looked, known.max(spread), disk_lost, note.back())?);
        }
        let has =
            |level: &&mut Looked| level.sights.iter().flat_map(|sight| &sight.shards).any(|it| Some(it.key) == spread);
        looked.iter_mut().filter(has).for_each(|level| level.joint.extend(spread));
        // From here on staged data cannot refuse the start.
        looked.iter_mut().for_each(|level| std::mem::take(&mut level.left).give_up(&config.pool_directory));
        Ok(lost)
    }
}

/// Refuses the start if a partly unseen revision is newer than every whole one. This happens before anything is
/// written, because a job that began anew would remove the visible part.
///
/// Shards in memory are lost with their node, and the restore reports that. So are shards on a disk if the user accepts
/// the loss (`disk_lost`).
fn check_sight(looked: &mut [Looked], known: Option<RevisionKey>, disk_lost: DiskLost) -> Result<Vec<String>> {
    let mut lost = Vec::new();
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
            let text = format!("revision {revision} in {name}: {shards} went with the nodes that held them");
            lost.push(text.clone());
            level.scan.sight.damaged_slots.push(text);
            continue;
        }
        let (path, files) = (level.wanted.device.path(), files_of_layout(unseen.whole.layout));
        let shards = unseen.shards.clone();
        return Err(Error::LayoutOutOfSight { path, revision, shards, files, is_disk_level });
    }
    Ok(lost)
}

/// Refuses the start if unreachable disks have a newer revision than all that is left, by the status of an earlier job.
/// Damaged disks are not unreachable. Collective.
fn check_unreachable_disks(
    group: &dyn Group,
    looked: &mut [Looked],
    known: Option<RevisionKey>,
    disk_lost: DiskLost,
    back: &[GoneBack],
) -> Result<Option<String>> {
    let is_disk = |level: &Looked| level.wanted.kind == LevelKind::Disk;
    let Some(first) = looked.iter().position(is_disk) else { return Ok(None) };
    let directories: Vec<_> = looked.iter().map(|level| level.wanted.device.directory().to_path_buf()).collect();
    let Some(on_disks) = DiskReport::find(group, &directories, back)? else { return Ok(None) };
    let left = looked.iter().filter_map(Looked::newest).max().max(known);
    let disks = || looked.iter().filter(|level| is_disk(level));
    let seen = disks().map(|level| level.found.lineage_max).max().unwrap_or(0);
    if disks().any(|level| !level.found.damage.is_empty()) || !on_disks.is_missed(seen, left) {
        return Ok(None);
    }
    if disk_lost == DiskLost::Refused {
        return Err(on_disks.refusal(left));
    }
    let lost = on_disks.text();
    looked[first].scan.sight.damaged_slots.push(lost.clone());
    Ok(Some(lost))
}

/// Notes, for each level with copies, the newest revision that is complete on all of them together.
pub(super) fn note_joint(looked: &mut [Looked]) -> Result<()> {
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

/// The newest revision that is complete only on all levels together, if it is newer than all whole ones. Each level
/// keeps its part of it. Collective.
fn spread_newest(group: &dyn Group, looked: &[Looked]) -> Result<Option<RevisionKey>> {
    let newest = newest_of_all(looked.iter().flat_map(|level| &level.sights));
    let newest = newest.filter(|_| newest > looked.iter().filter_map(Looked::newest).max());
    let comes_back = newest.is_some() && (group.size() == 1 || copies::can_exchange(group)?);
    Ok(newest.filter(|_| comes_back))
}

/// Refuses lineages of one number with different ids. Such levels belong to different jobs, or one was out of sight
/// when the other went on.
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
