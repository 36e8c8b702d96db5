//! The tables of `mainstay model`.

use crate::{
    document::{Cost, LevelTimes, Modelled, ModelledChoice, ModelledJob, ModelledLevel, Origin, Unit},
    look::failures::{percent, time},
    text::{self, Align},
    time,
};

/// `all`: every choice, not only the best for each number of ranks.
pub fn page(modelled: &Modelled, all: bool) -> String {
    let measured = modelled.measured_in.as_ref().map(|from| {
        format!(
            "measured in revision {} of lineage {} of {}, saved {}\n\n",
            from.key.revision,
            from.key.lineage,
            from.space,
            time::when_and_where(from.t1_unix_ns)
        )
    });
    format!(
        "{}{}\none checkpoint: t2−t1, and t3−t1 on each level and number of copies\n\n{}\n{}",
        measured.unwrap_or_default(),
        costs(&modelled.costs),
        checkpoints(&modelled.jobs),
        choices(&modelled.jobs, all),
    )
}

fn costs(costs: &[Cost]) -> String {
    let columns = [("cost", Align::Left), ("value", Align::Right), ("source", Align::Left)];
    let rows = costs.iter().map(|cost| vec![cost.cost.to_owned(), value(cost), source(cost.source).to_owned()]);
    text::table(&columns, rows)
}

fn value(cost: &Cost) -> String {
    let Some(value) = cost.value else { return "never".to_owned() };
    match cost.unit {
        Unit::Count => text::number(value),
        Unit::PerSecond => format!("{}/s", text::number(value)),
        Unit::Bytes => text::bytes(value as u64),
        Unit::BytesPerSecond => format!("{}/s", text::bytes(value as u64)),
        Unit::Ns => time(value as u64),
        Unit::Share => percent(value),
    }
}

fn source(source: Origin) -> &'static str {
    match source {
        Origin::Measured => "measured",
        Origin::Given => "given",
        Origin::Assumed => "assumed",
    }
}

fn checkpoints(jobs: &[ModelledJob]) -> String {
    let all = jobs.iter().map(|job| &job.checkpoints).max_by_key(|levels| levels.len());
    let levels: Vec<(&str, u64)> = all.into_iter().flatten().map(|times| (times.level, times.copies)).collect();
    let names: Vec<String> = levels.iter().map(|(level, copies)| name(level, *copies)).collect();
    let mut columns = vec![("ranks", Align::Right), ("nodes", Align::Right), ("t2−t1", Align::Right)];
    columns.extend(names.iter().map(|name| (name.as_str(), Align::Right)));
    let rows = jobs.iter().map(|job| {
        let of = |(level, copies): &(&str, u64)| {
            let found = job.checkpoints.iter().find(|times| (times.level, times.copies) == (*level, *copies));
            found.map_or("-".to_owned(), |times| time(times.durable_ns))
        };
        let perceived = job.checkpoints.first().map_or(0, |times: &LevelTimes| times.perceived_ns);
        let counts = [job.ranks.to_string(), job.nodes.to_string(), time(perceived)];
        counts.into_iter().chain(levels.iter().map(of)).collect()
    });
    text::table(&columns, rows)
}

fn choices(jobs: &[ModelledJob], all: bool) -> String {
    let columns = [
        ("ranks", Align::Right),
        ("fails every", Align::Right),
        ("levels, and the computing time between checkpoints", Align::Left),
        ("memory of a node", Align::Right),
        ("begins again", Align::Right),
        ("efficiency", Align::Right),
        ("simulated", Align::Right),
    ];
    let rows = jobs.iter().flat_map(|job| {
        let shown = job.choices.iter().take(if all { usize::MAX } else { 1 });
        let none = job.choices.is_empty().then(|| {
            let mut row = vec![job.ranks.to_string(), time(job.mtbf_ns), "none fits into the memory".to_owned()];
            row.resize(columns.len(), "-".to_owned());
            row
        });
        shown.map(|choice| row(job, choice)).chain(none)
    });
    text::table(&columns, rows)
}

fn row(job: &ModelledJob, choice: &ModelledChoice) -> Vec<String> {
    let saved = |level: &ModelledLevel| {
        let every = time(choice.interval_ns.saturating_mul(level.every));
        format!("{} {every}", name(level.level, level.copies))
    };
    vec![
        job.ranks.to_string(),
        time(job.mtbf_ns),
        choice.levels.iter().map(saved).collect::<Vec<String>>().join(", "),
        text::bytes(choice.memory_bytes),
        percent(choice.unsurvived_share),
        percent(choice.efficiency),
        choice.simulated.as_ref().map_or("-".to_owned(), |simulated| percent(simulated.efficiency)),
    ]
}

/// `memory × 2`.
pub fn name(level: &str, copies: u64) -> String {
    if level == "space" { level.to_owned() } else { format!("{level} × {copies}") }
}
