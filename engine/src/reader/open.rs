//! Chooses a revision and opens it, while a job may remove it.

use super::{InSpace, Reader, ShardPlace, guard::Guard};
use crate::{
    device::{Device, Disk, check_path},
    error::{Error, Result},
    ground::Instant,
    plural::count,
    printable::printable,
    rehearsal,
    remark::Remark,
    restore::SavedShard,
    survey::{RevisionSurvey, SpaceSurvey},
};
use std::{path::Path, sync::Arc, time::Duration};

/// The time in which opening tries further revisions, if a running job removes each.
const TRY: Duration = Duration::from_secs(5);

/// Printed once in a process, because each rank of a job may open a reader.
static MAY_BE_NEWER: Remark = Remark::new();

impl Reader {
    /// Opens the complete revision of this number, or the newest, of the space in `directory`, on any visible level.
    /// Each shard is read in the nearest place that has it. If the newest is opened and the space is partly damaged, a
    /// line warns, once in a process, that a newer one may have existed. `note` names the reader in its hold, which
    /// keeps a running job from removing the revision.
    pub fn open(directory: &Path, revision: Option<u64>, note: &str) -> Result<Reader> {
        check_path(directory)?;
        let directory = &if rehearsal::is_one() { rehearsal::place(directory) } else { directory.to_owned() };
        Self::open_by(&|| SpaceSurvey::open_all(directory), Arc::new(Disk::existing(directory)), revision, note)
    }

    /// As `open`, but only for the space on `device`.
    pub fn open_on(device: Arc<dyn Device>, revision: Option<u64>, note: &str) -> Result<Reader> {
        Self::open_by(&|| SpaceSurvey::open_on(&*device), device.clone(), revision, note)
    }

    fn of_space(path: String, space: Box<InSpace>, places: Vec<ShardPlace>) -> Result<Reader> {
        let saved = places.iter().map(|shard| Ok(SavedShard::of(&shard.entry, shard.manifest()?)));
        let contents = saved.collect::<Result<Vec<SavedShard>>>()?;
        let (key, shard_count) = (space.revision.key, contents.len() as u32);
        let (here, space) = ((0..).zip(places).collect(), Some(space));
        Ok(Reader { path, key, shard_count, here, contents, space, ..Reader::default() })
    }

    fn open_by(
        look: &dyn Fn() -> Result<SpaceSurvey>,
        device: Arc<dyn Device>,
        revision: Option<u64>,
        note: &str,
    ) -> Result<Reader> {
        let start = Instant::now();
        loop {
            let survey = look()?;
            let index = chosen(&survey, revision)?;
            let at_work = survey.is_at_work();
            let SpaceSurvey { path, mut revisions, damage, .. } = survey;
            let found = revisions.swap_remove(index);
            let mut guards: Vec<Guard> = whole_on(&found, &device).map(|device| Guard::new(device, note)).collect();
            if at_work && !guards.is_empty() {
                guards.retain_mut(|guard| guard.hold(found.key));
            }
            let is_there = !at_work || !guards.is_empty() || found.parts.iter().any(|part| !part.whole);
            let mut space = Box::new(InSpace::new(found, damage, guards));
            let places = if is_there { space.places()? } else { None };
            match places {
                Some(places) => {
                    if revision.is_none() {
                        MAY_BE_NEWER.make(0, || (!space.damage.is_empty()).then(|| space.damage.join("; ")));
                    }
                    return Reader::of_space(path, space, places);
                }
                None if revision.is_some() || start.elapsed() >= TRY => return Err(space.revision.shards[0].let_go()),
                None => {}
            }
        }
    }
}

/// The index of the wanted revision.
pub(crate) fn chosen(survey: &SpaceSurvey, wanted: Option<u64>) -> Result<usize> {
    let missing = |why: String| Error::RevisionMissing { path: printable(&survey.path).into_owned(), why };
    let found = match wanted {
        None => survey.newest().ok_or_else(|| match &survey.damage[..] {
            [] => missing("no complete revision".to_owned()),
            what => Error::Unreadable { what: what.to_vec() },
        })?,
        Some(number) => survey.revision(number).ok_or_else(|| {
            let there: Vec<String> = survey.revisions.iter().map(|revision| revision.key.number.to_string()).collect();
            let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
            missing(format!("there is no revision {number}; there are: {there}"))
        })?,
    };
    if !found.complete {
        let (number, here, of) = (found.key.number, found.shards.len(), found.shard_count);
        return Err(missing(format!("revision {number} is incomplete: {here} of {} found", count(of.into(), "shard"))));
    }
    // A second revision of the same key with another number of shards is always a forgery.
    let of = |revision: &RevisionSurvey| (revision.key, revision.layout, revision.shard_count);
    let is_found = |revision: &RevisionSurvey| of(revision) == of(found);
    Ok(survey.revisions.iter().position(is_found).unwrap_or_default())
}

/// The places with the whole revision; `device` if only the space was searched.
fn whole_on<'a>(
    revision: &'a RevisionSurvey,
    device: &'a Arc<dyn Device>,
) -> impl Iterator<Item = Arc<dyn Device>> + 'a {
    let whole = revision.parts.iter().filter(|part| part.whole);
    let places = whole.map(|part| Arc::new(Disk::existing(&part.place.directory)) as Arc<dyn Device>);
    revision.parts.is_empty().then(|| device.clone()).into_iter().chain(places)
}
