//! The tables of `show --phases`: the time of a checkpoint by rank, by node and by class of size, as paper 000 splits
//! it (Figures 2, 7 and 9, Table I).

use crate::{
    document::{Node, Phases, ShownRevision},
    text::{self, Align},
};
use std::collections::BTreeSet;

use mainstay_engine::space::format::{Histogram, SizeClass};

pub fn page(shown: &ShownRevision) -> String {
    let first = shown.list.iter().map(|shard| shard.phases.t1_unix_ns).min().unwrap_or(0);
    let mut page = rank_table(shown, first);
    let Some(nodes) = shown.nodes.as_deref() else {
        return page + "\nthis revision has no profile of its nodes, and of the sizes of pieces and writes\n";
    };
    page += &format!("\n{}", node_table(nodes, first));
    page += &pools(nodes);
    let profiled = nodes.iter().map(|node| node.ranks.len()).sum::<usize>();
    if profiled < shown.list.len() {
        page += &format!("\nprofiles kept: {profiled} of {}\n", text::count(shown.list.len() as u64, "shard"));
    }
    page += &format!(
        "\nof a process (average of {profiled}) and of a node (average of {}); {PIECES}; {WRITES}\n",
        nodes.len(),
    );
    for (name, of_all) in
        [("pieces", sum(nodes, |node| &node.profile.pieces)), ("writes", sum(nodes, |node| &node.profile.writes))]
    {
        page += &format!("\n{}", class_table(name, &of_all, profiled, nodes.len()));
    }
    page
}

fn sum(nodes: &[Node], of: fn(&Node) -> &Histogram) -> Histogram {
    let mut sum = Histogram::default();
    nodes.iter().for_each(|node| sum.add(of(node)));
    sum
}

const PIECES: &str = "pieces: data from the program";
const WRITES: &str =
    "writes: data written to the space (writes of hashes, manifest and roots are only in the first table)";

/// Heads of the columns of `times`.
const TIMES: [&str; 9] = ["t1", "phase 1", "buffer wait", "copy", "other", "phase 3", "t2−t1", "t3−t1", "t3−t2"];

fn times(p: &Phases, first: u64) -> Vec<String> {
    vec![
        format!("+{}", text::duration(p.t1_unix_ns.saturating_sub(first))),
        text::duration(p.communication_ns),
        text::duration(p.buffer_wait_ns),
        text::duration(p.copy_ns),
        text::duration_if_known(p.other_ns),
        text::duration_if_known(p.resume_ns),
        text::duration_if_known(p.perceived_ns),
        text::duration_if_known(p.durable_ns),
        text::duration_if_known(p.overlap_ns),
    ]
}

fn table_of(heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let columns: Vec<_> = heads.iter().map(|name| (*name, Align::Right)).collect();
    text::table(&columns, rows)
}

fn rank_table(shown: &ShownRevision, first: u64) -> String {
    let heads = [&["rank"], &TIMES[..], &["written", "chunks", "writes"]].concat();
    let rows = shown.list.iter().map(|shard| {
        let p = &shard.phases;
        let written = vec![text::bytes(p.written_bytes), p.chunks.to_string(), p.writes.to_string()];
        [vec![shard.shard.to_string()], times(p, first), written].concat()
    });
    table_of(&heads, rows)
}

fn node_table(nodes: &[Node], first: u64) -> String {
    let heads = [&["node", "ranks", "slowest"], &TIMES[..], &["stage", "pool", "chunk", "threshold"]].concat();
    let rows = nodes.iter().map(|node| {
        let profile = &node.profile;
        let who = vec![profile.node.to_string(), node.ranks.len().to_string(), node.slowest_rank.to_string()];
        let threshold = profile.threshold_bytes.map_or("–".to_owned(), text::bytes);
        let [pool, chunk] = [profile.pool_bytes, profile.chunk_bytes].map(text::bytes);
        let how = vec![profile.stage.to_owned(), pool, chunk, threshold];
        [who, times(&node.phases, first), how].concat()
    });
    table_of(&heads, rows)
}

/// The limits on pools that size themselves; the same limit of several nodes once.
fn pools(nodes: &[Node]) -> String {
    let sized = nodes.iter().filter(|node| node.profile.pool_bytes > 0 && node.profile.pool_is_auto);
    let why: BTreeSet<_> = sized.map(|node| (node.profile.pool_bound, node.profile.pool_bytes)).collect();
    let line = |(bound, bytes): &(&str, u64)| format!("pool of {} (auto): {bound}\n", text::bytes(*bytes));
    why.iter().map(line).collect()
}

/// Classes that are not empty, and their total.
fn class_table(name: &str, sum: &Histogram, processes: usize, nodes: usize) -> String {
    let heads = [name, "number", "%", "data", "%", "time", "%", "number a node", "data a node"];
    let total = sum.total();
    let of_each = |value: u64, among: usize| value as f64 / among.max(1) as f64;
    let row = |size: String, class: &SizeClass| {
        vec![
            size,
            text::number(of_each(class.count, processes)),
            percent(class.count, total.count),
            text::bytes(of_each(class.bytes, processes).round() as u64),
            percent(class.bytes, total.bytes),
            text::duration(of_each(class.time_ns, processes).round() as u64),
            percent(class.time_ns, total.time_ns),
            text::number(of_each(class.count, nodes)),
            text::bytes(of_each(class.bytes, nodes).round() as u64),
        ]
    };
    let rows = sum.classes.iter().enumerate().filter(|(_, class)| class.count > 0);
    table_of(&heads, rows.map(|(index, class)| row(size(index), class)).chain([row("all".to_owned(), &total)]))
}

fn size(index: usize) -> String {
    let limit = |index: usize| Histogram::LIMITS.get(index).copied();
    match (index.checked_sub(1).and_then(limit), limit(index)) {
        (Some(from), Some(below)) => format!("{} – {}", text::bytes(from), text::bytes(below)),
        (Some(from), None) => format!("≥ {}", text::bytes(from)),
        (None, below) => format!("< {}", text::bytes(below.unwrap_or(0))),
    }
}

fn percent(part: u64, of: u64) -> String {
    match of {
        0 => "–".to_owned(),
        of => format!("{:.1}", 100.0 * part as f64 / of as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::nodes::{nodes, tests::part};
    use mainstay_engine::PoolBound;

    fn rows(table: &str) -> Vec<Vec<String>> {
        let words = |line: &str| line.split("  ").map(|w| w.trim().to_owned()).filter(|w| !w.is_empty()).collect();
        table.lines().map(words).collect()
    }

    #[test]
    fn sizes_are_told_as_the_paper_does() {
        let all: Vec<String> = (0..10).map(size).collect();
        assert_eq!((&*all[0], &*all[1], &*all[9]), ("< 64 B", "64 B – 256 B", "≥ 1 MiB"));
        assert_eq!((&*all[7], &*all[8]), ("256 KiB – 512 KiB", "512 KiB – 1 MiB"));
    }

    #[test]
    fn a_process_is_the_average_and_a_node_the_sum_of_its_ranks() {
        let nodes: Vec<Node> = nodes([0, 1, 2, 3].map(part)).iter().map(Node::of).collect();
        let rows = rows(&class_table("pieces", &sum(&nodes, |node| &node.profile.pieces), 4, 2));
        assert_eq!(rows[1], ["< 64 B", "3", "75.0", "96 B", "0.0", "3 ms", "75.0", "6", "192 B"]);
        assert_eq!(rows[2], ["≥ 1 MiB", "1", "25.0", "2 MiB", "100.0", "1 ms", "25.0", "2", "4 MiB"]);
        assert_eq!(rows[3], ["all", "4", "100.0", "2 MiB", "100.0", "4 ms", "100.0", "8", "4 MiB"]);
        assert_eq!(rows.len(), 4);
    }

    #[test]
    fn a_node_is_told_by_its_slowest_rank() {
        let nodes: Vec<Node> = nodes([0, 1, 2].map(part)).iter().map(Node::of).collect();
        let rows = rows(&node_table(&nodes, 1_800_000_000_000_000_000));
        let times = ["+1 ns", "2 ms", "4 ms", "6 ms", "6 ms", "2 ms", "20 ms", "30 ms", "10 ms"];
        let expected = [&["0", "2", "1"], &times[..], &["pool", "64 MiB", "1 MiB", "–"]].concat();
        assert_eq!(rows[1], expected);
        assert_eq!(rows[2][..3], ["2", "1", "2"]);
    }

    #[test]
    fn why_a_pool_that_sizes_itself_was_not_larger_is_told_once() {
        let with = |bound| {
            let mut parts = [0, 1, 2, 3].map(part);
            parts.iter_mut().for_each(|part| part.profile.pool_bound = bound);
            pools(&nodes(parts).iter().map(Node::of).collect::<Vec<_>>())
        };
        assert_eq!(with(PoolBound::Needed), "pool of 64 MiB (auto): all that its ranks save\n");
        assert_eq!(with(PoolBound::Memory), "pool of 64 MiB (auto): a quarter of the free memory\n");
        assert_eq!(with(PoolBound::Set), "");
    }

    #[test]
    fn nothing_has_no_shares() {
        let rows = rows(&class_table("writes", &Histogram::default(), 0, 0));
        assert_eq!(rows[1], ["all", "0", "–", "0 B", "–", "0 ms", "–", "0", "0 B"]);
    }
}
