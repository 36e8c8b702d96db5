//! `mainstay prune`: removes revisions that nobody needs.

use crate::{
    arguments, consent,
    document::{self, Key, PrunedRevision},
    exit::{Exit, Failure, say},
    output, progress,
    space::{
        completing,
        revision::{missing, numbers},
        staged,
    },
    text::{self, Align},
    time,
};
use mainstay_engine::{
    Error, LevelKind, Place, Places, SpaceSurvey, printable,
    tend::{self, Fate, Pruned, Reason, Removed, Rules, Unseen},
    unix_ns,
};
use std::time::Duration;

pub fn prune(wanted: &arguments::Prune) -> Result<Exit, Failure> {
    let places = of(wanted);
    // Includes staged data of a killed job, which could not be completed afterwards.
    let gone_over = completing::in_all(&places, wanted.dry_run)?;
    let unseen: Vec<Unseen<'_>> = match wanted.give_up_staged {
        true => vec![Unseen::GivenUp; places.len()],
        false => vec![Unseen::Waits(&gone_over); places.len()],
    };
    let surveys = places.iter().map(|place| SpaceSurvey::open(&place.directory)).collect::<Result<Vec<_>, _>>()?;
    surveys.iter().flat_map(|survey| &survey.damage).for_each(|what| say(what));
    let numbers = numbers(&wanted.space.path, &wanted.revisions)?;
    refuse_missing(wanted, &numbers, &surveys)?;
    if wanted.dry_run || consent::is_asked(wanted.yes) {
        let would = would_go(wanted, &numbers, &surveys, &unseen)?;
        let goes = would.iter().any(|pruned| pruned.fates.iter().any(Fate::goes));
        if wanted.dry_run || goes {
            tell(wanted, true, &in_order(&places, &surveys, would, true))?;
        }
        if wanted.dry_run {
            return Ok(Exit::Good);
        }
        if goes {
            consent::ask("Remove them for good?")?;
        }
    }
    let pruned = carry_out(wanted, &numbers, &places, &surveys, &unseen)?;
    tell(wanted, false, &in_order(&places, &surveys, pruned, false))?;
    Ok(Exit::Good)
}

/// Nearest place first, as everywhere.
fn in_order(places: &[Place], surveys: &[SpaceSurvey], pruned: Vec<Pruned>, dry_run: bool) -> Vec<(Place, Done)> {
    let done = places.iter().zip(surveys).zip(pruned).map(|((place, survey), pruned)| {
        let staged = if dry_run { staged::of(survey, &place.directory) } else { Vec::new() };
        (place.clone(), Done { path: survey.path.clone(), staged, pruned })
    });
    let mut done: Vec<_> = done.collect();
    done.reverse();
    done
}

/// The places of the space's revisions in sight; the space itself first.
fn of(wanted: &arguments::Prune) -> Vec<Place> {
    let places = Places::of(&wanted.space.path);
    places.unseen.iter().for_each(|what| say(what));
    // A level that was opened and has no revision yet is no space.
    let is_one = |place: &Place| {
        let is_space = !matches!(SpaceSurvey::open(&place.directory), Err(Error::NotASpace { .. }));
        is_space || place.level == LevelKind::Pfs
    };
    places.all.into_iter().rev().filter(is_one).collect()
}

/// The report on one place: the staged data of a killed job, which is completed first, and the removed revisions.
struct Done {
    path: String,
    staged: Vec<document::Staged>,
    pruned: Pruned,
}

fn rules(wanted: &arguments::Prune) -> Rules {
    Rules { keep_last: wanted.keep_last, keep_every: wanted.keep_every, older_than_unix_ns: wanted.older_than.map(ago) }
}

/// Refuses numbers that no revision has in any place.
fn refuse_missing(wanted: &arguments::Prune, numbers: &[u64], surveys: &[SpaceSurvey]) -> Result<(), Failure> {
    let is_there = |number: &u64| surveys.iter().any(|survey| survey.revision(*number).is_some());
    match numbers.iter().find(|number| !is_there(number)) {
        Some(number) => Err(missing(&SpaceSurvey::open_all(&wanted.space.path)?, *number)),
        None => Ok(()),
    }
}

fn carry_out(
    wanted: &arguments::Prune,
    numbers: &[u64],
    places: &[Place],
    surveys: &[SpaceSurvey],
    unseen: &[Unseen<'_>],
) -> Result<Vec<Pruned>, Failure> {
    let directories: Vec<_> =
        places.iter().zip(unseen).map(|(place, unseen)| (place.directory.as_path(), *unseen)).collect();
    let bar = progress::of_count(surveys.iter().map(|survey| survey.portions.len() as u64).sum());
    bar.set_message("portions");
    let progress = |portions| bar.inc(portions);
    let done = match numbers {
        [] => tend::prune_all(&directories, &rules(wanted), &progress).map(Removed::Done),
        numbers => tend::remove_revisions(&directories, numbers, &progress),
    };
    bar.finish_and_clear();
    done_or_refused(done?)
}

fn would_go(
    wanted: &arguments::Prune,
    numbers: &[u64],
    surveys: &[SpaceSurvey],
    unseen: &[Unseen<'_>],
) -> Result<Vec<Pruned>, Failure> {
    for (survey, unseen) in surveys.iter().zip(unseen) {
        refused_because(survey, unseen).iter().for_each(|why| say(why));
    }
    if numbers.is_empty() {
        return Ok(surveys.iter().map(|survey| tend::prunable(survey, &rules(wanted))).collect());
    }
    done_or_refused(tend::removable(surveys, numbers))
}

/// The reason that the real command would refuse.
pub(super) fn refused_because(survey: &SpaceSurvey, unseen: &Unseen<'_>) -> Option<String> {
    if survey.is_at_work() {
        return Some(format!("{} is in use: this is refused as long as a job has it open", printable(&survey.path)));
    }
    unseen.check(survey).err().map(|error| error.to_string())
}

fn done_or_refused(removed: Removed) -> Result<Vec<Pruned>, Failure> {
    match removed {
        Removed::Done(done) => Ok(done),
        Removed::Stays(stays) => Err(has_to_stay(&stays[0])),
    }
}

fn has_to_stay(fate: &Fate) -> Failure {
    let number = fate.key.number;
    let why = if fate.reasons.contains(&Reason::Held) {
        format!("it is held; `mainstay release SPACE --revision {number}` ends that")
    } else if fate.reasons.contains(&Reason::Newest) {
        "it is the newest complete one of the space, or of one of its levels; `mainstay rollback SPACE --revision N` goes back \
         to an older one"
            .to_owned()
    } else {
        "it is newer than all complete ones, and may be completed later; `mainstay rollback` removes it".to_owned()
    };
    Failure::refused(format!("revision {number} has to stay: {why}; nothing was changed"))
}

fn tell(wanted: &arguments::Prune, dry_run: bool, done: &[(Place, Done)]) -> Result<(), Failure> {
    let Some((_, of_space)) = done.last() else { return Ok(()) };
    let several = done.len() > 1;
    if wanted.space.json {
        let of_place = |(place, done): &(Place, Done)| revisions(&done.pruned.fates, several.then_some(place));
        let layouts_removed = done.iter().flat_map(|(_, done)| done.pruned.layouts_removed.iter().cloned());
        output::json(&document::Prune {
            space: &of_space.path,
            dry_run,
            revisions: done.iter().flat_map(of_place).collect(),
            layouts_removed: layouts_removed.collect(),
        })?;
        return Ok(());
    }
    let mut told = String::new();
    for (place, Done { path, staged, pruned: Pruned { fates, layouts_removed } }) in done {
        if several {
            told += &format!("{}{place}: {}\n", if told.is_empty() { "" } else { "\n" }, printable(path));
        }
        let page = page(dry_run, fates);
        let is = if dry_run { "would be empty and" } else { "was empty and is" };
        let removed = layouts_removed.iter().map(|file| format!("{} {is} removed\n", printable(file)));
        told += &(staged::lines(staged) + &removed.collect::<String>() + &page);
    }
    Ok(output::text(&told)?)
}

fn ago(age: Duration) -> u64 {
    unix_ns().saturating_sub(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX))
}

fn table(fates: &[Fate]) -> String {
    let saved = time::column("saved");
    let columns = [
        ("revision", Align::Right),
        ("lineage", Align::Right),
        ("size", Align::Right),
        (&saved, Align::Left),
        ("outcome", Align::Left),
    ];
    let row = |fate: &Fate| {
        let reasons: Vec<&str> = fate.reasons.iter().map(|reason| words(*reason)).collect();
        let what = match (fate.goes(), fate.complete) {
            (true, true) => "goes".to_owned(),
            (true, false) => "goes (not all of it is here)".to_owned(),
            (false, _) => format!("stays: {}", reasons.join(", ")),
        };
        vec![
            fate.key.number.to_string(),
            fate.key.lineage.number.to_string(),
            text::bytes(fate.bytes),
            time::when(fate.t1_unix_ns),
            what,
        ]
    };
    text::table(&columns, fates.iter().map(row))
}

/// The table of one place.
pub(super) fn page(dry_run: bool, fates: &[Fate]) -> String {
    if fates.is_empty() {
        return "no revision\n".to_owned();
    }
    let gone = fates.iter().filter(|fate| fate.goes()).count();
    let what = if dry_run { "would go; nothing was changed" } else { "went" };
    table(fates) + &format!("\n{gone} {what}\n")
}

fn words(reason: Reason) -> &'static str {
    match reason {
        Reason::Newest => "newest",
        Reason::Held => "held",
        Reason::Last => "among the last",
        Reason::Every => "one of every M",
        Reason::Young => "not old enough",
        Reason::Unfinished => "incomplete, and newer than all complete ones",
        Reason::NotNewer => "not newer",
        Reason::NotNamed => "not named",
    }
}

/// The same as a document. `place`: if the space has other levels in sight.
pub(super) fn revisions(fates: &[Fate], place: Option<&Place>) -> Vec<PrunedRevision> {
    fates.iter().map(|fate| PrunedRevision::of(fate, place)).collect()
}

impl PrunedRevision {
    /// `place`: if the space has other levels in sight.
    fn of(fate: &Fate, place: Option<&Place>) -> PrunedRevision {
        let name = |reason: &Reason| match reason {
            Reason::Newest => "newest",
            Reason::Held => "held",
            Reason::Last => "keep_last",
            Reason::Every => "keep_every",
            Reason::Young => "not_older",
            Reason::Unfinished => "unfinished",
            Reason::NotNewer => "not_newer",
            Reason::NotNamed => "not_named",
        };
        PrunedRevision {
            key: Key::of(fate.key),
            level: place.map(|place| place.level.name()),
            copy: place.map(|place| place.copy),
            complete: fate.complete,
            bytes: fate.bytes,
            t1_unix_ns: fate.t1_unix_ns,
            goes: fate.goes(),
            stays_for: fate.reasons.iter().map(name).collect(),
        }
    }
}
