//! The measured staging of a node: how fast its ranks copied, and how fast their data was written.

use crate::{
    document::nodes::{Node, Part},
    exit::Failure,
};
use mainstay_engine::{ShardSurvey, model::Staging};
use std::time::Duration;

/// The profile of each shard, `None` for one without; `None` as a whole if the revision was removed meanwhile.
pub fn parts(shards: &[ShardSurvey]) -> Result<Option<Vec<Option<Part>>>, Failure> {
    let mut parts = Vec::new();
    for shard in shards {
        let Some(manifest) = shard.manifest()? else { return Ok(None) };
        let part = |profile| Part { shard: shard.shard, phases: shard.phases, profile };
        parts.push(manifest.annex.profile.map(part));
    }
    Ok(Some(parts))
}

/// The ranks of a node copy side by side, so the longest copy is the time of all. Writes begin when the first rank has
/// left phase 1, and end when the last is durable.
pub fn staging(node: &Node) -> Staging {
    let each = || node.parts.iter().map(|part| &part.phases);
    let copy_ns = each().map(|p| p.copy_ns).max().unwrap_or(0);
    let begin = each().map(|p| p.t1_unix_ns.saturating_add(p.communication_ns)).min().unwrap_or(0);
    let end = each().map(|p| p.t1_unix_ns.saturating_add(p.durable_ns)).max().unwrap_or(0);
    let slowest = node.slowest().phases;
    let rest_ns = slowest.perceived_ns.saturating_sub(slowest.buffer_wait_ns).saturating_sub(slowest.copy_ns);
    Staging {
        bytes: node.pieces().total().bytes,
        copy: Duration::from_nanos(copy_ns),
        write: Duration::from_nanos(end.saturating_sub(begin)),
        rest: Duration::from_nanos(rest_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::nodes::{nodes, tests::part};

    const MIB: u64 = 1 << 20;
    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn what_is_measured_spans_the_ranks_of_a_node() {
        let mut parts = [part(0), part(1)];
        let t1 = parts[0].phases.t1_unix_ns;
        parts[1].phases.t1_unix_ns = t1 + 1_000_000;
        let staging = staging(&nodes(parts)[0]);
        assert_eq!(staging.bytes, 4 * MIB);
        // Rank 1 copied longer. Rank 0 left phase 1 first, after 1 ms, and rank 1 was durable last, after 31 ms.
        assert_eq!((staging.copy, staging.write), (6 * MS, 30 * MS));
        assert_eq!(staging.rest, 10 * MS);
    }
}
