//! Choosing a revision and opening it, while a job may let it go.

use super::{Guard, Reader};
use crate::{
    device::{Device, Disk},
    error::{Error, Result},
    ground::Instant,
    printable::printable,
    restore::Saved,
    space::format::Manifest,
    survey::{RevisionSurvey, ShardSurvey, SpaceSurvey},
};
use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

/// How long another newest revision is tried when a running job lets go of each.
const TRY: Duration = Duration::from_secs(5);

impl Reader {
    /// Opens the complete revision of this number, or the newest, of the space in `directory`. `note` says who
    /// reads, in the hold that keeps a job at work from letting it go.
    pub fn open(directory: &Path, revision: Option<u64>, note: &str) -> Result<Reader> {
        Self::open_on(Arc::new(Disk::existing(directory)), revision, note)
    }

    /// As `open`, of the space on `device`.
    pub fn open_on(device: Arc<dyn Device>, revision: Option<u64>, note: &str) -> Result<Reader> {
        let start = Instant::now();
        loop {
            let survey = SpaceSurvey::open_on(&*device)?;
            let index = chosen(&survey, revision)?;
            let at_work = survey.is_at_work();
            let SpaceSurvey { path, mut revisions, damage, .. } = survey;
            let found = revisions.swap_remove(index);
            let mut guard = Guard::new(device.clone(), note);
            let is_there = !at_work || guard.hold(found.key);
            let manifests = if is_there { manifests(&found)? } else { None };
            match manifests {
                Some(manifests) => {
                    let of_shard = |(shard, manifest): (&ShardSurvey, &Manifest)| Saved::of(shard.entry(), manifest);
                    let saved = found.shards.iter().zip(&manifests).map(of_shard).collect();
                    return Ok(Reader {
                        path,
                        revision: found,
                        manifests,
                        saved,
                        damage,
                        last: None,
                        rows: BTreeMap::new(),
                        guard,
                    });
                }
                None if revision.is_some() || start.elapsed() >= TRY => return Err(found.shards[0].let_go()),
                None => {}
            }
        }
    }
}

/// The index of the revision that is wanted.
fn chosen(survey: &SpaceSurvey, wanted: Option<u64>) -> Result<usize> {
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
        return Err(missing(format!("revision {number} is incomplete: {here} of {of} shards were found")));
    }
    // One of the same key and another count of shards can only be forged.
    let of = |revision: &RevisionSurvey| (revision.key, revision.layout, revision.shard_count);
    let is_found = |revision: &RevisionSurvey| of(revision) == of(found);
    Ok(survey.revisions.iter().position(is_found).unwrap_or_default())
}

/// Those of all shards; `None` if a job let the revision go meanwhile.
fn manifests(revision: &RevisionSurvey) -> Result<Option<Vec<Manifest>>> {
    let read = |shard: &ShardSurvey| match shard.manifest() {
        Ok(manifest) => Ok(manifest),
        Err(error) => Err(shard.judge(error)),
    };
    revision.shards.iter().map(read).collect()
}
