//! `mainstay hold` and `mainstay release`.

use crate::{
    arguments,
    document::{self, Key, hex},
    exit::{Exit, Failure, say},
    output, salvage,
    show::missing,
    text::{self, Align},
};
use mainstay_engine::{
    HoldState, HoldSurvey, RevisionKey, SpaceSurvey,
    space::format::Hold,
    tend::{self, Holding},
    unix_ns,
};
use std::time::Duration;

/// How often another newest revision is tried when a running job lets go of each.
const TRIES: usize = 10;

pub fn hold(wanted: &arguments::Hold) -> Result<Exit, Failure> {
    let expires = wanted.time.map_or(0, expiry);
    if wanted.dry_run {
        return would_hold(wanted, expires);
    }
    // What a killed job had staged counts as well, and may not be completed any more beside a hold.
    salvage::first(&wanted.space.path)?;
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

/// The hold that was taken on the revision `key`, and whether it counts already; `None` if the revision was let go
/// before.
pub fn taken(survey: &SpaceSurvey, key: RevisionKey, holding: Holding) -> Result<Option<(Hold, bool)>, Failure> {
    match holding {
        Holding::Counts(hold) => Ok(Some((hold, true))),
        Holding::Pending(hold) => Ok(Some((hold, false))),
        Holding::Gone => Ok(None),
        Holding::NoRoom => Err(Failure::refused(no_room(survey, key))),
        Holding::NoPlace => Err(Failure::refused(format!(
            "{} has as many holds as it can have; release one first (`mainstay ls` lists them)",
            survey.path
        ))),
    }
}

/// When a hold of so long a time ends, in nanoseconds since 1970.
pub fn expiry(time: Duration) -> u64 {
    unix_ns().saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
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

pub fn no_room(survey: &SpaceSurvey, key: RevisionKey) -> String {
    let held: Vec<String> = survey.holds.iter().map(|held| held.hold.number.to_string()).collect();
    let way_out = match held.is_empty() {
        true => String::new(),
        false => format!("release another (held: {}), ", held.join(", ")),
    };
    format!(
        "with revision {} held there would be no room for the job's next checkpoint in {}; {way_out}copy it out with \
         `mainstay export`, or, with no job at work, `mainstay grow` the space (what was released counts until the job's \
         next checkpoint: try again then)",
        key.number, survey.path
    )
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
            "revision {} (lineage {}) is to be held {until}: that counts from the next checkpoint of the job that has \
             the space open; until then it may let the revision go (`mainstay ls` shows what became of it)",
            hold.number, hold.lineage.number
        ));
    }
    Ok(())
}

/// How long it is to last, in words.
pub fn until(hold: &Hold) -> String {
    in_words(hold.expires_unix_ns)
}

fn in_words(expires_unix_ns: u64) -> String {
    match expires_unix_ns {
        0 => "until it is released".to_owned(),
        ns => format!("until {} (UTC)", text::when(ns)),
    }
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

/// The table of all holds; nothing without any.
pub fn table(holds: &[HoldSurvey]) -> String {
    if holds.is_empty() {
        return String::new();
    }
    let columns = [
        ("held", Align::Right),
        ("lineage", Align::Right),
        ("since (UTC)", Align::Left),
        ("until (UTC)", Align::Left),
        ("counts", Align::Left),
        ("note", Align::Left),
    ];
    let row = |held: &HoldSurvey| {
        let hold = &held.hold;
        vec![
            hold.number.to_string(),
            hold.lineage.number.to_string(),
            text::when(hold.created_unix_ns),
            if hold.expires_unix_ns == 0 { "released".to_owned() } else { text::when(hold.expires_unix_ns) },
            words(held.state).to_owned(),
            hold.note.clone(),
        ]
    };
    format!("\n{}", text::table(&columns, holds.iter().map(row)))
}

fn words(state: HoldState) -> &'static str {
    match state {
        HoldState::Counts => "yes",
        HoldState::Pending => "from the job's next checkpoint on",
        HoldState::Gone => "no, the revision is not there any more",
        HoldState::NoRoom => "no, there is no room for it",
        HoldState::Expired => "no, its time is over",
    }
}

impl document::Hold {
    pub fn of(hold: &Hold) -> document::Hold {
        document::Hold {
            id: hex(&hold.id),
            key: Key::of(RevisionKey { lineage: hold.lineage, number: hold.number }),
            created_unix_ns: hold.created_unix_ns,
            expires_unix_ns: Some(hold.expires_unix_ns).filter(|ns| *ns > 0),
            note: hold.note.clone(),
        }
    }
}

impl document::ListedHold {
    pub fn of(held: &HoldSurvey) -> document::ListedHold {
        let state = match held.state {
            HoldState::Counts => "counts",
            HoldState::Pending => "pending",
            HoldState::Gone => "gone",
            HoldState::NoRoom => "no_room",
            HoldState::Expired => "expired",
        };
        document::ListedHold { hold: document::Hold::of(&held.hold), state }
    }
}
