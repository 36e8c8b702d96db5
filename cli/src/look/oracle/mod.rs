//! `mainstay oracle`: the gain of saving pages early in a recorded run.

mod plot;

use crate::{
    arguments,
    document::{Predicted, Replayed, Trace},
    exit::{Exit, Failure},
    output,
    text::{self, Align},
};
use mainstay_engine::predict::{Ends, Kind, Outcome, Reader, Replay, Speed};
use std::{
    fs::{self, File},
    io::{self, BufReader},
    path::{Path, PathBuf},
};

const PAGE_BYTES: u64 = 4096;
const BUFFER_BYTES: usize = 1 << 20;
const SHARE: f64 = 0.25;

pub fn oracle(wanted: &arguments::Oracle) -> Result<Exit, Failure> {
    let mut files = Vec::new();
    for given in &wanted.traces {
        files.extend(files_of(given)?);
    }
    let traces = files.iter().map(|path| replayed(wanted, path)).collect::<Result<_, _>>()?;
    let replayed = Replayed { traces };
    if let Some(path) = &wanted.plot {
        plot::draw(&replayed, path)?;
    }
    match wanted.json {
        true => output::json(&replayed)?,
        false => output::text(&page(&replayed))?,
    }
    Ok(Exit::Good)
}

/// The traces of a directory, as `mainstay trace` makes them, or the named file.
fn files_of(given: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !given.is_dir() {
        return Ok(vec![given.to_owned()]);
    }
    let name = mainstay_engine::printable_path(given);
    let failed = |e: io::Error| Failure::refused(format!("listing {name} failed: {e}"));
    let entries = fs::read_dir(given).and_then(Iterator::collect::<io::Result<Vec<_>>>).map_err(failed)?;
    let is_trace = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "trace");
    let mut files: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).filter(is_trace).collect();
    if files.is_empty() {
        return Err(Failure::usage(format!(
            "{name} has no trace: give the directory that `mainstay trace` wrote, or a file"
        )));
    }
    // Sort by rank, not by the digits of its number.
    files.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
    Ok(files)
}

fn replayed(wanted: &arguments::Oracle, path: &Path) -> Result<Trace, Failure> {
    let name = mainstay_engine::printable_path(path);
    let file = File::open(path).map_err(|e| Failure::refused(format!("opening {name} failed: {e}")))?;
    let ticks = wanted.ticks.map(|ticks| ticks as usize);
    let ends = Ends { iterations: wanted.iterations as usize, inside: wanted.inside, ticks };
    let kinds = Kind::ALL.map(|(kind, _)| kind);
    let mut replay = Replay::new(ends, writer(wanted), wanted.learn as usize, &kinds, wanted.infrequent)?;
    for record in Reader::new(BufReader::with_capacity(BUFFER_BYTES, file), &name) {
        replay.record(&record?)?;
    }
    if replay.counted() == 0 {
        return Err(Failure::lost(format!(
            "{name} is too short: it has no interval of {} iterations after {} to learn from; give fewer to --iterations or \
             --learn",
            wanted.iterations, wanted.learn
        )));
    }
    let intervals = replay.counted() as u64;
    let predictors = replay.outcomes().map(|(kind, outcome)| predicted(wanted, intervals, kind, outcome)).collect();
    Ok(Trace { trace: name, intervals, predictors })
}

fn writer(wanted: &arguments::Oracle) -> Speed {
    match wanted.bandwidth {
        Some(bytes) => Speed::Rate(bytes as f64 / f64::from(wanted.processes) / PAGE_BYTES as f64),
        None => Speed::Share(wanted.share.unwrap_or(SHARE)),
    }
}

fn predicted(wanted: &arguments::Oracle, intervals: u64, kind: Kind, outcome: Outcome) -> Predicted {
    let Outcome { dirty, early, wasted } = outcome;
    let share = |pages: u64| pages as f64 / dirty.max(1) as f64;
    let left = (dirty - early) as f64 / intervals as f64 * PAGE_BYTES as f64 * f64::from(wanted.processes);
    Predicted {
        predictor: kind.name(),
        dirty_pages: dirty,
        early_pages: early,
        wasted_pages: wasted,
        early_share: share(early),
        wasted_share: share(wasted),
        checkpoint_ns: wanted.bandwidth.map(|bytes| (left / bytes as f64 * 1e9) as u64),
    }
}

fn page(replayed: &Replayed) -> String {
    let pages: Vec<String> = replayed.traces.iter().map(trace_page).collect();
    pages.join("\n")
}

fn trace_page(trace: &Trace) -> String {
    let oracle =
        trace.predictors.iter().find(|one| one.predictor == Kind::Oracle.name()).map_or(0.0, |one| one.early_share);
    let has_time = trace.predictors.iter().any(|one| one.checkpoint_ns.is_some());
    let mut columns = vec![
        ("predictor", Align::Left),
        ("early", Align::Right),
        ("of the oracle's", Align::Right),
        ("in vain", Align::Right),
    ];
    columns.extend(has_time.then_some(("checkpoint", Align::Right)));
    let rows = trace.predictors.iter().map(|one| {
        let of_oracle = if oracle > 0.0 { text_of_share(one.early_share / oracle) } else { "–".to_owned() };
        let mut row = vec![
            one.predictor.to_owned(),
            text_of_share(one.early_share),
            of_oracle,
            format!("{:.2}", one.wasted_share),
        ];
        row.extend(one.checkpoint_ns.map(text::duration));
        row
    });
    let dirty = trace.predictors.first().map_or(0, |one| one.dirty_pages) / trace.intervals.max(1);
    format!(
        "{}: {} intervals, {} written in each\n{}",
        trace.trace,
        trace.intervals,
        text::bytes(dirty * PAGE_BYTES),
        text::table(&columns, rows)
    )
}

fn text_of_share(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}
