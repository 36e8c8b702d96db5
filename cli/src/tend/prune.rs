//! `mainstay prune`: lets go of revisions that nobody wants.

use crate::{
    arguments,
    document::{self, Key, PrunedRevision},
    exit::{Exit, Failure, say},
    output, progress,
    space::{completing, staged},
    text::{self, Align},
};
use mainstay_engine::{
    LevelKind, Place, Places, SpaceSurvey, printable,
    tend::{self, Fate, Pruned, Reason, Rules, Unseen},
    unix_ns,
};
use std::{path::Path, time::Duration};

pub fn prune(wanted: &arguments::Prune) -> Result<Exit, Failure> {
    let places = Places::of(&wanted.space.path);
    places.unseen.iter().for_each(|what| say(what));
    let several = places.all.len() > 1;
    let mut pruned = Vec::new();
    // The space itself first: if it is refused, so is all.
    for place in places.all.into_iter().rev() {
        match prune_in(wanted, &place.directory) {
            Ok(done) => pruned.push((place, done)),
            // It was opened, and nothing was saved there yet.
            Err(failure) if place.level != LevelKind::Pfs && failure.exit == Exit::NotASpace => {}
            Err(failure) if several => {
                let done: Vec<String> = pruned.iter().map(|(place, _)| place.to_string()).collect();
                let done = if done.is_empty() { String::new() } else { format!(" (done: {})", done.join("; ")) };
                let message = format!("the level {place}: {}{done}", failure.message);
                return Err(Failure { message, ..failure });
            }
            Err(failure) => return Err(failure),
        }
    }
    pruned.reverse();
    tell(wanted, several, &pruned)?;
    Ok(Exit::Good)
}

/// What there is to tell of one place: what a killed job had staged, which is completed first, and what went.
struct Done {
    path: String,
    staged: Vec<document::Staged>,
    pruned: Pruned,
}

fn prune_in(wanted: &arguments::Prune, path: &Path) -> Result<Done, Failure> {
    let rules = Rules {
        keep_last: wanted.keep_last,
        keep_every: wanted.keep_every,
        older_than_unix_ns: wanted.older_than.map(ago),
    };
    // What a killed job had staged counts as well, and could not be completed any more afterwards.
    let gone_over = if wanted.dry_run { completing::would_go_over(path) } else { completing::first(path)? };
    let unseen = if wanted.give_up_staged { Unseen::GivenUp } else { Unseen::Waits(&gone_over) };
    let survey = SpaceSurvey::open(path)?;
    survey.damage.iter().for_each(|what| say(what));
    let staged = if wanted.dry_run { staged::of(&survey, path) } else { Vec::new() };
    if wanted.dry_run
        && !survey.is_at_work()
        && let Err(error) = unseen.check(&survey)
    {
        say(&error.to_string());
    }
    let pruned = if wanted.dry_run {
        tend::prunable(&survey, &rules)
    } else {
        let bar = progress::of_count(survey.portions.len() as u64);
        bar.set_message("portions");
        let pruned = tend::prune(path, &rules, unseen, &|portions| bar.inc(portions));
        bar.finish_and_clear();
        pruned?
    };
    Ok(Done { path: survey.path, staged, pruned })
}

fn tell(wanted: &arguments::Prune, several: bool, done: &[(Place, Done)]) -> Result<(), Failure> {
    let Some((_, of_space)) = done.last() else { return Ok(()) };
    if wanted.space.json {
        let of_place = |(place, done): &(Place, Done)| revisions(&done.pruned.fates, several.then_some(place));
        let layouts_removed = done.iter().flat_map(|(_, done)| done.pruned.layouts_removed.iter().cloned());
        output::json(&document::Prune {
            space: &of_space.path,
            dry_run: wanted.dry_run,
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
        let page = page(wanted.dry_run, fates);
        let is = if wanted.dry_run { "would be empty and" } else { "was empty and is" };
        let removed = layouts_removed.iter().map(|file| format!("{} {is} removed\n", printable(file)));
        told += &(staged::lines(staged) + &removed.collect::<String>() + &page);
    }
    Ok(output::text(&told)?)
}

fn ago(age: Duration) -> u64 {
    unix_ns().saturating_sub(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX))
}

fn table(fates: &[Fate]) -> String {
    let columns = [
        ("revision", Align::Right),
        ("lineage", Align::Right),
        ("size", Align::Right),
        ("saved (UTC)", Align::Left),
        ("what becomes of it", Align::Left),
    ];
    let row = |fate: &Fate| {
        let reasons: Vec<&str> = fate.reasons.iter().map(|reason| words(*reason)).collect();
        let what = match (fate.goes(), fate.complete) {
            (true, true) => "goes".to_owned(),
            (true, false) => "goes (incomplete)".to_owned(),
            (false, _) => format!("stays: {}", reasons.join(", ")),
        };
        vec![
            fate.key.number.to_string(),
            fate.key.lineage.number.to_string(),
            text::bytes(fate.bytes),
            text::when(fate.t1_unix_ns),
            what,
        ]
    };
    text::table(&columns, fates.iter().map(row))
}

/// What becomes of the revisions of one place.
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
        Reason::Every => "one of every so many",
        Reason::Young => "not so old",
        Reason::Unfinished => "incomplete, and newer than any that is complete",
        Reason::NotNewer => "not newer",
    }
}

/// The same for machines. `place`: where the space has other levels in sight.
pub(super) fn revisions(fates: &[Fate], place: Option<&Place>) -> Vec<PrunedRevision> {
    fates.iter().map(|fate| PrunedRevision::of(fate, place)).collect()
}

impl PrunedRevision {
    /// `place`: where the space has other levels in sight.
    fn of(fate: &Fate, place: Option<&Place>) -> PrunedRevision {
        let name = |reason: &Reason| match reason {
            Reason::Newest => "newest",
            Reason::Held => "held",
            Reason::Last => "keep_last",
            Reason::Every => "keep_every",
            Reason::Young => "not_older",
            Reason::Unfinished => "unfinished",
            Reason::NotNewer => "not_newer",
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
