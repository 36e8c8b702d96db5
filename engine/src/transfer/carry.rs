//! A copy of several revisions. All are held from the start, and copied one by one, the oldest first.

use super::{
    portion_room::Rooms,
    shard::{Stopped, take_over},
    target::Destination,
    transfer_plan::{self, Planned, TransferPlan},
};
use crate::{
    device::{Device, Disk},
    error::{Error, Result},
    feed::size_of,
    ground::Instant,
    reader::Reader,
    survey::SpaceSurvey,
    tend::take_back,
};
use std::{collections::VecDeque, path::Path, sync::Arc, time::Duration};

/// The reader's name in the holds on the first space.
const NOTE: &str = "mainstay copy";

/// The time in which other revisions are tried, if a running job removes all.
const TRY: Duration = Duration::from_secs(5);

/// The result for a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Became {
    /// It is in the other space, whole and verified.
    Copied,
    /// It was in the other space before.
    WasThere,
    /// It was not copied because it could not be read; the reason.
    Lost(String),
    /// It was not copied: a job removed it before it was held, or while it was read.
    Gone(String),
}

/// A revision to copy, and the result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    pub revision: Planned,
    pub became: Became,
    /// The shards that were read on another level, or in another copy, than the nearest, and the reasons.
    pub elsewhere: Vec<String>,
}

/// A copy that is about to be made.
pub struct Transfer<'a> {
    plan: TransferPlan,
    from: &'a Path,
    to: &'a Path,
    /// Whether the request is for all revisions, without numbers.
    takes_all: bool,
}

impl<'a> Transfer<'a> {
    /// Plans a copy of the complete revisions `numbers` of the space in `from`, on any visible level, or of all
    /// revisions if `numbers` is empty. They go to the space in `to`, which is made if it is missing. Changes nothing
    /// yet. Errors: `RevisionMissing`; `InvalidArgument` if `to` is a place of the first space or holds revisions of
    /// another run; `NotASpace`, and errors of reading.
    pub fn begin(from: &'a Path, to: &'a Path, numbers: &[u64]) -> Result<Transfer<'a>> {
        transfer_plan::refuse_same(from, to)?;
        let plan = planned(from, to, numbers)?;
        Ok(Transfer { plan, from, to, takes_all: numbers.is_empty() })
    }

    /// The revisions to copy, the oldest first, and whether each is already there.
    pub fn revisions(&self) -> &[Planned] {
        &self.plan.revisions
    }

    /// Unreadable parts of the first space: a revision may be missing because of them.
    pub fn damage(&self) -> &[String] {
        &self.plan.damage
    }

    /// The number of bytes that `carry_out` reports.
    pub fn bytes(&self) -> u64 {
        self.missing().map(|revision| revision.block_bytes).sum()
    }

    /// Copies the missing revisions. An unreadable revision is reported and the others are copied. A failure to write
    /// to the other space is an error; complete revisions stay there. `progress` gets the number of further bytes
    /// copied.
    pub fn carry_out(self, progress: &(dyn Fn(u64) + Sync)) -> Result<Vec<Copied>> {
        if self.missing().next().is_none() {
            return Ok(self.plan.revisions.into_iter().map(was_there).collect());
        }
        let was_there = self.to.exists();
        let made = Disk::make(self.to)?;
        let (from, start, mut plan) = (self.from, Instant::now(), self.plan);
        loop {
            let done = carry_out(&made, plan, &|number| Reader::open(from, Some(number), NOTE), progress);
            let done = done.inspect_err(|_| {
                if !was_there {
                    take_back(&made);
                }
            })?;
            // A job that saves fast may have removed all before any was held.
            let is_gone = |copied: &Copied| matches!(copied.became, Became::Gone(_));
            if !self.takes_all || !done.iter().all(is_gone) || start.elapsed() >= TRY {
                return Ok(done);
            }
            plan = planned(from, self.to, &[])?;
        }
    }

    fn missing(&self) -> impl Iterator<Item = &Planned> {
        self.plan.revisions.iter().filter(|revision| !revision.is_there)
    }
}

fn planned(from: &Path, to: &Path, numbers: &[u64]) -> Result<TransferPlan> {
    let (survey, there) = (SpaceSurvey::open_all(from)?, transfer_plan::survey_of(to)?);
    TransferPlan::of(&survey, there.as_ref(), numbers)
}

/// Copies the complete revisions `numbers`, or all, of the space on `from` to the one on `to`, like a `Transfer`.
pub fn copy_on(
    from: &Arc<dyn Device>,
    to: &dyn Device,
    numbers: &[u64],
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Vec<Copied>> {
    let survey = SpaceSurvey::open_on(&**from)?;
    let there = transfer_plan::survey_on(to)?;
    let plan = TransferPlan::of(&survey, there.as_ref(), numbers)?;
    carry_out(to, plan, &|number| Reader::open_on(from.clone(), Some(number), NOTE), progress)
}

fn was_there(revision: Planned) -> Copied {
    Copied { revision, became: Became::WasThere, elsewhere: Vec::new() }
}

fn carry_out(
    device: &dyn Device,
    plan: TransferPlan,
    open: &dyn Fn(u64) -> Result<Reader>,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Vec<Copied>> {
    let mut target = Destination::open(device, &plan)?;
    // All are held from the start, as far as there is room for holds: a running job removes the others meanwhile.
    let mut readers: VecDeque<(Planned, Option<Result<Reader>>)> = VecDeque::new();
    for revision in plan.revisions.into_iter().rev() {
        let reader = (!target.has(&revision)).then(|| open(revision.key.number));
        readers.push_front((revision, reader));
    }
    let mut done = Vec::new();
    while let Some((revision, reader)) = readers.pop_front() {
        readers.iter_mut().filter_map(|(_, reader)| reader.as_mut()?.as_mut().ok()).for_each(Reader::renew);
        let Some(opened) = reader else {
            done.push(was_there(revision));
            continue;
        };
        let later = readers.iter().filter_map(|(_, reader)| reader.as_ref()?.as_ref().ok()).collect::<Vec<_>>();
        let (became, elsewhere) = match copy_one(&mut target, &revision, opened, &later, progress) {
            Ok(elsewhere) => (Became::Copied, elsewhere),
            Err(Stopped::Lost(why)) => (Became::Lost(why), Vec::new()),
            Err(Stopped::Gone(why)) => (Became::Gone(why), Vec::new()),
            Err(Stopped::Failed(error)) => return Err(error),
        };
        done.push(Copied { revision, became, elsewhere });
    }
    look_again(device, &done)?;
    Ok(done)
}

/// An error unless the written roots, read back from the medium, refer to all copied revisions.
fn look_again(device: &dyn Device, done: &[Copied]) -> Result<()> {
    let survey = SpaceSurvey::open_on(device)?;
    let copied = done.iter().filter(|copied| copied.became == Became::Copied).map(|copied| copied.revision.key);
    let missing: Vec<u64> = copied.filter(|key| survey.complete(*key).is_none()).map(|key| key.number).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let numbers = missing.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let mut what = vec![format!("{}: the written copy of revision {numbers} cannot be read there", device.path())];
    what.extend(survey.damage);
    Err(Error::Unreadable { what })
}

/// Copies one revision; returns the shards that were read in other places. `later`: the revisions after it.
fn copy_one(
    target: &mut Destination<'_>,
    revision: &Planned,
    opened: Result<Reader>,
    later: &[&Reader],
    progress: &(dyn Fn(u64) + Sync),
) -> std::result::Result<Vec<String>, Stopped> {
    let mut reader = opened.map_err(Stopped::by_source)?;
    if reader.key() != revision.key {
        let number = revision.key.number;
        return Err(Stopped::Gone(format!("another revision {number} is there meanwhile; copy again")));
    }
    let sizes = (0..reader.shard_count()).map(|shard| Ok(size_of(reader.shard(shard)?.clone())));
    let sizes = sizes.collect::<Result<Vec<_>>>()?;
    let layout = match target.layout_for(revision.key, &sizes) {
        Some(layout) => layout,
        None => target.make_layout(&Rooms::of(&reader, later)?)?,
    };
    take_over(target.device, target.layout(layout)?, &mut reader, progress)?;
    Ok(reader.elsewhere().to_vec())
}
