//! `mainstay verify`: reads every block of what is complete.

use crate::{
    arguments,
    document::{self, Key, Verdict, VerifiedRevision},
    exit::{Exit, Failure, say},
    output, progress,
    space::revision::missing,
    text::{self, Align},
};
use indicatif::ProgressBar;
use mainstay_engine::{RevisionSurvey, SpaceSurvey, Verified};

/// How often the space is looked at again when a running job lets go of all that is being read.
const TRIES: usize = 10;

pub fn verify(wanted: &arguments::Verify) -> Result<Exit, Failure> {
    let (mut survey, mut revisions) = attempt(wanted)?;
    for _ in 1..TRIES {
        if wanted.revision.is_some() || revisions.iter().any(|r| r.verdict != Verdict::LetGo) {
            break;
        }
        (survey, revisions) = attempt(wanted)?;
    }
    let whole = revisions.iter().filter(|r| r.verdict == Verdict::Good).count();
    let damaged = revisions.iter().filter(|r| r.verdict == Verdict::Damaged).count();
    let good = whole > 0 && damaged == 0 && survey.damage.is_empty();
    if wanted.space.json {
        output::json(&document::Verify { space: document::Space::of(&survey), good, revisions })?;
    } else {
        output::text(&table(&revisions))?;
        revisions.iter().flat_map(|revision| &revision.damage).for_each(|what| say(what));
    }
    survey.damage.iter().for_each(|what| say(what));
    match (good, whole, damaged) {
        (true, ..) => Ok(Exit::Good),
        (false, 0, 0) => Err(Failure::lost(format!(
            "the job that has {} open let go of what was being read; nothing was verified, try again",
            survey.path
        ))),
        _ => Ok(Exit::Lost),
    }
}

fn attempt(wanted: &arguments::Verify) -> Result<(SpaceSurvey, Vec<VerifiedRevision>), Failure> {
    let survey = SpaceSurvey::open(&wanted.space.path)?;
    let revisions = chosen(&survey, wanted.revision)?;
    let bar = progress::of_bytes(revisions.iter().map(|revision| revision.block_bytes()).sum());
    let verified = revisions.iter().map(|revision| verify_one(revision, &bar)).collect();
    bar.finish_and_clear();
    let verified: Result<Vec<VerifiedRevision>, Failure> = verified;
    let verified = verified?;
    Ok((survey, verified))
}

fn chosen(survey: &SpaceSurvey, number: Option<u64>) -> Result<Vec<&RevisionSurvey>, Failure> {
    let Some(number) = number else {
        let complete: Vec<_> = survey.revisions.iter().filter(|revision| revision.complete).collect();
        if complete.is_empty() {
            survey.damage.iter().for_each(|what| say(what));
            return Err(Failure::lost(format!("there is no complete revision in {}", survey.path)));
        }
        return Ok(complete);
    };
    let revision = survey.revision(number).ok_or_else(|| missing(survey, number))?;
    if !revision.complete {
        let (found, of) = (revision.shards.len(), revision.shard_count);
        return Err(Failure::lost(format!("revision {number} is incomplete: {found} of {of} shards were found")));
    }
    Ok(vec![revision])
}

fn verify_one(revision: &RevisionSurvey, bar: &ProgressBar) -> Result<VerifiedRevision, Failure> {
    bar.set_message(format!("revision {}", revision.key.number));
    let (verdict, damage) = match revision.verify(&|bytes| bar.inc(bytes))? {
        Verified::Whole => (Verdict::Good, Vec::new()),
        Verified::Damaged { what } => (Verdict::Damaged, what),
        Verified::LetGo => (Verdict::LetGo, Vec::new()),
    };
    Ok(VerifiedRevision { key: Key::of(revision.key), verdict, bytes: revision.bytes(), damage })
}

fn table(revisions: &[VerifiedRevision]) -> String {
    let columns =
        [("revision", Align::Right), ("lineage", Align::Right), ("size", Align::Right), ("verdict", Align::Left)];
    let row = |r: &VerifiedRevision| {
        let verdict = match r.verdict {
            Verdict::Good => "good",
            Verdict::Damaged => "damaged",
            Verdict::LetGo => "let go meanwhile by the job that has the space open",
        };
        vec![r.key.revision.to_string(), r.key.lineage.to_string(), text::bytes(r.bytes), verdict.to_owned()]
    };
    text::table(&columns, revisions.iter().map(row))
}
