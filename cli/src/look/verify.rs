//! `mainstay verify`: reads every block of all complete revisions.

use crate::{
    arguments::{self, Revision},
    document::{self, Key, PartOnLevel, Verdict, VerifiedRevision},
    exit::{Exit, Failure, say},
    output, progress,
    space::revision::complete,
    text::{self, Align},
};
use indicatif::ProgressBar;
use mainstay_engine::{RevisionPart, RevisionSurvey, ShardSurvey, SpaceSurvey, Verified};

/// How often to survey the space again, if a running job removes all revisions that are being read.
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
            "the job that has {} open removed the revisions while they were read; nothing was verified, try again",
            survey.path
        ))),
        _ => Ok(Exit::Lost),
    }
}

fn attempt(wanted: &arguments::Verify) -> Result<(SpaceSurvey, Vec<VerifiedRevision>), Failure> {
    let survey = SpaceSurvey::open_all(&wanted.space.path)?;
    let revisions = chosen(&survey, wanted.revision)?;
    let parts: Vec<Part> = revisions.iter().flat_map(|revision| parts(revision)).collect();
    let bar = progress::of_bytes(parts.iter().map(Part::block_bytes).sum());
    let verified = parts.iter().map(|part| verify_one(part, &bar)).collect();
    bar.finish_and_clear();
    let verified: Result<Vec<VerifiedRevision>, Failure> = verified;
    let verified = verified?;
    Ok((survey, verified))
}

fn chosen(survey: &SpaceSurvey, wanted: Option<Revision>) -> Result<Vec<&RevisionSurvey>, Failure> {
    let Some(wanted) = wanted else {
        let complete: Vec<_> = survey.revisions.iter().filter(|revision| revision.complete).collect();
        if complete.is_empty() {
            survey.damage.iter().for_each(|what| say(what));
            return Err(Failure::lost(format!("there is no complete revision in {}", survey.path)));
        }
        return Ok(complete);
    };
    Ok(vec![complete(survey, wanted)?])
}

/// The parts of a revision in one place; in the space itself, if no other level is in sight.
struct Part<'a> {
    revision: &'a RevisionSurvey,
    in_place: Option<&'a RevisionPart>,
}

/// All of them are verified, nearest first.
fn parts(revision: &RevisionSurvey) -> Vec<Part<'_>> {
    if revision.parts.is_empty() {
        return vec![Part { revision, in_place: None }];
    }
    revision.parts.iter().map(|part| Part { revision, in_place: Some(part) }).collect()
}

impl Part<'_> {
    fn shards(&self) -> &[ShardSurvey] {
        self.in_place.map_or(&self.revision.shards, |part| &part.shards)
    }

    fn block_bytes(&self) -> u64 {
        self.in_place.map_or_else(|| self.revision.block_bytes(), RevisionPart::block_bytes)
    }

    fn verify(&self, progress: &(dyn Fn(u64) + Sync)) -> Result<Verified, Failure> {
        Ok(self.in_place.map_or_else(|| self.revision.verify(progress), |part| part.verify(progress))?)
    }
}

fn verify_one(part: &Part<'_>, bar: &ProgressBar) -> Result<VerifiedRevision, Failure> {
    let Part { revision, in_place } = part;
    bar.set_message(format!("revision {}", revision.key.number));
    let (verdict, mut damage) = match part.verify(&|bytes| bar.inc(bytes))? {
        Verified::Whole => (Verdict::Good, Vec::new()),
        Verified::Damaged { what } => (Verdict::Damaged, what),
        Verified::LetGo => (Verdict::LetGo, Vec::new()),
    };
    if let Some(part) = in_place {
        damage.iter_mut().for_each(|what| *what = format!("{}: {what}", part.place));
    }
    Ok(VerifiedRevision {
        key: Key::of(revision.key),
        level: in_place.map(|part| part.place.level.name()),
        copy: in_place.map(|part| part.place.copy),
        shards: revision.shard_count,
        shards_found: part.shards().len(),
        verdict,
        bytes: part.shards().iter().fold(0, |sum, shard| sum.saturating_add(shard.bytes)),
        damage,
    })
}

fn table(revisions: &[VerifiedRevision]) -> String {
    let several = revisions.iter().any(|r| r.level.is_some());
    let mut columns =
        vec![("revision", Align::Right), ("lineage", Align::Right), ("size", Align::Right), ("verdict", Align::Left)];
    if several {
        columns.insert(2, ("level", Align::Left));
    }
    let row = |r: &VerifiedRevision| {
        let verdict = match r.verdict {
            Verdict::Good => "good",
            Verdict::Damaged => "damaged",
            Verdict::LetGo => "removed meanwhile by the job that has the space open",
        };
        let mut row =
            vec![r.key.revision.to_string(), r.key.lineage.to_string(), text::bytes(r.bytes), verdict.to_owned()];
        if let (Some(level), Some(copy)) = (r.level, r.copy) {
            let whole = r.shards_found as u64 == u64::from(r.shards);
            row.insert(2, PartOnLevel { level, copy, shards_found: r.shards_found, whole }.words());
        }
        row
    };
    text::table(&columns, revisions.iter().map(row))
}
