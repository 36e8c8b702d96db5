//! The page: one file with everything that it needs.

use super::{
    charts,
    history::{Checkpoint, End, History, Key, Row, Start},
    timeline::timeline,
};
use crate::{text, text::count, time};
use mainstay_engine::space::format::{BLOCK_BYTES, SavedEarly};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use std::collections::BTreeMap;

/// Number of listed revisions, the newest.
const REVISIONS_MAX: usize = 500;
/// Number of rows at first; the others on demand.
const FIRST: usize = 12;
/// The page may show a stranger's space: the browser must load nothing for it.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

pub fn page(history: &History, now_unix_ns: u64) -> String {
    let title = format!("Mainstay: {}", history.space);
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                title { (title) }
                style { (PreEscaped(include_str!("page.css"))) }
            }
            body { main {
                h1 { (history.space) }
                p .wide { (subtitle(history)) }
                @for what in &history.unseen { p .alarm { (what) } }
                (facts(history))
                (timeline_section(history))
                @if !history.recoveries.is_empty() { (recoveries_section(history)) }
                (checkpoints_section(history))
                (failures_table(history))
                (starts_table(history))
                (revisions_table(history))
                footer { "mainstay " (env!("CARGO_PKG_VERSION")) ", " (time::when_and_where(now_unix_ns)) ". All times are of this zone." }
            } }
        }
    };
    markup.into_string()
}

fn subtitle(history: &History) -> String {
    let Some(last) = history.starts.last() else {
        return "No journal: the page shows only the contents of the space.".to_owned();
    };
    let how = match last.end {
        End::Closed => "The last job ended in order",
        End::Died => "The last job did not end in order",
        End::AtWork => "A job is at work",
    };
    let ranks = count(last.opening.ranks.into(), "rank");
    let nodes = match last.opening.nodes {
        0 => String::new(),
        nodes => format!(" on {}", count(nodes.into(), "node")),
    };
    let begin = time::when_and_where(history.begin_ns);
    format!("{how}: {ranks}{nodes}, rank 0 on {}. First opened {begin}.", last.opening.host)
}

fn facts(history: &History) -> Markup {
    let nearest = history.rows.first();
    let perceived: Vec<u64> =
        nearest.iter().flat_map(|row| &row.checkpoints).filter_map(Checkpoint::perceived_ns).collect();
    let worked: u64 = history.starts.iter().map(|start| start.end_ns - start.opened_ns).sum();
    let waited: u64 = perceived.iter().fold(0, |sum, ns| sum.saturating_add(*ns));
    let died = history.starts.iter().filter(|start| start.end == End::Died).count();
    let lost: Option<u64> = history.recoveries.iter().map(|recovered| recovered.steps_lost).sum();
    html! {
        div .facts {
            (fact("", &text::age(worked), "in all starts"))
            (number_of("", history.starts.len(), "start", "starts"))
            (number_of("", nearest.map_or(0, |row| row.checkpoints.len()), "known checkpoint", "known checkpoints"))
            @if let Some(median) = median(perceived) {
                (fact("", &text::duration(median), "a checkpoint, as the program waited (median)"))
            }
            @if worked > 0 && waited > 0 {
                (fact("", &format!("{:.2}%", waited as f64 / worked as f64 * 100.0), "of the time in checkpoints"))
            }
            @if !history.recoveries.is_empty() {
                (number_of("went", history.recoveries.len(), "failure that it recovered from", "failures that it recovered from"))
                @if let Some(lost) = lost { (number_of("went", lost as usize, "step done again", "steps done again")) }
            }
            @if died > 0 { (number_of("bad", died, "start that did not end in order", "starts that did not end in order")) }
            @if !history.failures.is_empty() {
                (number_of("bad", history.failures.len(), "revision that a level did not get", "revisions that a level did not get"))
            }
        }
    }
}

fn number_of(class: &str, number: usize, one: &str, several: &str) -> Markup {
    fact(class, &number.to_string(), if number == 1 { one } else { several })
}

fn fact(class: &str, value: &str, what: &str) -> Markup {
    html! { div class=(format!("fact {class}")) { b { (value) } span { (what) } } }
}

fn median(mut all: Vec<u64>) -> Option<u64> {
    all.sort_unstable();
    all.get(all.len() / 2).copied()
}

fn timeline_section(history: &History) -> Markup {
    let levels = history.rows.iter().filter(|row| row.copy == 0);
    let colours: Vec<(&str, &str)> = levels.map(|row| (row.level.name(), row.level.name())).collect();
    html! {
        h2 { "Timeline" }
        p {
            "Each bar is a checkpoint: solid from t1 to t2, while the program waited; pale until t3, when it was durable there. "
            "Point at a mark for details."
        }
        figure {
            (timeline(history))
            (charts::legend(&[&[("a job", "job")], &colours[..], &[("went on after a failure", "recovered"), ("failed", "fail")]].concat()))
        }
    }
}

fn recoveries_section(history: &History) -> Markup {
    html! {
        h2 { "Failures, and how the job went on" }
        p { "From the notice of the failure until the program went on with its state restored." }
        figure { (charts::recoveries(&history.recoveries)) }
    }
}

fn checkpoints_section(history: &History) -> Markup {
    let rows: Vec<&Row> = history.rows.iter().filter(|row| row.copy == 0).collect();
    let has_phases = |row: &&&Row| row.checkpoints.iter().any(|checkpoint| checkpoint.phases.is_some());
    let counted = |row: &&Row| {
        let passed_over = history.passed_over.get(&row.level).copied().unwrap_or(0);
        let times = count(passed_over, "time");
        let busy = if passed_over > 0 { format!(" (passed over {times}, because it was busy)") } else { String::new() };
        format!("{} on {}{busy}", row.checkpoints.len(), row.name())
    };
    html! {
        h2 { "Checkpoints" }
        p { (rows.iter().map(counted).collect::<Vec<_>>().join(", ")) ". The program waits only for the nearest level." }
        @if let Some(told) = put_off(&rows) { p #put-off { (told) } }
        @if let Some(told) = saved_early(&rows) { p #early { (told) } }
        div .grid {
            @for (row, is_nearest) in rows.iter().filter(has_phases).zip([true].into_iter().chain(std::iter::repeat(false))) {
                figure { h3 { (row.name()) ": time of checkpoints" } (charts::times(history, row, is_nearest)) }
                @if is_nearest { figure { h3 { (row.name()) ": parts of the program's wait" } (charts::phases(row)) } }
                figure { h3 { (row.name()) ": size of checkpoints" } (charts::sizes(history, row)) }
            }
        }
    }
}

fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// How often checkpoints were put off, because the last one was still under way; `None` if none was.
fn put_off(rows: &[&Row]) -> Option<String> {
    let all = rows.first()?.checkpoints.iter().filter(|checkpoint| checkpoint.put_off > 0);
    let (checkpoints, times) = all.fold((0, 0u64), |(n, sum), one| (n + 1, sum.saturating_add(one.put_off)));
    let before = counted(checkpoints, "checkpoint");
    (times > 0).then(|| {
        format!("Put off: {}, before {before}, because the one before was not durable yet.", counted(times, "time"))
    })
}

/// The result of saving early for rank 0's shards, over all known checkpoints; `None` without a predictor.
fn saved_early(rows: &[&Row]) -> Option<String> {
    let nearest = rows.iter().find(|row| row.checkpoints.iter().any(|checkpoint| checkpoint.saved_early.is_some()))?;
    let told: Vec<_> = nearest.checkpoints.iter().filter_map(|one| Some((one.key, one.saved_early?))).collect();
    let sum = |blocks: fn(&SavedEarly) -> u64| {
        let all = told.iter().fold(0u64, |sum, (_, one)| sum.saturating_add(blocks(one)));
        text::bytes(all.saturating_mul(BLOCK_BYTES))
    };
    let mut page = format!(
        "Saved early, by rank 0, before {} of them: {} of the {} that the program wrote between checkpoints; {} were saved, {} in vain.",
        told.len(),
        sum(|one| one.early),
        sum(|one| one.dirty),
        sum(|one| one.saved),
        sum(|one| one.wasted),
    );
    let mut why = "";
    for ((lineage, revision), one) in &told {
        let now = one.off.why();
        match (now.is_empty(), now == why) {
            (_, true) => {}
            (true, false) => page += &format!(" From revision {revision} (lineage {lineage}) on saving early went on."),
            (false, false) => {
                page += &format!(" From revision {revision} (lineage {lineage}) on saving early stopped: {now}.");
            }
        }
        why = now;
    }
    Some(page)
}

fn failures_table(history: &History) -> Markup {
    let mut rows: Vec<(u64, Markup)> = Vec::new();
    for recovered in &history.recoveries {
        let recovery = &recovered.recovery;
        rows.push((
            recovery.noticed_unix_ns,
            html! {
                td { (charts::who(&recovery.failed)) " failed; " (way(recovery)) }
                td { (back(recovery.back_to.map(|back| (back.lineage, back.revision)))) }
                td .number { (recovered.steps_lost.map_or("?".to_owned(), |steps| steps.to_string())) }
                td .number { (text::duration(recovery.total_ns)) }
                td { (recovery.lost.join("; ")) }
            },
        ));
    }
    for (number, start) in (1..).zip(&history.starts).filter(|(_, start)| start.end == End::Died) {
        let next = history.starts.get(number);
        let back = next.map_or("not started again".to_owned(), Start::began_with);
        let why = match &start.died_of {
            Some(why) => why.clone(),
            None => "the time is that of its last report".to_owned(),
        };
        rows.push((
            start.end_ns,
            html! {
                td { "start " (number) " did not end in order: " (why) }
                td { (back) } td .number { "?" } td {} td {}
            },
        ));
    }
    for failed in &history.failures {
        let what = html! { td { "the level " (failed.level.name()) " did not get a revision: " (failed.why) } td {} td {} td {} td {} };
        rows.push((failed.unix_ns, what));
    }
    rows.sort_by_key(|(unix_ns, _)| std::cmp::Reverse(*unix_ns));
    html! {
        @if !rows.is_empty() {
            h2 { "Failures" }
            div .scroll { table #failures {
                tr { th { "when" } th { "event" } th { "back to" } th .number { "steps lost" } th .number { "duration" } th { "other losses" } }
                @for (unix_ns, row) in rows.iter().take(REVISIONS_MAX) { tr { td { (time::when(*unix_ns)) } (row) } }
            } }
        }
    }
}

fn way(recovery: &mainstay_engine::status::Recovery) -> String {
    use mainstay_engine::status::Way;
    match recovery.way {
        Way::Spare => "replaced by a spare".to_owned(),
        Way::Spawned => "replaced by a new process".to_owned(),
        Way::Shrunk => format!("{} of {} ranks went on", recovery.ranks, recovery.ranks_before),
    }
}

fn back(key: Option<Key>) -> String {
    key.map_or("the beginning".to_owned(), |(lineage, revision)| format!("revision {revision} (lineage {lineage})"))
}

fn starts_table(history: &History) -> Markup {
    html! {
        @if !history.starts.is_empty() {
            h2 { "Starts" }
            div .scroll { table #starts {
                tr { th .number { "start" } th { "opened" } th .number { "for" } th .number { "ranks" } th .number { "nodes" } th { "rank 0" } th { "began with" } th { "end" } }
                @for (number, start) in (1..).zip(&history.starts).collect::<Vec<(usize, &Start)>>().into_iter().rev().take(REVISIONS_MAX) {
                    tr {
                        td .number { (number) }
                        td { (time::when(start.opened_ns)) }
                        td .number { (text::age(start.end_ns - start.opened_ns)) }
                        td .number { (start.opening.ranks) }
                        td .number { @if start.opening.nodes > 0 { (start.opening.nodes) } @else { "?" } }
                        td { (start.opening.host) ", process " (start.opening.pid) }
                        td { (start.began_with()) }
                        td { @match start.end { End::Closed => "in order", End::Died => span .alarm { "not in order" }, End::AtWork => "at work" } }
                    }
                }
            } }
        }
    }
}

/// A revision, and the levels on which it was complete.
type Listed<'a> = (Key, &'a Checkpoint, Vec<(String, &'a Checkpoint)>);

fn revisions_table(history: &History) -> Markup {
    let mut found: BTreeMap<Key, Vec<(String, &Checkpoint)>> = BTreeMap::new();
    for row in &history.rows {
        for checkpoint in &row.checkpoints {
            found.entry(checkpoint.key).or_default().push((row.name(), checkpoint));
        }
    }
    // The program waits for the nearest level.
    let all: Vec<Listed> = found.into_iter().rev().map(|(key, places)| (key, places[0].1, places)).collect();
    let (first, others) = all.split_at(FIRST.min(all.len()));
    let others = &others[..others.len().min(REVISIONS_MAX)];
    let table = |listed: &[Listed]| {
        html! {
            div .scroll { table .revisions {
                tr { th .number { "revision" } th .number { "lineage" } th { "t1" } th .number { "step" } th .number { "bytes" } th .number { "t2 − t1" } th { "complete on, and t3 − t1 there" } }
                @for ((lineage, revision), checkpoint, places) in listed {
                    tr {
                        td .number { (revision) }
                        td .number { (lineage) }
                        td { (time::when(checkpoint.t1_ns)) }
                        td .number { (checkpoint.step.map_or(String::new(), |step| step.to_string())) }
                        td .number { (checkpoint.bytes.map_or("?".to_owned(), text::bytes)) }
                        td .number { (text::duration_if_known(checkpoint.perceived_ns())) }
                        td { (places.iter().map(|(name, there)| match there.phases {
                            Some(_) => format!("{name} {}", text::duration_if_known(there.durable_ns())),
                            None => name.clone(),
                        }).collect::<Vec<_>>().join(", ")) }
                    }
                }
            } }
        }
    };
    html! {
        h2 { "Revisions" }
        p { "Sizes and times are those of rank 0." }
        @if all.is_empty() { p { "None was complete." } } @else { (table(first)) }
        @if !others.is_empty() {
            details { summary { (others.len()) " more" } (table(others)) }
        }
    }
}
