//! Holds: how to take one, and how to print them.

use crate::{
    document::{self, Key, hex},
    exit::Failure,
    text::{self, Align},
    time,
};
use mainstay_engine::{
    HoldState, HoldSurvey, LevelKind, Place, RevisionKey, SpaceSurvey, space::format::Hold, tend::Holding, unix_ns,
};
use std::{collections::BTreeSet, time::Duration};

/// The hold on the revision `key` in `place`, with its survey `survey`, and whether it counts already. `None` if the
/// revision was removed before.
pub fn taken(
    survey: &SpaceSurvey,
    place: Option<&Place>,
    key: RevisionKey,
    holding: Holding,
) -> Result<Option<(Hold, bool)>, Failure> {
    match holding {
        Holding::Counts(hold) => Ok(Some((hold, true))),
        Holding::Pending(hold) => Ok(Some((hold, false))),
        Holding::Gone => Ok(None),
        Holding::NoRoom => Err(Failure::refused(no_room(survey, place, key))),
        Holding::NoPlace => Err(Failure::refused(format!(
            "{} has its largest number of holds; release one first (`mainstay ls` lists them)",
            survey.path
        ))),
    }
}

/// End of a hold of this length, in nanoseconds since 1970.
pub fn expiry(time: Duration) -> u64 {
    unix_ns().saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// The message that `place`, with its survey `survey`, has no room; or the space, if no other level is in sight.
pub fn no_room(survey: &SpaceSurvey, place: Option<&Place>, key: RevisionKey) -> String {
    let mut ways = Vec::new();
    if !survey.holds.is_empty() {
        ways.push(format!("release another (held: {})", held_numbers(survey)));
    }
    ways.push("copy it out with `mainstay export`".to_owned());
    // A memory level is lost with its job, and the next one is made without the added room.
    let level = place.map_or(LevelKind::Pfs, |place| place.level);
    if level != LevelKind::Memory {
        let path = &survey.path;
        let keep = if level == LevelKind::Disk { "disk_keep" } else { "keep" };
        ways.push(format!(
            "make room, with no job at work, by `mainstay grow {path} --like {path} --keep K` with a K above the job's `{keep}`"
        ));
    }
    format!(
        "with revision {} held the job's next checkpoint would have no room in {}; {} (released revisions count until the job's next checkpoint: try again then)",
        key.number,
        survey.path,
        ways.join(", or ")
    )
}

/// The held revisions, each once, whatever the number of holds and levels.
pub fn held_numbers(survey: &SpaceSurvey) -> String {
    let held: BTreeSet<u64> = survey.holds.iter().map(|held| held.hold.number).collect();
    held.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

/// The length of a hold, in words.
pub fn until(hold: &Hold) -> String {
    in_words(hold.expires_unix_ns)
}

pub fn in_words(expires_unix_ns: u64) -> String {
    match expires_unix_ns {
        0 => "until it is released".to_owned(),
        ns => format!("until {}", time::when_and_where(ns)),
    }
}

/// The table of all holds; empty without holds.
pub fn table(holds: &[HoldSurvey]) -> String {
    if holds.is_empty() {
        return String::new();
    }
    let [since, until] = ["since", "until"].map(time::column);
    let columns = [
        ("held", Align::Right),
        ("lineage", Align::Right),
        (&since, Align::Left),
        (&until, Align::Left),
        ("counts", Align::Left),
        ("note", Align::Left),
    ];
    let row = |held: &HoldSurvey| {
        let hold = &held.hold;
        vec![
            hold.number.to_string(),
            hold.lineage.number.to_string(),
            time::when(hold.created_unix_ns),
            if hold.expires_unix_ns == 0 { "released".to_owned() } else { time::when(hold.expires_unix_ns) },
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
        HoldState::Gone => "no, the revision is gone",
        HoldState::NoRoom => "no, there is no room for it",
        HoldState::Expired => "no, its time has ended",
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
