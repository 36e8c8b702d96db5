//! `mainstay hold` and `mainstay release`.

use crate::{
    arguments,
    document::{self, Key},
    exit::{Exit, Failure, say},
    output,
    space::{
        completing,
        holds::{expiry, in_words, no_room, taken, until},
        revision::missing,
    },
};
use mainstay_engine::{RevisionKey, SpaceSurvey, space::format::Hold, tend};

/// How often another newest revision is tried when a running job lets go of each.
const TRIES: usize = 10;

pub fn hold(wanted: &arguments::Hold) -> Result<Exit, Failure> {
    let expires = wanted.time.map_or(0, expiry);
    if wanted.dry_run {
        return would_hold(wanted, expires);
    }
    // What a killed job had staged counts as well, and may not be completed any more beside a hold.
    completing::first(&wanted.space.path)?;
    for _ in 0..TRIES {
        let survey = SpaceSurvey::open(&wanted.space.path)?;
        let key = chosen(&survey, wanted.revision)?;
        let holding = tend::hold(&wanted.space.path, key, &wanted.note, expires, wanted.wait)?;
        let Some((hold, counts)) = taken(&survey, key, holding)? else {
            if wanted.revision.is_none() {
                continue;
            }
            return Err(Failure::lost(format!(
                "revision {} was let go before the hold counted; nothing is held, choose a newer one",
                key.number
            )));
        };
        tell(wanted, &survey.path, &hold, counts)?;
        return Ok(Exit::Good);
    }
    Err(Failure::lost(
        "the job that has the space open let go of each revision before the hold counted; nothing is held, try again"
            .to_owned(),
    ))
}

/// Which revision would be held, and whether there is room for that. What a job at work will say is not known.
fn would_hold(wanted: &arguments::Hold, expires_unix_ns: u64) -> Result<Exit, Failure> {
    let survey = SpaceSurvey::open(&wanted.space.path)?;
    let key = chosen(&survey, wanted.revision)?;
    if !tend::has_room_for(&wanted.space.path, key)? {
        return Err(Failure::refused(no_room(&survey, key)));
    }
    let counts = !survey.is_at_work();
    if wanted.space.json {
        let (space, key) = (survey.path.as_str(), Key::of(key));
        output::json(&document::Held { space, dry_run: true, counts, hold: None, key })?;
    } else {
        let when = if counts { "" } else { ", from the next checkpoint of the job that has the space open on" };
        let (number, lineage, until) = (key.number, key.lineage.number, in_words(expires_unix_ns));
        output::text(&format!(
            "revision {number} (lineage {lineage}) would be held {until}{when}; nothing was changed\n"
        ))?;
    }
    Ok(Exit::Good)
}

fn chosen(survey: &SpaceSurvey, number: Option<u64>) -> Result<RevisionKey, Failure> {
    let revision = match number {
        Some(number) => survey.revision(number).ok_or_else(|| missing(survey, number))?,
        None => {
            let nothing = || Failure::lost(format!("no complete revision in {}", survey.path));
            survey.newest().ok_or_else(nothing)?
        }
    };
    if !revision.complete {
        return Err(Failure::lost(format!("revision {} is incomplete: it cannot be held", revision.key.number)));
    }
    Ok(revision.key)
}

fn tell(wanted: &arguments::Hold, path: &str, hold: &Hold, counts: bool) -> Result<(), Failure> {
    if wanted.space.json {
        let key = Key::of(RevisionKey { lineage: hold.lineage, number: hold.number });
        let hold = Some(document::Hold::of(hold));
        output::json(&document::Held { space: path, dry_run: false, counts, hold, key })?;
        return Ok(());
    }
    let until = until(hold);
    if counts {
        output::text(&format!("revision {} (lineage {}) is held {until}\n", hold.number, hold.lineage.number))?;
    } else {
        say(&format!(
            "revision {} (lineage {}) is to be held {until}: that counts from the job's next checkpoint, or its next \
             start, on; until then it may let the revision go (`mainstay ls` shows what became of it)",
            hold.number, hold.lineage.number
        ));
    }
    Ok(())
}

pub fn release(wanted: &arguments::Release) -> Result<Exit, Failure> {
    let released = match wanted.dry_run {
        false => tend::release(&wanted.space.path, wanted.revision)?,
        true => {
            let holds = SpaceSurvey::open(&wanted.space.path)?.holds.into_iter().map(|held| held.hold);
            holds.filter(|hold| wanted.revision.is_none_or(|number| hold.number == number)).collect()
        }
    };
    if let (Some(number), true) = (wanted.revision, released.is_empty()) {
        let survey = SpaceSurvey::open(&wanted.space.path)?;
        let held: Vec<String> = survey.holds.iter().map(|held| held.hold.number.to_string()).collect();
        let held = if held.is_empty() { "nothing is held".to_owned() } else { format!("held: {}", held.join(", ")) };
        return Err(Failure::lost(format!("nobody holds revision {number} in {}; {held}", survey.path)));
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
        output::text(&released.iter().map(line).collect::<String>())?;
    }
    Ok(Exit::Good)
}

fn quoted(note: &str) -> String {
    if note.is_empty() { String::new() } else { format!(" (it was held: {note})") }
}
