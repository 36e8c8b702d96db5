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
    SpaceSurvey, printable,
    tend::{self, Fate, Pruned, Reason, Rules, Unseen},
    unix_ns,
};
use std::time::Duration;

pub fn prune(wanted: &arguments::Prune) -> Result<Exit, Failure> {
    let rules = Rules {
        keep_last: wanted.keep_last,
        keep_every: wanted.keep_every,
        older_than_unix_ns: wanted.older_than.map(ago),
    };
    let path = &wanted.space.path;
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
    let Pruned { fates, layouts_removed } = if wanted.dry_run {
        tend::prunable(&survey, &rules)
    } else {
        let bar = progress::of_count(survey.portions.len() as u64);
        bar.set_message("portions");
        let pruned = tend::prune(path, &rules, unseen, &|portions| bar.inc(portions));
        bar.finish_and_clear();
        pruned?
    };
    if wanted.space.json {
        let revisions = fates.iter().map(PrunedRevision::of).collect();
        let (space, dry_run) = (survey.path.as_str(), wanted.dry_run);
        output::json(&document::Prune { space, dry_run, revisions, layouts_removed })?;
    } else {
        let page = if fates.is_empty() { "no revision\n".to_owned() } else { page(wanted.dry_run, &fates) };
        let is = if wanted.dry_run { "would be empty and" } else { "was empty and is" };
        let removed = layouts_removed.iter().map(|file| format!("{} {is} removed\n", printable(file)));
        output::text(&(staged::lines(&staged) + &removed.collect::<String>() + &page))?;
    }
    Ok(Exit::Good)
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

fn page(dry_run: bool, fates: &[Fate]) -> String {
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
    }
}

impl PrunedRevision {
    fn of(fate: &Fate) -> PrunedRevision {
        let name = |reason: &Reason| match reason {
            Reason::Newest => "newest",
            Reason::Held => "held",
            Reason::Last => "keep_last",
            Reason::Every => "keep_every",
            Reason::Young => "not_older",
            Reason::Unfinished => "unfinished",
        };
        PrunedRevision {
            key: Key::of(fate.key),
            complete: fate.complete,
            bytes: fate.bytes,
            t1_unix_ns: fate.t1_unix_ns,
            goes: fate.goes(),
            stays_for: fate.reasons.iter().map(name).collect(),
        }
    }
}
