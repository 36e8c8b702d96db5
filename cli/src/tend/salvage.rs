//! `mainstay salvage`: completes the staged data of killed jobs.

use crate::{
    arguments,
    document::{self, Incomplete, Key, Missing, PoolLeft, SalvagedShard},
    exit::{Exit, Failure},
    files, output,
    space::completing::pool_directory,
    text::count,
    text::{self, Align},
};
use mainstay_engine::{
    printable_path,
    tend::{self, SalvageFate, Salvaged},
};

pub fn salvage(wanted: &arguments::Salvage) -> Result<Exit, Failure> {
    if let Some(folder) = wanted.space.as_deref().filter(|_| !wanted.dry_run)
        && let Some(page) = files::salvage(folder)?
    {
        output::text(&page)?;
        // Files of unchanged programs, and no space.
        if mainstay_files::list(folder).is_ok_and(|files| !files.is_empty()) {
            return Ok(Exit::Good);
        }
    }
    let directory = match &wanted.pool_directory {
        Some(directory) => directory.clone(),
        None => pool_directory()?,
    };
    // A call without a space only lists, and writes nothing.
    let dry_run = wanted.dry_run || (wanted.space.is_none() && !wanted.all);
    let go_over = if dry_run { tend::salvageable } else { tend::salvage };
    let salvaged = go_over(&directory, wanted.space.as_deref(), wanted.clean)?;
    if wanted.json {
        let shards = salvaged.shards.iter().map(|shard| SalvagedShard::of(shard, dry_run)).collect();
        let pool_directory = directory.to_string_lossy().into_owned();
        output::json(&document::Salvage {
            pool_directory,
            dry_run,
            shards,
            incomplete: salvaged.incomplete.iter().map(Incomplete::of).collect(),
            pools_removed: salvaged.removed,
            pools_left: salvaged.left.len(),
            left: salvaged.left.iter().map(PoolLeft::of).collect(),
        })?;
    } else {
        output::text(&page(&salvaged, dry_run))?;
        if dry_run && !salvaged.shards.is_empty() | (salvaged.removed > 0) {
            output::text(&how_to(wanted))?;
        }
    }
    Ok(if dry_run { Exit::Good } else { exit(&salvaged) })
}

fn how_to(wanted: &arguments::Salvage) -> String {
    let of = wanted.space.as_ref().map_or("--all".to_owned(), |space| printable_path(space));
    let clean = if wanted.clean { " --clean" } else { "" };
    format!("nothing was changed: mainstay salvage {of}{clean}\n")
}

fn page(salvaged: &Salvaged, dry_run: bool) -> String {
    let columns = [
        ("revision", Align::Right),
        ("lineage", Align::Right),
        ("shard", Align::Right),
        ("space", Align::Left),
        (if dry_run { "outcome of a salvage" } else { "outcome" }, Align::Left),
    ];
    let rows = salvaged.shards.iter().map(|shard| {
        vec![
            shard.key.number.to_string(),
            shard.key.lineage.number.to_string(),
            shard.shard.to_string(),
            printable_path(&shard.space),
            words(&shard.fate, dry_run),
        ]
    });
    let table = if salvaged.shards.is_empty() { String::new() } else { text::table(&columns, rows) + "\n" };
    let incomplete: String = salvaged.incomplete.iter().map(lack).collect();
    let left: String =
        salvaged.left.iter().map(|left| format!("left: {}: {}\n", printable_path(&left.pool), left.why)).collect();
    let count = match salvaged.left.len() {
        0 => String::new(),
        count => format!("; {} left", pools(count)),
    };
    let removed = if dry_run { "would be removed" } else { "removed" };
    format!("{table}{incomplete}{left}{} {removed}{count}\n", pools(salvaged.removed))
}

fn lack(revision: &tend::Incomplete) -> String {
    let missing: Vec<String> = revision
        .missing
        .iter()
        .map(|missing| match missing.len() {
            1 => missing.start.to_string(),
            _ => format!("{} to {}", missing.start, missing.end - 1),
        })
        .collect();
    format!(
        "revision {} of lineage {} in {} is still incomplete: of {} these are missing: {}; if another node staged them, salvage there\n",
        revision.key.number,
        revision.key.lineage.number,
        printable_path(&revision.space),
        count(revision.shard_count.into(), "shard"),
        missing.join(", ")
    )
}

fn pools(number: usize) -> String {
    count(number as u64, "pool")
}

fn words(fate: &SalvageFate, dry_run: bool) -> String {
    match fate {
        SalvageFate::Completed if dry_run => "can be completed".to_owned(),
        SalvageFate::Completed => "completed".to_owned(),
        SalvageFate::WasComplete => "was complete".to_owned(),
        SalvageFate::Lost(why) => format!("lost: {why}"),
        SalvageFate::SpaceGone => "left: its space is missing".to_owned(),
        SalvageFate::InUse => "left: a job has the space open".to_owned(),
        SalvageFate::Failed(why) => format!("left: {why}"),
    }
}

fn exit(salvaged: &Salvaged) -> Exit {
    let is = |wanted: fn(&SalvageFate) -> bool| salvaged.shards.iter().any(|shard| wanted(&shard.fate));
    if is(|fate| matches!(fate, SalvageFate::Failed(_) | SalvageFate::InUse)) {
        Exit::System
    } else if is(|fate| matches!(fate, SalvageFate::Lost(_)))
        || !salvaged.incomplete.is_empty()
        || salvaged.left.iter().any(|left| left.damaged)
    {
        Exit::Lost
    } else {
        Exit::Good
    }
}

impl Incomplete {
    fn of(revision: &tend::Incomplete) -> Incomplete {
        let missing = revision.missing.iter().map(|missing| Missing { from: missing.start, below: missing.end });
        Incomplete {
            space: revision.space.to_string_lossy().into_owned(),
            key: Key::of(revision.key),
            shards: revision.shard_count,
            missing: missing.collect(),
        }
    }
}

impl PoolLeft {
    fn of(left: &tend::PoolLeft) -> PoolLeft {
        PoolLeft { pool: left.pool.to_string_lossy().into_owned(), why: left.why.clone() }
    }
}

impl SalvagedShard {
    fn of(shard: &tend::SalvagedShard, dry_run: bool) -> SalvagedShard {
        let (fate, why) = match &shard.fate {
            SalvageFate::Completed if dry_run => ("completable", None),
            SalvageFate::Completed => ("completed", None),
            SalvageFate::WasComplete => ("was_complete", None),
            SalvageFate::Lost(why) => ("lost", Some(why.clone())),
            SalvageFate::SpaceGone => ("space_gone", None),
            SalvageFate::InUse => ("in_use", None),
            SalvageFate::Failed(why) => ("failed", Some(why.clone())),
        };
        SalvagedShard {
            space: shard.space.to_string_lossy().into_owned(),
            key: Key::of(shard.key),
            shard: shard.shard,
            fate,
            why,
        }
    }
}
