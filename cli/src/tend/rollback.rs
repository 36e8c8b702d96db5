//! `mainstay rollback`: goes back to a revision for good, on all levels.

use super::prune::{page, refused_because, revisions};
use crate::{
    arguments, consent, document,
    exit::{Exit, Failure, say},
    output, progress,
    space::{completing, revision::complete},
};
use mainstay_engine::{
    LevelKind, Place, Places, RevisionKey, SpaceSurvey, printable,
    space::format::Hold,
    tend::{self, Fate, Pruned, RolledBack, Unseen},
};

pub fn rollback(wanted: &arguments::Rollback) -> Result<Exit, Failure> {
    let places = of(wanted)?;
    // Staged data of a killed job may be newer, and would come back.
    let gone_over = completing::in_all(&places, wanted.dry_run)?;
    let survey = SpaceSurvey::open_all(&wanted.space.path)?;
    survey.damage.iter().for_each(|what| say(what));
    let not_here = survey.not_here();
    if !not_here.is_empty() {
        return Err(Failure::refused(format!(
            "{}: nothing was changed, because newer revisions may be out of sight; bring it here first, or let the program go back itself (mainstay_restore_revision)",
            not_here.join("; ")
        )));
    }
    let to = complete(&survey, wanted.revision)?.key;
    let unseen: Vec<Unseen<'_>> = match wanted.give_up_staged {
        true => vec![Unseen::GivenUp; places.len()],
        false => vec![Unseen::Waits(&gone_over); places.len()],
    };
    let told = |dry_run, done: &[Pruned]| tell(wanted, dry_run, to, &survey.path, &places, done);
    if wanted.dry_run || consent::is_asked(wanted.yes) {
        let would = would_go(&places, &unseen, to)?;
        let goes = would.iter().any(|pruned| pruned.fates.iter().any(Fate::goes));
        if wanted.dry_run || goes {
            told(true, &would)?;
        }
        if wanted.dry_run {
            return Ok(Exit::Good);
        }
        if goes {
            consent::ask("Remove the newer ones for good?")?;
        }
    }
    let done = carry_out(&places, &unseen, to)?;
    told(false, &done)?;
    Ok(Exit::Good)
}

/// The places of the space's revisions, farthest first; all of them must be in sight.
fn of(wanted: &arguments::Rollback) -> Result<Vec<Place>, Failure> {
    let Places { all, unseen } = Places::of(&wanted.space.path);
    if let [first, ..] = &unseen[..] {
        return Err(Failure::refused(format!("not every level is in sight: {first}; nothing was changed")));
    }
    // A level that was opened and has no revision yet is no space.
    let is_one = |place: &Place| match SpaceSurvey::open(&place.directory) {
        Err(mainstay_engine::Error::NotASpace { .. }) => place.level == LevelKind::Pfs,
        _ => true,
    };
    Ok(all.into_iter().rev().filter(is_one).collect())
}

fn carry_out(places: &[Place], unseen: &[Unseen<'_>], to: RevisionKey) -> Result<Vec<Pruned>, Failure> {
    let directories: Vec<_> =
        places.iter().zip(unseen).map(|(place, unseen)| (place.directory.as_path(), *unseen)).collect();
    let portions = places.iter().filter_map(|place| SpaceSurvey::open(&place.directory).ok());
    let bar = progress::of_count(portions.map(|survey| survey.portions.len() as u64).sum());
    bar.set_message("portions");
    let done = tend::rollback(&directories, to, &|portions| bar.inc(portions));
    bar.finish_and_clear();
    match done? {
        RolledBack::Done(done) => Ok(done),
        RolledBack::Held(held) => Err(is_held(&held)),
    }
}

fn would_go(places: &[Place], unseen: &[Unseen<'_>], to: RevisionKey) -> Result<Vec<Pruned>, Failure> {
    let (mut done, mut held, mut is_refused) = (Vec::new(), Vec::new(), false);
    for (place, unseen) in places.iter().zip(unseen) {
        let survey = SpaceSurvey::open(&place.directory)?;
        // One place that refuses is enough to refuse all.
        if !is_refused && let Some(why) = refused_because(&survey, unseen) {
            say(&why);
            is_refused = true;
        }
        held.extend(tend::held_after(&survey, to));
        done.push(Pruned { fates: tend::after(&survey, to), layouts_removed: Vec::new() });
    }
    if held.is_empty() { Ok(done) } else { Err(is_held(&held)) }
}

fn is_held(held: &[Hold]) -> Failure {
    let mut numbers: Vec<u64> = held.iter().map(|hold| hold.number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let (first, all) = (numbers[0], numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", "));
    Failure::refused(format!(
        "newer revisions are held: {all}; nothing was changed; `mainstay release SPACE --revision {first}` ends a hold"
    ))
}

fn tell(
    wanted: &arguments::Rollback,
    dry_run: bool,
    to: RevisionKey,
    path: &str,
    places: &[Place],
    done: &[Pruned],
) -> Result<(), Failure> {
    let several = places.len() > 1;
    // Nearest first, as everywhere.
    let all = || places.iter().zip(done).rev();
    if wanted.space.json {
        let of_place = |(place, done): (&Place, &Pruned)| revisions(&done.fates, several.then_some(place));
        output::json(&document::Prune {
            space: path,
            dry_run,
            revisions: all().flat_map(of_place).collect(),
            layouts_removed: all().flat_map(|(_, done)| done.layouts_removed.iter().cloned()).collect(),
        })?;
        return Ok(());
    }
    let mut told = String::new();
    for (place, done) in all() {
        if several {
            let line = if told.is_empty() { "" } else { "\n" };
            told += &format!("{line}{place}: {}\n", printable(&place.directory.to_string_lossy()));
        }
        told += &page(dry_run, &done.fates);
    }
    let is = if dry_run { "would be" } else { "is" };
    let gone = done.iter().any(|done| done.fates.iter().any(Fate::goes));
    let what = if gone { "" } else { ", as before" };
    Ok(output::text(&format!("{told}\nrevision {} {is} the newest{what}\n", to.number))?)
}
