//! The revision that a command reads while a job may remove it.

use crate::{
    arguments::Revision,
    exit::{Failure, say},
    text::count,
};
use mainstay_engine::{Place, RevisionSurvey, SpaceSurvey};
use std::{
    path::Path,
    time::{Duration, Instant},
};

/// How long to try the next newest revision, if a running job removes each one.
const TRY: Duration = Duration::from_secs(5);

/// Calls `attempt` on the revision of this number, or on the newest complete one, on any level in sight. `attempt`
/// returns `None` if the job removed the revision meanwhile.
pub fn read<T>(
    space: &Path,
    number: Option<u64>,
    attempt: impl FnMut(&SpaceSurvey, &RevisionSurvey) -> Result<Option<T>, Failure>,
) -> Result<T, Failure> {
    read_by(&|| SpaceSurvey::open_all(space), number, attempt)
}

/// Like `read`, only for the directory `place`.
pub fn read_in<T>(
    place: &Path,
    number: Option<u64>,
    attempt: impl FnMut(&SpaceSurvey, &RevisionSurvey) -> Result<Option<T>, Failure>,
) -> Result<T, Failure> {
    read_by(&|| SpaceSurvey::open(place), number, attempt)
}

/// The place that a view points to: the farthest one with the whole revision, because it stays there longest. `None`
/// for the space itself.
pub fn place_to_show(space: &Path, number: Option<u64>) -> Result<Option<Place>, Failure> {
    let survey = SpaceSurvey::open_all(space)?;
    let revision = chosen(&survey, number)?;
    if revision.parts.is_empty() {
        return Ok(None);
    }
    let whole = revision.parts.iter().rev().find(|part| part.whole).map(|part| part.place.clone());
    let place = whole.ok_or_else(|| {
        let number = revision.key.number;
        let why = "no directory in sight has all of its shards; `mainstay export` collects them";
        Failure::lost(format!("revision {number} cannot be shown: {why}"))
    })?;
    Ok(Some(place).filter(|place| place.directory != space))
}

fn read_by<T>(
    look: &dyn Fn() -> mainstay_engine::Result<SpaceSurvey>,
    number: Option<u64>,
    mut attempt: impl FnMut(&SpaceSurvey, &RevisionSurvey) -> Result<Option<T>, Failure>,
) -> Result<T, Failure> {
    let start = Instant::now();
    while start.elapsed() < TRY {
        let survey = look()?;
        match attempt(&survey, chosen(&survey, number)?)? {
            Some(made) => return Ok(made),
            None if number.is_some() => break,
            None => {}
        }
    }
    Err(Failure::lost(
        "the job that has the space open removed the revision while it was read; nothing was written, try again, or \
         `mainstay hold` it first"
            .to_owned(),
    ))
}

/// The revision of this number, or the newest complete one. Reports the damage of the space if no revision has the
/// number, and before it takes the newest: the damage may hide a newer one.
pub fn found(survey: &SpaceSurvey, number: Option<u64>) -> Result<&RevisionSurvey, Failure> {
    let tell_damage = || survey.damage.iter().for_each(|damage| say(damage));
    match number {
        Some(number) => survey.revision(number).ok_or_else(|| {
            tell_damage();
            missing(survey, number)
        }),
        None => {
            tell_damage();
            survey.newest().ok_or_else(|| Failure::lost(format!("no complete revision in {}", survey.path)))
        }
    }
}

fn chosen(survey: &SpaceSurvey, number: Option<u64>) -> Result<&RevisionSurvey, Failure> {
    let revision = found(survey, number)?;
    if !revision.complete {
        let (number, found, of) = (revision.key.number, revision.shards.len(), revision.shard_count);
        return Err(Failure::lost(format!(
            "revision {number} is incomplete: {found} of {} found",
            count(of.into(), "shard")
        )));
    }
    Ok(revision)
}

/// The requested revision, if it is complete.
pub fn complete(survey: &SpaceSurvey, wanted: Revision) -> Result<&RevisionSurvey, Failure> {
    chosen(survey, wanted.number())
}

/// The requested numbers, with the number of the newest complete revision now.
pub fn numbers(space: &Path, wanted: &[Revision]) -> Result<Vec<u64>, Failure> {
    let number = |wanted: &Revision| match wanted.number() {
        Some(number) => Ok(number),
        None => Ok(chosen(&SpaceSurvey::open_all(space)?, None)?.key.number),
    };
    wanted.iter().map(number).collect()
}

/// Fails because no revision has this number; names the existing ones.
pub fn missing(survey: &SpaceSurvey, number: u64) -> Failure {
    let there: Vec<String> = survey.revisions.iter().map(|revision| revision.key.number.to_string()).collect();
    let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
    Failure::lost(format!("there is no revision {number} in {}; there are: {there}", survey.path))
}
