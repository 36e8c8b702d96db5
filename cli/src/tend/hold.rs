//! `mainstay hold` and `mainstay release`.

use crate::{
    arguments,
    document::{self, Key},
    exit::{Exit, Failure, say},
    output,
    space::{
        completing,
        holds::{expiry, held_numbers, in_words, no_room, taken, until},
        revision::{found, numbers},
    },
    text::on_levels,
};
use mainstay_engine::{
    Error, LevelKind, Place, Places, RevisionKey, RevisionPart, SpaceSurvey, space::format::Hold, tend,
};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Instant,
};

/// Least time to try the next newest revision, if a running job removes each one; longer with `--wait`.
const TRIES: usize = 10;

pub fn hold(wanted: &arguments::Hold) -> Result<Exit, Failure> {
    let expires = wanted.time.map_or(0, expiry);
    if wanted.dry_run {
        return would_hold(wanted, expires);
    }
    // Includes staged data of a killed job, which may no longer be completed beside a hold.
    completing::first(&wanted.space.path)?;
    let begun = Instant::now();
    for _ in (0..).take_while(|tried| *tried < TRIES || begun.elapsed() < wanted.wait) {
        let survey = SpaceSurvey::open_all(&wanted.space.path)?;
        let key = chosen(&survey, wanted.revision.number())?;
        let Some(held) = hold_on_all(wanted, &survey, key, expires)? else {
            if places_of(&survey, key, &wanted.space.path).is_empty() {
                return Err(is_spread(&survey, key));
            }
            if wanted.revision.number().is_none() {
                continue;
            }
            return Err(Failure::lost(format!(
                "revision {} was removed before the hold counted; nothing is held, choose a newer one",
                key.number
            )));
        };
        tell(wanted, &survey.path, &held)?;
        return Ok(Exit::Good);
    }
    Err(Failure::lost(
        "the job that has the space open removed each revision before the hold counted; nothing is held, try again"
            .to_owned(),
    ))
}

/// The reason that a revision cannot be held if each directory has only a part: a hold must be in a place with all of
/// it.
fn is_spread(survey: &SpaceSurvey, key: RevisionKey) -> Failure {
    let places = survey.complete(key).into_iter().flat_map(|revision| &revision.parts);
    let shown = |part: &RevisionPart| {
        let shards = part.shards.len();
        format!("{} ({shards} {})", part.place, if shards == 1 { "shard" } else { "shards" })
    };
    Failure::refused(format!(
        "revision {} is in several directories, and none has all of its shards: {}; nothing is held. `mainstay export` copies it out; `mainstay checkpoint` makes the job save a revision to all levels, which you can hold in the space; or hold one that `mainstay ls` shows whole on a level",
        key.number,
        places.map(shown).collect::<Vec<_>>().join("; ")
    ))
}

/// The result of a hold.
struct Held {
    /// The hold on the farthest level with the revision.
    hold: Hold,
    /// It counts on all of them.
    counts: bool,
    /// Nearest first; empty if no other level is in sight.
    levels: Vec<Place>,
}

/// Holds the revision `key` in each place that has it whole; `None` if it was removed from all of them before. If a
/// place has no room or is not writable, the others hold it.
fn hold_on_all(
    wanted: &arguments::Hold,
    survey: &SpaceSurvey,
    key: RevisionKey,
    expires_unix_ns: u64,
) -> Result<Option<Held>, Failure> {
    let mut held: Option<Held> = None;
    let mut refused = Vec::new();
    for (place, directory) in places_of(survey, key, &wanted.space.path).into_iter().rev() {
        match (hold_in(wanted, &directory, place.as_ref(), key, expires_unix_ns), &mut held) {
            (Ok(None), _) => {}
            (Ok(Some((_, counts))), Some(held)) => {
                held.counts &= counts;
                held.levels.splice(0..0, place);
            }
            (Ok(Some((hold, counts))), None) => held = Some(Held { hold, counts, levels: place.into_iter().collect() }),
            (Err(failure), _) => refused.push(of_level("does", place.as_ref(), failure)),
        }
    }
    // If none holds it, the answer of the farthest place counts.
    let answer = if held.is_none() && !refused.is_empty() { Some(refused.remove(0)) } else { None };
    refused.iter().for_each(|failure| say(&failure.message));
    answer.map_or(Ok(held), Err)
}

/// The hold on the revision `key` in one place, and whether it counts; `None` if it was removed there before.
fn hold_in(
    wanted: &arguments::Hold,
    directory: &Path,
    place: Option<&Place>,
    key: RevisionKey,
    expires_unix_ns: u64,
) -> Result<Option<(Hold, bool)>, Failure> {
    let holding = tend::hold(directory, key, &wanted.note, expires_unix_ns, wanted.wait)?;
    taken(&SpaceSurvey::open(directory)?, place, key, holding)
}

/// The message about a level that refuses a hold: it `does` not, or `would` not, hold the revision.
fn of_level(does: &str, place: Option<&Place>, failure: Failure) -> Failure {
    match place {
        Some(place) => {
            let message = format!("the level {place} {does} not hold it: {}", failure.message);
            Failure { message, ..failure }
        }
        None => failure,
    }
}

/// The places with the whole revision `key`, nearest first; the space itself if no other level is in sight.
fn places_of(survey: &SpaceSurvey, key: RevisionKey, space: &Path) -> Vec<(Option<Place>, PathBuf)> {
    let revision = survey.complete(key);
    let parts = revision.iter().flat_map(|revision| &revision.parts);
    let whole = parts.filter(|part| part.whole).map(|part| (Some(part.place.clone()), part.place.directory.clone()));
    let alone = revision.is_none_or(|revision| revision.parts.is_empty());
    whole.chain(alone.then(|| (None, space.to_owned()))).collect()
}

/// The revision that would be held, and whether there is room. The answer of a job at work is unknown.
fn would_hold(wanted: &arguments::Hold, expires_unix_ns: u64) -> Result<Exit, Failure> {
    let survey = SpaceSurvey::open_all(&wanted.space.path)?;
    let key = chosen(&survey, wanted.revision.number())?;
    let mut levels = Vec::new();
    let mut refused = Vec::new();
    let mut has_room = false;
    let places = places_of(&survey, key, &wanted.space.path);
    if places.is_empty() {
        return Err(is_spread(&survey, key));
    }
    for (place, directory) in places {
        if tend::has_room_for(&directory, key)? {
            has_room = true;
            levels.extend(place.map(|place| place.to_string()));
        } else {
            let failure = Failure::refused(no_room(&SpaceSurvey::open(&directory)?, place.as_ref(), key));
            refused.push(of_level("would", place.as_ref(), failure));
        }
    }
    let answer = if has_room { None } else { refused.pop() };
    refused.iter().for_each(|failure| say(&failure.message));
    if let Some(failure) = answer {
        return Err(failure);
    }
    let counts = !survey.is_at_work();
    if wanted.space.json {
        let (space, key) = (survey.path.as_str(), Key::of(key));
        output::json(&document::Held { space, dry_run: true, counts, hold: None, levels, key })?;
    } else {
        let when = if counts { "" } else { ", from the next checkpoint of the job that has the space open on" };
        let (number, lineage, until) = (key.number, key.lineage.number, in_words(expires_unix_ns));
        let on = on(&levels);
        output::text(&format!(
            "revision {number} (lineage {lineage}) would be held {until}{when}{on}; nothing was changed\n"
        ))?;
    }
    Ok(Exit::Good)
}

fn chosen(survey: &SpaceSurvey, number: Option<u64>) -> Result<RevisionKey, Failure> {
    let revision = found(survey, number)?;
    if !revision.complete {
        return Err(Failure::lost(format!("revision {} is incomplete: it cannot be held", revision.key.number)));
    }
    Ok(revision.key)
}

fn on(levels: &[String]) -> String {
    if levels.is_empty() { String::new() } else { format!(", {}", on_levels(levels)) }
}

fn tell(wanted: &arguments::Hold, path: &str, held: &Held) -> Result<(), Failure> {
    let Held { hold, counts, levels } = held;
    let counts = *counts;
    let levels: Vec<String> = levels.iter().map(Place::to_string).collect();
    if levels == ["memory"] {
        say(
            "it is held only in memory, which is lost at the end of the job, held or not: `mainstay export` copies it out",
        );
    }
    if wanted.space.json {
        let key = Key::of(RevisionKey { lineage: hold.lineage, number: hold.number });
        let hold = Some(document::Hold::of(hold));
        output::json(&document::Held { space: path, dry_run: false, counts, hold, levels, key })?;
        return Ok(());
    }
    let until = until(hold);
    if counts {
        let (number, lineage, on) = (hold.number, hold.lineage.number, on(&levels));
        output::text(&format!("revision {number} (lineage {lineage}) is held {until}{on}\n"))?;
    } else {
        say(&format!(
            "revision {} (lineage {}) is to be held {until}: that counts from the job's next checkpoint, or its next \
             start, on; until then it may remove the revision (`mainstay ls` shows the hold)",
            hold.number, hold.lineage.number
        ));
    }
    Ok(())
}

pub fn release(wanted: &arguments::Release) -> Result<Exit, Failure> {
    let numbers = numbers(&wanted.space.path, &wanted.revisions)?;
    let survey = SpaceSurvey::open_all(&wanted.space.path)?;
    let is_held = |number: &u64| survey.holds.iter().any(|held| held.hold.number == *number);
    if let Some(number) = numbers.iter().find(|number| !is_held(number)) {
        let held = held_numbers(&survey);
        let held = if held.is_empty() { "nothing is held".to_owned() } else { format!("held: {held}") };
        return Err(Failure::lost(format!(
            "revision {number} in {} is not held; {held}; nothing was released",
            survey.path
        )));
    }
    let (mut released, mut kept) = (Vec::new(), None);
    for place in Places::of(&wanted.space.path).all {
        match release_in(wanted, &numbers, &place.directory) {
            Ok(of_place) => released.extend(of_place),
            // It was opened, and nothing was saved there yet.
            Err(Error::NotASpace { .. }) if place.level != LevelKind::Pfs => {}
            // Holds in the other places are released all the same.
            Err(error) => kept = kept.or(Some(Failure::from(error))),
        }
    }
    if let Some(failure) = kept.take_if(|_| released.is_empty()) {
        return Err(failure);
    }
    if wanted.space.json {
        let path = wanted.space.path.to_string_lossy().into_owned();
        output::json(&document::Released {
            space: &path,
            dry_run: wanted.dry_run,
            released: released.iter().map(document::Hold::of).collect(),
        })?;
    } else if released.is_empty() {
        output::text("nothing was held\n")?;
    } else {
        let is = if wanted.dry_run { "would be" } else { "is" };
        let line = |hold: &Hold| format!("revision {} {is} released{}\n", hold.number, quoted(&hold.note));
        // One line, whatever the number of levels with the hold.
        let mut lines: Vec<String> = released.iter().map(line).collect();
        let mut told = BTreeSet::new();
        lines.retain(|line| told.insert(line.clone()));
        output::text(&lines.concat())?;
    }
    kept.map_or(Ok(Exit::Good), Err)
}

/// Ends the holds on the revisions of these numbers, or all holds.
fn release_in(wanted: &arguments::Release, numbers: &[u64], directory: &Path) -> mainstay_engine::Result<Vec<Hold>> {
    if !wanted.dry_run {
        return match numbers {
            [] => tend::release(directory, None),
            numbers => {
                let released = numbers.iter().map(|number| tend::release(directory, Some(*number)));
                Ok(released.collect::<mainstay_engine::Result<Vec<_>>>()?.concat())
            }
        };
    }
    let holds = SpaceSurvey::open(directory)?.holds.into_iter().map(|held| held.hold);
    Ok(holds.filter(|hold| numbers.is_empty() || numbers.contains(&hold.number)).collect())
}

fn quoted(note: &str) -> String {
    if note.is_empty() { String::new() } else { format!(" (it was held: {note})") }
}
