//! `mainstay reserve` and `mainstay grow`: room for checkpoints, before a job needs it.

mod report;

use crate::{
    arguments::{self, Placing, Sizes},
    exit::{Exit, Failure, say},
    given::text_of,
    progress,
    space::completing,
};
use mainstay_engine::{
    Choice, Config, SpaceSurvey, Value,
    device::{Allocate, Stripes},
    printable_path,
    tend::{self, Reservation, ShardSize},
};
use std::{ffi::OsStr, path::Path};

/// Size limit of a file with a list of sizes.
const LIST_BYTES_MAX: u64 = 64 << 20;

pub fn reserve(arguments::Reserve { room: wanted }: &arguments::Reserve) -> Result<Exit, Failure> {
    let config = settings(&wanted.placing)?;
    let ranks = || Err(Failure::usage("give the number of ranks: --ranks"));
    let Some(reservation) = sized(&wanted.sizes, config.keep, ranks)? else {
        return Err(Failure::usage("give the size of the shards: --per-rank, --like, --sizes or --sizes-from"));
    };
    let reservation = placed(reservation, &wanted.placing, &config);
    let path = &wanted.space.path;
    let reserved = match wanted.dry_run {
        true => tend::reservable(path, &reservation)?,
        false => with_bar(&reservation, |progress| tend::reserve(path, &reservation, progress))?,
    };
    report::tell(wanted, &reservation, &reserved)
}

pub fn grow(arguments::Grow { room: wanted }: &arguments::Grow) -> Result<Exit, Failure> {
    let config = settings(&wanted.placing)?;
    let path = &wanted.space.path;
    let survey = SpaceSurvey::open(path)?;
    tend::can_grow(path)?;
    let reservation = match (sized(&wanted.sizes, config.keep, || ranks_of(&survey))?, wanted.sizes.ranks) {
        (Some(reservation), _) => reservation,
        (None, Some(ranks)) => Reservation::as_before(path, ranks)?,
        (None, None) => {
            return Err(Failure::usage("give the value to grow: --ranks, --per-rank, --like, --sizes or --sizes-from"));
        }
    };
    if !wanted.dry_run {
        // Includes data that a killed job had staged: without it an old layout may seem empty.
        completing::first(path)?;
    }
    let reservation = placed(reservation, &wanted.placing, &config);
    tell_small(path, &reservation, config.keep);
    let reserved = match wanted.dry_run {
        true => tend::growable(path, &reservation)?,
        false => with_bar(&reservation, |progress| tend::grow(path, &reservation, progress))?,
    };
    report::tell(wanted, &reservation, &reserved)
}

/// Warns of a portion with less room than shards like the newest need. The state may have shrunk.
fn tell_small(path: &Path, wanted: &Reservation, keep: u32) {
    let Ok(newest) = ShardSize::like(path) else { return };
    let needed = Reservation::for_shards(&newest, keep).blocks;
    let is_small = |(wanted, needed): (&u64, &u64)| wanted < needed;
    if wanted.blocks.len() == needed.len()
        && let Some(rank) = wanted.blocks.iter().zip(&needed).position(is_small)
    {
        say(&format!(
            "rank {rank} gets less room than {} shards like its newest need: a job that keeps {keep} revisions of this size fails with PORTION_TOO_SMALL",
            keep + 2
        ));
    }
}

/// As many ranks as the newest layout has portions.
fn ranks_of(survey: &SpaceSurvey) -> Result<usize, Failure> {
    let newest = survey.layouts.last().map(|layout| &layout.header);
    let of_newest =
        survey.layouts.iter().filter(|layout| newest.is_some_and(|n| n.layout_id == layout.header.layout_id));
    let portions = of_newest.map(|layout| layout.header.portions.len()).sum();
    match newest {
        Some(header) if header.ranks as usize == portions => Ok(portions),
        _ => Err(Failure::usage(
            "not all portions of the newest layout are here: give the number of ranks, with --ranks",
        )),
    }
}

/// The settings of a job that starts here, with the options of this command on top.
fn settings(placing: &Placing) -> Result<Config, Failure> {
    let mut choice = Choice::default();
    let given = [
        ("keep", &placing.keep),
        ("per", &placing.per),
        ("allocate", &placing.allocate),
        ("stripe_count", &placing.stripe_count),
        ("stripe_bytes", &placing.stripe_size),
    ];
    for (key, value) in given {
        if let Some(value) = value {
            choice.set(key, Value::Word(OsStr::new(value)))?;
        }
    }
    Ok(Config::resolve(&choice)?.config)
}

fn placed(reservation: Reservation, placing: &Placing, config: &Config) -> Reservation {
    Reservation {
        per: config.per,
        ranks_per_node: placing.ranks_per_node,
        allocate: config.allocate,
        stripes: Stripes { count: config.stripe_count, bytes: config.stripe_bytes },
        ..reservation
    }
}

/// Room for the shards in `sizes`; `ranks` gives their number if `sizes` does not. `None` if `sizes` gives none.
fn sized(
    sizes: &Sizes,
    keep: u32,
    ranks: impl FnOnce() -> Result<usize, Failure>,
) -> Result<Option<Reservation>, Failure> {
    let list = match &sizes.sizes_from {
        Some(path) => Some(read_list(path)?),
        None => sizes.sizes.clone(),
    };
    let of = |bytes| ShardSize::of(bytes, sizes.pieces);
    let reservation = if let Some(bytes) = sizes.per_rank {
        Reservation::alike(&of(bytes)?, sizes.ranks.map_or_else(ranks, Ok)?, keep)
    } else if let Some(like) = &sizes.like {
        Reservation::for_shards(&ShardSize::like(like)?, keep)
    } else if let Some(list) = list {
        Reservation::for_shards(&list.into_iter().map(of).collect::<Result<Vec<_>, _>>()?, keep)
    } else {
        return Ok(None);
    };
    let there = reservation.ranks();
    match sizes.ranks {
        Some(ranks) if ranks != there => Err(Failure::usage(format!(
            "--ranks says {ranks}, and there are sizes for {there}: leave --ranks out, or make them equal"
        ))),
        _ => Ok(Some(reservation)),
    }
}

/// Parses sizes that are separated by white space or commas.
fn read_list(path: &Path) -> Result<Vec<u64>, Failure> {
    let failed = |why: String| Failure::usage(format!("{}: {why}", printable_path(path)));
    let text = text_of(path, LIST_BYTES_MAX).map_err(failed)?;
    let words = text.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty());
    words.map(arguments::size).collect::<Result<_, _>>().map_err(failed)
}

fn with_bar<T>(reservation: &Reservation, work: impl FnOnce(&dyn Fn(u64)) -> T) -> T {
    if reservation.allocate != Allocate::Zero {
        return work(&|_| ());
    }
    let bar = progress::of_bytes(reservation.bytes());
    bar.set_message("zeros");
    let done = work(&|bytes| bar.inc(bytes));
    bar.finish_and_clear();
    done
}
