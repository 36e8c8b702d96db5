//! `mainstay copy`: copies revisions to another space, on another file system.

use crate::{
    arguments,
    document::{self, CopiedRevision, Key},
    exit::{Exit, Failure, say},
    output, progress,
    space::{revision::numbers, staged},
    text::{self, Align},
    time,
};
use mainstay_engine::{
    SpaceSurvey, printable_path,
    transfer::{Became, Copied, Planned, Transfer},
};

pub fn copy(wanted: &arguments::Copy) -> Result<Exit, Failure> {
    let numbers = numbers(&wanted.space.path, &wanted.revisions)?;
    let transfer = Transfer::begin(&wanted.space.path, &wanted.other, &numbers)?;
    if wanted.revisions.is_empty() {
        transfer.damage().iter().for_each(|what| say(what));
        tell_staged(wanted)?;
    }
    if wanted.dry_run {
        let would = transfer.revisions().iter().map(CopiedRevision::planned).collect();
        return tell(wanted, would).map(|()| Exit::Good);
    }
    let bar = progress::of_bytes(transfer.bytes());
    bar.set_message(count(transfer.revisions().len()));
    let copied = transfer.carry_out(&|bytes| bar.inc(bytes));
    bar.finish_and_clear();
    let copied = copied?;
    for Copied { revision, became, elsewhere } in &copied {
        elsewhere.iter().for_each(|what| say(what));
        if let Became::Lost(why) | Became::Gone(why) = became {
            say(&format!("revision {} is not copied: {why}", revision.key.number));
        }
    }
    // A revision that a job removed is an error only if the user named it.
    let is_missing = |copied: &Copied| match copied.became {
        Became::Lost(_) => true,
        Became::Gone(_) => !wanted.revisions.is_empty(),
        Became::Copied | Became::WasThere => false,
    };
    let is_gone = |copied: &Copied| matches!(copied.became, Became::Gone(_));
    let is_lost = copied.iter().any(is_missing) || copied.iter().all(is_gone);
    tell(wanted, copied.into_iter().map(CopiedRevision::of).collect())?;
    Ok(if is_lost { Exit::Lost } else { Exit::Good })
}

/// Staged data of a killed job is not yet part of the space: it is not copied.
fn tell_staged(wanted: &arguments::Copy) -> Result<(), Failure> {
    let survey = SpaceSurvey::open(&wanted.space.path)?;
    staged::lines(&staged::of(&survey, &wanted.space.path)).lines().for_each(say);
    Ok(())
}

fn tell(wanted: &arguments::Copy, mut revisions: Vec<CopiedRevision>) -> Result<(), Failure> {
    // Newest first, as everywhere.
    revisions.reverse();
    if wanted.space.json {
        output::json(&document::Copy {
            space: wanted.space.path.to_string_lossy().into_owned(),
            other: wanted.other.to_string_lossy().into_owned(),
            dry_run: wanted.dry_run,
            revisions,
        })?;
        return Ok(());
    }
    let new: Vec<&CopiedRevision> = revisions.iter().filter(|revision| revision.state == COPIED).collect();
    let (copied, bytes) = (count(new.len()), new.iter().map(|revision| revision.bytes).sum());
    let how = if wanted.dry_run { "would be copied, to" } else { "copied and verified, in" };
    let line = format!("{copied}, {}, {how} {}\n", text::bytes(bytes), printable_path(&wanted.other));
    Ok(output::text(&(table(wanted.dry_run, &revisions) + "\n" + &line))?)
}

fn table(dry_run: bool, revisions: &[CopiedRevision]) -> String {
    let saved = time::column("saved");
    let columns = [
        ("revision", Align::Right),
        ("lineage", Align::Right),
        ("size", Align::Right),
        (&saved, Align::Left),
        ("outcome", Align::Left),
    ];
    let row = |revision: &CopiedRevision| {
        let what = match revision.state {
            COPIED if dry_run => "would be copied",
            COPIED => "copied",
            THERE => "was there already",
            LOST => "not copied: damaged",
            _ => "not copied: its job removed it",
        };
        vec![
            revision.key.revision.to_string(),
            revision.key.lineage.to_string(),
            text::bytes(revision.bytes),
            time::when(revision.t1_unix_ns),
            what.to_owned(),
        ]
    };
    text::table(&columns, revisions.iter().map(row))
}

fn count(revisions: usize) -> String {
    text::count(revisions as u64, "revision")
}

const COPIED: &str = "copied";
const THERE: &str = "was_there";
const LOST: &str = "lost";
const GONE: &str = "gone";

impl CopiedRevision {
    fn planned(revision: &Planned) -> CopiedRevision {
        let became = if revision.is_there { Became::WasThere } else { Became::Copied };
        CopiedRevision::of(Copied { revision: revision.clone(), became, elsewhere: Vec::new() })
    }

    fn of(copied: Copied) -> CopiedRevision {
        let (state, why) = match copied.became {
            Became::Copied => (COPIED, None),
            Became::WasThere => (THERE, None),
            Became::Lost(why) => (LOST, Some(why)),
            Became::Gone(why) => (GONE, Some(why)),
        };
        let Planned { key, shard_count, bytes, t1_unix_ns, .. } = copied.revision;
        let (key, shards, elsewhere) = (Key::of(key), shard_count, copied.elsewhere);
        CopiedRevision { key, shards, bytes, t1_unix_ns, state, why, elsewhere }
    }
}
