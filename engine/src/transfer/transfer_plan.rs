//! Plans the revisions to copy, and checks whether the other space may take them.

use crate::{
    commit::RevisionKey,
    device::{Device, Disk},
    error::{Error, Result},
    printable::{printable, printable_path},
    reader::chosen,
    space::format::{Lineage, NUMBER_MAX},
    survey::{Places, RevisionSurvey, SpaceSurvey},
};
use std::{collections::BTreeSet, path::Path};

/// A revision that is to be copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    pub key: RevisionKey,
    pub shard_count: u32,
    /// Bytes of all items.
    pub bytes: u64,
    pub t1_unix_ns: u64,
    /// Whether the other space has it, complete.
    pub is_there: bool,
    /// Bytes of the items' blocks.
    pub(super) block_bytes: u64,
}

pub(super) struct TransferPlan {
    /// The oldest first, because later ones share blocks with them.
    pub(super) revisions: Vec<Planned>,
    /// The unreadable parts of the first space.
    pub(super) damage: Vec<String>,
    /// The name of the first space in messages.
    from: String,
    /// The lineages of the first space.
    lineages: BTreeSet<Lineage>,
}

impl TransferPlan {
    /// The plan for the complete revisions `numbers` of `from`, or all; `to`: the other space, if it exists.
    pub(super) fn of(from: &SpaceSurvey, to: Option<&SpaceSurvey>, numbers: &[u64]) -> Result<TransferPlan> {
        let mut wanted: Vec<&RevisionSurvey> = match numbers {
            [] => {
                // An error if there is none at all.
                chosen(from, None)?;
                from.revisions.iter().filter(|revision| revision.complete).collect()
            }
            numbers => {
                let found = numbers.iter().map(|number| Ok(&from.revisions[chosen(from, Some(*number))?]));
                found.collect::<Result<_>>()?
            }
        };
        wanted.sort_by_key(|revision| revision.key);
        wanted.dedup_by_key(|revision| revision.key);
        let planned = |revision: &&RevisionSurvey| Planned {
            key: revision.key,
            shard_count: revision.shard_count,
            bytes: revision.bytes(),
            t1_unix_ns: revision.t1_unix_ns(),
            is_there: to.is_some_and(|to| to.complete(revision.key).is_some()),
            block_bytes: revision.block_bytes(),
        };
        let plan = TransferPlan {
            revisions: wanted.iter().map(planned).collect(),
            damage: from.damage.clone(),
            from: printable(&from.path).into_owned(),
            lineages: lineages(from),
        };
        if plan.lineages.iter().any(|lineage| lineage.number >= NUMBER_MAX) {
            return Err(Error::damaged(format!("{}: its lineages have impossible numbers", plan.from)));
        }
        to.map_or(Ok(()), |to| plan.check(to)).map(|()| plan)
    }

    /// The highest number of a lineage of the first space.
    pub(super) fn lineage_max(&self) -> u64 {
        self.lineages.last().map_or(0, |lineage| lineage.number)
    }

    /// Refuses a space with revisions of another run: none of its lineages belongs to the first space, or a job has
    /// gone on there.
    pub(super) fn check(&self, to: &SpaceSurvey) -> Result<()> {
        let there: BTreeSet<Lineage> = to.revisions.iter().map(|revision| revision.key.lineage).collect();
        let Some(newest) = there.last() else { return Ok(()) };
        let refused = |why: String| {
            let why = format!("{why}; give a directory of its own to copies of {}; nothing was changed", self.from);
            Err(Error::argument(printable(&to.path), why))
        };
        if !there.iter().any(|lineage| self.lineages.contains(lineage)) {
            return refused(format!(
                "it holds revisions of another run (lineage {newest}), or copies of lineages that {} no longer has",
                self.from
            ));
        }
        if newest.number > self.lineage_max() || self.contradicts(newest) {
            let newest = newest.number;
            return refused(format!("a job has gone on there: its lineage {newest} is not one of {}", self.from));
        }
        Ok(())
    }

    /// Whether the first space has another lineage of the same number.
    fn contradicts(&self, lineage: &Lineage) -> bool {
        self.lineages.iter().any(|own| own.number == lineage.number && own.id != lineage.id)
    }
}

/// The lineages of all revisions, and those under which the portions were last opened.
fn lineages(survey: &SpaceSurvey) -> BTreeSet<Lineage> {
    let of_revisions = survey.revisions.iter().map(|revision| revision.key.lineage);
    of_revisions.chain(survey.portions.iter().map(|portion| portion.lineage)).collect()
}

/// Refuses to copy a space into a directory with its own revisions.
pub(super) fn refuse_same(from: &Path, to: &Path) -> Result<()> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let is_own = Places::of(from).all.iter().any(|place| real(&place.directory) == real(to));
    if is_own {
        let why = format!("revisions of {} are there already; give another directory", printable_path(from));
        return Err(Error::argument(printable_path(to), why));
    }
    Ok(())
}

/// The space in `directory`, if there is one.
pub(super) fn survey_of(directory: &Path) -> Result<Option<SpaceSurvey>> {
    if directory.as_os_str().is_empty() {
        return Err(Error::argument("path", "it is empty; give the directory for the copy"));
    }
    match survey_on(&Disk::existing(directory))? {
        Some(_) => SpaceSurvey::open_all(directory).map(Some),
        None => Ok(None),
    }
}

/// The space on `device`, if there is one.
pub(super) fn survey_on(device: &dyn Device) -> Result<Option<SpaceSurvey>> {
    use std::io::ErrorKind;
    match device.list() {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Ok(names) if !names.iter().any(|name| crate::space::is_of_space(name)) => return Ok(None),
        _ => {}
    }
    SpaceSurvey::open_on(device).map(Some)
}
