//! `mainstay advise`: computes the best size of the pool from a measured checkpoint, and calls `failures`.

use super::{
    failures::{self, ns},
    staging::{parts, staging},
};
use crate::{
    arguments,
    document::{
        self, Advice, Advise, ExpectedPool, Key, MeasuredNode,
        nodes::{Node, Part, nodes},
    },
    exit::{Exit, Failure, say},
    output,
    text::{self, Align},
    time,
};
use mainstay_engine::{
    RevisionSurvey, SpaceSurvey,
    model::{Staging, smallest_near_best},
};
use std::{iter, time::Duration};

const MIB: u64 = 1 << 20;
/// The pools to compare: each is twice as large as the one before.
const POOL_MIN: u64 = MIB;
const POOL_MAX: u64 = 512 * MIB;
/// Number of pools in the table, and of those smaller than the advised one.
const SHOWN: usize = 6;
const SHOWN_BELOW: usize = 3;
/// Least pool of a rank on a node, in bytes: two chunks of a small pool.
const OF_A_RANK: u64 = 512 << 10;

/// Times that differ by a smaller factor count as equal.
const ALIKE: f64 = 1.05;

/// How often to survey the space again, if a running job removes the revision that is being read.
const TRIES: usize = 10;

pub fn advise(wanted: &arguments::Advise) -> Result<Exit, Failure> {
    let Some(space) = &wanted.space else { return tell(wanted, None, None, &[]) };
    for _ in 0..TRIES {
        let survey = SpaceSurvey::open(space)?;
        match measured(&survey) {
            Ok(Some((revision, nodes))) => {
                let pool = pool(&survey, revision, &nodes);
                let waited_ns = pool.nodes.iter().map(|node| node.perceived_ns).max();
                return tell(wanted, Some(pool), waited_ns, &survey.damage);
            }
            Ok(None) => {}
            // Every revision has the time of its checkpoint, even without a pool.
            Err(why) => match waited_ns(&survey).filter(|_| wanted.failures.asks_how_often()) {
                Some(waited_ns) => return tell(wanted, None, Some(waited_ns), &survey.damage),
                None => return Err(why),
            },
        }
    }
    Err(Failure::lost("the job that has the space open removed each revision while it was read; try again".to_owned()))
}

/// The program's wait for the newest complete revision, if known.
fn waited_ns(survey: &SpaceSurvey) -> Option<u64> {
    let newest = survey.revisions.iter().find(|revision| revision.complete)?;
    newest.shards.iter().map(|shard| shard.phases.perceived_ns).max().filter(|ns| *ns > 0)
}

/// `waited_ns`: the program's wait for a checkpoint.
fn tell(
    wanted: &arguments::Advise,
    pool: Option<Advise<'_>>,
    waited_ns: Option<u64>,
    damage: &[String],
) -> Result<Exit, Failure> {
    let levels = failures::levels(&wanted.failures, waited_ns.map(Duration::from_nanos))?;
    let reliability = failures::reliability(&wanted.failures, levels.as_ref())?;
    let advice = Advice { pool, levels, reliability, memory: failures::memory(&wanted.failures)? };
    match wanted.json {
        true => output::json(&advice)?,
        false => output::text(&pages(&advice))?,
    }
    damage.iter().for_each(|what| say(what));
    Ok(if damage.is_empty() { Exit::Good } else { Exit::Lost })
}

fn pages(advice: &Advice<'_>) -> String {
    let pages = [
        advice.pool.as_ref().map(page),
        advice.levels.as_ref().map(failures::levels_page),
        advice.reliability.as_ref().map(failures::reliability_page),
        advice.memory.as_ref().map(failures::memory_page),
    ];
    pages.into_iter().flatten().collect::<Vec<_>>().join("\n")
}

fn pool<'a>(survey: &'a SpaceSurvey, revision: &RevisionSurvey, nodes: &[Node]) -> Advise<'a> {
    let staged: Vec<Staging> = nodes.iter().map(staging).collect();
    let ranks = nodes.iter().map(|node| node.ranks().len() as u64).max().unwrap_or(1);
    let pools = iter::successors(Some(POOL_MIN), |pool| Some(2 * pool)).take_while(|pool| *pool <= POOL_MAX);
    let pools = pools.filter(|pool| *pool >= ranks * OF_A_RANK || *pool == POOL_MAX);
    let expected: Vec<(u64, Duration)> = pools.map(|pool| (pool, slowest(&staged, pool))).collect();
    let advised = smallest_near_best(&expected).unwrap_or(POOL_MAX);
    let at = expected.iter().position(|(pool, _)| *pool == advised).unwrap_or(0);
    let shown = at.saturating_sub(SHOWN_BELOW).min(expected.len().saturating_sub(SHOWN));
    let expected = expected.into_iter().skip(shown).take(SHOWN);
    Advise {
        space: document::Space::of(survey),
        key: Key::of(revision.key),
        t1_unix_ns: revision.t1_unix_ns(),
        nodes: nodes.iter().zip(&staged).map(|(node, staging)| measured_node(node, staging)).collect(),
        pools: expected.map(|(pool_bytes, time)| ExpectedPool { pool_bytes, expected_ns: ns(time) }).collect(),
        advised_pool_bytes: advised,
        setting: format!("pool_bytes = \"{}\"", text::bytes(advised)),
    }
}

/// The newest complete revision with profiles of a pool, and its nodes; `None` if a revision was removed during the
/// read.
fn measured(survey: &SpaceSurvey) -> Result<Option<(&RevisionSurvey, Vec<Node>)>, Failure> {
    let mut why_not = Vec::new();
    for revision in survey.revisions.iter().filter(|revision| revision.complete) {
        let Some(parts) = parts(&revision.shards)? else { return Ok(None) };
        match unfit(&parts) {
            None => return Ok(Some((revision, nodes(parts.into_iter().flatten())))),
            Some(why) => why_not.push(format!("revision {} {why}", revision.key.number)),
        }
    }
    let Some(newest) = why_not.first() else {
        survey.damage.iter().for_each(|what| say(what));
        return Err(Failure::lost(format!("there is no complete revision in {}", survey.path)));
    };
    Err(Failure::lost(format!("no complete revision in {} has the times of a pool: {newest}", survey.path)))
}

/// The reason that these revisions are not enough, and the remedy.
fn unfit(parts: &[Option<Part>]) -> Option<String> {
    let Some(parts) = parts.iter().map(Option::as_ref).collect::<Option<Vec<&Part>>>() else {
        return Some("keeps no profile; save one with this version".to_owned());
    };
    if let Some(other) = parts.iter().find(|part| part.profile.stage_name() != "pool") {
        let stage = other.profile.stage_name();
        return Some(format!(
            "was saved with the stage {stage}; save one with stage = \"pool\", and let the job close the space"
        ));
    }
    if parts.iter().any(|part| part.profile.pool_bytes == 0) {
        let why = "was copied straight to memory, its nearest level, and through no pool: pool_bytes has no effect there, and only a job without the setting memory has a pool";
        return Some(why.to_owned());
    }
    if parts.iter().any(|part| part.phases.durable_ns == 0) {
        return Some("has no time when it was durable; let the job close the space".to_owned());
    }
    let empty = parts.iter().all(|part| part.profile.pieces.total().bytes == 0);
    empty.then(|| "holds no data".to_owned())
}

/// A job goes on when its slowest node does.
fn slowest(staged: &[Staging], pool_bytes: u64) -> Duration {
    staged.iter().map(|staging| staging.perceived(pool_bytes)).max().unwrap_or(Duration::ZERO)
}

fn measured_node(node: &Node, staging: &Staging) -> MeasuredNode {
    MeasuredNode {
        node: node.node,
        ranks: node.ranks(),
        bytes: staging.bytes,
        copy_ns: ns(staging.copy),
        write_ns: ns(staging.write),
        rest_ns: ns(staging.rest),
        pool_bytes: node.pool_bytes(),
        perceived_ns: node.phases().perceived_ns,
        communication_ns: node.slowest().phases.communication_ns,
        expected_ns: ns(staging.perceived(node.pool_bytes())),
        flattens_at_bytes: staging.flattens_at(),
    }
}

fn page(advice: &Advise<'_>) -> String {
    let mut page = format!(
        "measured in revision {} of lineage {}, saved {}\n\n{}\n{}\n",
        advice.key.revision,
        advice.key.lineage,
        time::when_and_where(advice.t1_unix_ns),
        node_table(&advice.nodes),
        no_pool_helps(advice).unwrap_or_else(|| pool_table(advice)),
    );
    let flat = advice.nodes.iter().map(|node| node.flattens_at_bytes).max().unwrap_or(0);
    if flat > POOL_MAX {
        page += &format!("larger pools would gain up to {}\n", text::bytes(flat));
    }
    page + &format!("for mainstay.toml:\n{}\n", advice.setting)
}

fn node_table(nodes: &[MeasuredNode]) -> String {
    let heads = ["node", "ranks", "data", "copied at", "written at", "pool", "t2−t1", "expected", "gains up to"];
    let rows = nodes.iter().map(|node| {
        vec![
            node.node.to_string(),
            node.ranks.len().to_string(),
            text::bytes(node.bytes),
            rate(node.bytes, node.copy_ns),
            rate(node.bytes, node.write_ns),
            text::bytes(node.pool_bytes),
            text::duration(node.perceived_ns),
            text::duration(node.expected_ns),
            text::bytes(node.flattens_at_bytes),
        ]
    });
    text::table(&heads.map(|name| (name, Align::Right)), rows)
}

/// Prints the cause of the program's wait, if no pool changes it.
fn no_pool_helps(advice: &Advise<'_>) -> Option<String> {
    let all = || advice.pools.iter().map(|pool| pool.expected_ns);
    let (least, most) = (all().min()?, all().max()?);
    if most as f64 > ALIKE * least as f64 {
        return None;
    }
    let slowest = advice.nodes.iter().max_by_key(|node| node.perceived_ns)?;
    let (waited_ns, ranks_ns) = (slowest.perceived_ns, slowest.communication_ns);
    let waited = text::duration(waited_ns);
    Some(if ranks_ns > waited_ns / 2 {
        format!(
            "the program waited {waited}, {} of it for other ranks: they reach the checkpoint at different times, and no pool changes that; balance their work, or save at a step after which they meet anyway\n",
            text::duration(ranks_ns)
        )
    } else {
        format!(
            "the program waited {waited}, and no pool from {} on changes that\n",
            text::bytes(advice.pools[0].pool_bytes)
        )
    })
}

fn pool_table(advice: &Advise<'_>) -> String {
    let columns = [("pool", Align::Right), ("expected t2−t1", Align::Right), ("", Align::Left)];
    let rows = advice.pools.iter().map(|pool| {
        let mark = if pool.pool_bytes == advice.advised_pool_bytes { "the gain flattens here" } else { "" };
        vec![text::bytes(pool.pool_bytes), text::duration(pool.expected_ns), mark.to_owned()]
    });
    text::table(&columns, rows)
}

fn rate(bytes: u64, time_ns: u64) -> String {
    match time_ns {
        0 => "?".to_owned(),
        time_ns => format!("{}/s", text::bytes((bytes as f64 * 1e9 / time_ns as f64) as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::nodes::tests::part;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_job_is_as_slow_as_its_slowest_node() {
        let node = |mib: u64, ms: u32| Staging { bytes: mib * MIB, copy: MS, write: ms * MS, rest: Duration::ZERO };
        let staged = [node(32, 400), node(1024, 500)];
        assert_eq!(slowest(&staged, 16 * MIB), Duration::from_nanos(492_187_500));
        assert_eq!(slowest(&staged, 0), 500 * MS);
        assert_eq!(slowest(&staged, 2048 * MIB), MS);
    }

    #[test]
    fn rates_read_well() {
        assert_eq!((rate(184 * MIB, 500_000_000), rate(1, 0)), ("368 MiB/s".to_owned(), "?".to_owned()));
    }

    #[test]
    fn what_tells_nothing_is_told() {
        let why = |change: fn(&mut Part)| {
            let mut changed = part(1);
            change(&mut changed);
            unfit(&[Some(part(0)), Some(changed)])
        };
        assert_eq!(why(|_| {}), None);
        assert!(why(|part| part.profile.stage = 1).unwrap().contains("the stage direct"));
        assert!(why(|part| part.phases.durable_ns = 0).unwrap().contains("durable"));
        assert!(unfit(&[Some(part(0)), None]).unwrap().contains("keeps no profile"));
        let mut empty = part(0);
        empty.profile.pieces = Default::default();
        assert_eq!(unfit(&[Some(empty)]).unwrap(), "holds no data");
    }
}
