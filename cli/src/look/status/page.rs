//! The output of `status` for people.

use crate::{
    text::{self, Align},
    time,
};
use mainstay_engine::{
    printable,
    status::{JobProgress, LevelStanding, Loss, Node, Recovery, Saved, Standing, Status, Survivor},
};

/// Number of nodes to name, if several have one fate.
const NAMED_MAX: usize = 8;
/// Number of lines about holders.
const HOLDERS_MAX: usize = 32;
/// Number of lines about recoveries.
const RECOVERIES_MAX: usize = 8;

/// With `has_details`, prints the table of levels even if there is only one.
pub fn page(standing: &Standing, has_details: bool, now_unix_ns: u64) -> String {
    let space = printable(&standing.survey.path);
    let mut page = match &standing.status {
        Some(status) => format!("space   {space}\n{}", job(standing, status, now_unix_ns)),
        None => format!("space   {space}: {}\nsaved   {}\n", at_work(standing), saved(standing, now_unix_ns)),
    };
    if has_details || standing.status.is_some() || standing.levels.len() > 1 {
        page += &format!("\n{}", levels(&standing.levels, now_unix_ns));
    }
    if let Some(status) = &standing.status {
        page += &holders(status);
    }
    if let Some(status) = &standing.status {
        page += &recoveries(status, now_unix_ns);
        page += &put_off(status);
    }
    let losses = losses(standing);
    if !losses.is_empty() {
        page += &format!("\n{losses}");
    }
    for what in &standing.lost {
        page += &format!("lost: {what}\n");
    }
    page
}

/// The saved revisions of a space without other levels, in a line.
fn saved(standing: &Standing, now_unix_ns: u64) -> String {
    let complete = standing.levels.iter().find(|level| !level.complete.is_empty()).map(|level| &level.complete);
    let Some((newest, older)) = complete.and_then(|complete| complete.split_first()) else {
        return "nothing yet".to_owned();
    };
    let step = standing.survey.newest().filter(|revision| revision.key.number == newest.revision);
    let step = step.and_then(|revision| revision.step()).map_or(String::new(), |step| format!(", step {step}"));
    let when = newest.saved_unix_ns.map_or("?".to_owned(), |unix_ns| age(now_unix_ns, unix_ns));
    let older = if older.is_empty() { String::new() } else { format!("; older: {}", revisions(older)) };
    format!("revision {}{step}, {when} ago{older}", newest.revision)
}

fn at_work(standing: &Standing) -> &'static str {
    match (standing.survey.in_use, standing.survey.clean) {
        (Some(true), _) => "at work",
        (Some(false), true) => "ended in order",
        (Some(false), false) => "not ended in order: it died or was stopped",
        (None, _) => "unknown: no right to read its lock",
    }
}

fn job(standing: &Standing, status: &Status, now_unix_ns: u64) -> String {
    let job = &status.job;
    let (ranks, nodes) = (counted(u64::from(job.ranks), "rank"), counted(job.nodes.len() as u64, "node"));
    // Other jobs may have had the space open since.
    let state = if status.progress.ended && standing.survey.in_use != Some(true) {
        "ended in order"
    } else {
        at_work(standing)
    };
    format!(
        "job     {state}: {ranks} on {nodes}, process {} on {}, lineage {}, since {}\ntold    {} ago\n",
        job.pid,
        job.host,
        status.progress.lineage,
        time::when_and_where(job.opened_unix_ns),
        age(now_unix_ns, status.progress.told_unix_ns),
    )
}

fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn age(now_unix_ns: u64, unix_ns: u64) -> String {
    text::age(now_unix_ns.saturating_sub(unix_ns))
}

fn levels(levels: &[LevelStanding], now_unix_ns: u64) -> String {
    let columns = [
        ("level", Align::Left),
        ("newest", Align::Right),
        ("age", Align::Right),
        ("complete", Align::Left),
        ("under way", Align::Right),
        ("every", Align::Right),
        ("keep", Align::Right),
        ("passed over", Align::Right),
        ("failed in a row", Align::Right),
        ("where", Align::Left),
    ];
    let rows = levels.iter().flat_map(|level| {
        let number = |number: Option<u64>| number.map_or("-".to_owned(), |number| number.to_string());
        let newest = level.complete.first();
        let first = vec![
            level.level.name().to_owned(),
            newest.map_or("none".to_owned(), |saved| saved.revision.to_string()),
            newest_age(newest, now_unix_ns),
            revisions(&level.complete),
            number(level.under_way),
            number(level.every.map(u64::from)),
            number(level.keep.map(u64::from)),
            passed_over(level.passed_over, &level.lacks),
            level.failures.in_a_row.to_string(),
            wheres(&level.directories),
        ];
        let copies = level.copies.iter().zip(1..).map(|(copy, index)| {
            let newest = copy.first();
            let mut row = vec![
                format!("  copy {index}"),
                newest.map_or("none".to_owned(), |saved| saved.revision.to_string()),
                newest_age(newest, now_unix_ns),
                revisions(copy),
            ];
            row.resize(columns.len(), String::new());
            if let Some(lacks) = level.copies_lack.get(index - 1).filter(|lacks| !lacks.is_empty()) {
                let column = columns.iter().position(|(name, _)| *name == "passed over").unwrap_or_default();
                row[column] = passed_over(lacks.len() as u64, lacks);
            }
            row
        });
        [first].into_iter().chain(copies).collect::<Vec<_>>()
    });
    text::table(&columns, rows)
}

/// The number, and the newest revisions that are missing for that reason.
fn passed_over(times: u64, lacks: &[u64]) -> String {
    if lacks.is_empty() {
        return times.to_string();
    }
    let more = if lacks.len() > NAMED_MAX { ", …" } else { "" };
    let named: Vec<String> = lacks.iter().rev().take(NAMED_MAX).map(u64::to_string).collect();
    format!("{times}: {}{more}", named.join(", "))
}

fn newest_age(newest: Option<&Saved>, now_unix_ns: u64) -> String {
    newest
        .map_or("-".to_owned(), |saved| saved.saved_unix_ns.map_or("?".to_owned(), |unix_ns| age(now_unix_ns, unix_ns)))
}

fn revisions(list: &[Saved]) -> String {
    let mut numbers: Vec<String> = list.iter().take(NAMED_MAX).map(|saved| saved.revision.to_string()).collect();
    if list.len() > NAMED_MAX {
        numbers.push("…".to_owned());
    }
    if numbers.is_empty() { "-".to_owned() } else { numbers.join(", ") }
}

fn wheres(directories: &[String]) -> String {
    match directories {
        [] => "-".to_owned(),
        [one] => one.clone(),
        [first, others @ ..] => format!("{first} and {}", counted(others.len() as u64, "other")),
    }
}

/// The node of the ranks, and the node that holds their copy, by index.
type Pair = (Option<usize>, Option<usize>);
/// The first rank of each range, and the one after the last.
type Stretches = Vec<(u32, u32)>;

/// The holders of copies: a line for each two nodes of each copy.
fn holders(status: &Status) -> String {
    let job = &status.job;
    let node_of = |rank: u32| {
        job.nodes.iter().position(|node| node.ranks.iter().any(|(from, below)| (*from..*below).contains(&rank)))
    };
    let mut lines: Vec<String> = Vec::new();
    for place in &job.places {
        for (copy, holders) in (1..).zip(&place.holders) {
            let mut pairs: Vec<(Pair, Stretches)> = Vec::new();
            for (rank, holder) in (0..).zip(holders) {
                let nodes = (node_of(rank), node_of(*holder));
                let at = pairs.iter().position(|(pair, _)| *pair == nodes);
                let Some(at) = at else {
                    // Holders that are not shown need not be looked up.
                    if pairs.len() > HOLDERS_MAX {
                        break;
                    }
                    pairs.push((nodes, vec![(rank, rank + 1)]));
                    continue;
                };
                match pairs[at].1.last_mut() {
                    Some((_, below)) if *below == rank => *below += 1,
                    _ => pairs[at].1.push((rank, rank + 1)),
                }
            }
            let name = |node: Option<usize>| node.map_or("a node", |node| &job.nodes[node].name);
            lines.extend(pairs.iter().map(|((of, with), ranks)| {
                let level = place.level.name();
                format!("{level}, copy {copy}: {} holds {} of {}\n", name(*with), text::ranks(ranks), name(*of))
            }));
        }
    }
    if lines.len() > HOLDERS_MAX {
        lines.truncate(HOLDERS_MAX);
        lines.push("and more: see --json\n".to_owned());
    }
    if lines.is_empty() { String::new() } else { format!("\n{}", lines.concat()) }
}

/// How often checkpoints were put off.
fn put_off(status: &Status) -> String {
    match status.progress.put_off {
        0 => String::new(),
        times => format!("\nput off {}, because the checkpoint before was not durable yet\n", counted(times, "time")),
    }
}

/// The recoveries of the job, newest first.
fn recoveries(status: &Status, now_unix_ns: u64) -> String {
    let JobProgress { recovered, recoveries, .. } = &status.progress;
    if recoveries.is_empty() {
        return String::new();
    }
    let line = |recovery: &Recovery| {
        let ago = age(now_unix_ns, recovery.noticed_unix_ns);
        format!("{ago} ago: {}\n", recovery.summary())
    };
    let times = counted(*recovered, "time");
    let mut page = format!("\nwent on after failures {times}\n");
    page.extend(recoveries.iter().rev().take(RECOVERIES_MAX).map(line));
    if recoveries.len() > RECOVERIES_MAX {
        page += "and more: see --json\n";
    }
    page
}

/// The losses that the job would survive now, in the order of the nodes.
fn losses(standing: &Standing) -> String {
    let mut lines: Vec<(String, Option<Survivor>)> = Vec::new();
    let mut nodes: Vec<(Option<Survivor>, Vec<&Node>)> = Vec::new();
    for (loss, left) in &standing.losses {
        match (loss, standing.node(*loss)) {
            (Loss::Processes, _) => lines.push(("the death of the job's processes".to_owned(), *left)),
            (Loss::AllNodes, _) => {
                lines.extend(nodes.drain(..).map(|(left, nodes)| (named(&nodes), left)));
                lines.push(("the loss of all nodes".to_owned(), *left));
            }
            (Loss::Node(_), Some(node)) => match nodes.iter_mut().find(|(other, _)| other == left) {
                Some((_, alike)) => alike.push(node),
                None => nodes.push((*left, vec![node])),
            },
            (Loss::Node(_), None) => {}
        }
    }
    let newest = standing.levels.iter().flat_map(|level| level.complete.iter().chain(level.copies.iter().flatten()));
    let left = standing.losses.iter().filter_map(|(_, left)| left.as_ref().map(|left| &left.saved));
    let newest = newest.chain(left).map(Saved::key).max();
    let mut page: String = lines.iter().map(|(what, left)| format!("{what}: {}\n", fate(*left, newest))).collect();
    let unlooked: Vec<&str> = standing.unlooked_nodes().take(NAMED_MAX + 1).map(|node| &node.name[..]).collect();
    if !unlooked.is_empty() {
        let more = if unlooked.len() > NAMED_MAX { ", …" } else { "" };
        let names = unlooked[..unlooked.len().min(NAMED_MAX)].join(", ");
        page += &format!(
            "data on {names}{more} cannot be seen from here: this is the job's last report, and the data may be gone\n"
        );
    }
    page
}

fn fate(left: Option<Survivor>, newest: Option<(u64, u64)>) -> String {
    let Some(Survivor { saved, level }) = left else { return "not survived: no revision would be left".to_owned() };
    let back = if Some(saved.key()) == newest { "" } else { ", not the newest" };
    format!("survived, revision {} from {}{back}", saved.revision, level.name())
}

fn named(nodes: &[&Node]) -> String {
    match nodes {
        [one] => format!("the loss of node {} ({})", one.name, text::ranks(&one.ranks)),
        all => {
            let mut names: Vec<&str> = all.iter().take(NAMED_MAX).map(|node| &node.name[..]).collect();
            if all.len() > NAMED_MAX {
                names.push("…");
            }
            format!("the loss of any one of the {} nodes {}", all.len(), names.join(", "))
        }
    }
}
