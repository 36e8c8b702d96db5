//! Few ranks write for all (the setting `aggregators`): an *aggregator* is the holder of its *members*, which write
//! nothing themselves.

use super::roles::Roles;
use crate::{
    error::{Error, Result},
    group::{Group, agree},
    session::domain::Domain,
};

/// The roles of this rank in a job of which `aggregators` ranks write; `None` if each writes for itself. Collective.
pub(super) fn roles(group: &dyn Group, aggregators: u32, domain: &Domain) -> Result<Option<Roles>> {
    let (rank, ranks) = (group.rank(), group.size());
    let of = |rank| aggregator_of(rank, ranks, aggregators as usize);
    if (0..ranks).all(|rank| of(rank) == rank) {
        return Ok(None);
    }
    agree(group, check_can_send(group).and_then(|()| check_in_sight(rank, of(rank), domain)))?;
    let writes = of(rank) == rank;
    Ok(Some(Roles {
        writes,
        holders: if writes { Vec::new() } else { vec![of(rank)] },
        wards: (0..ranks).filter(|other| *other != rank && of(*other) == rank).collect(),
    }))
}

/// The rank that writes for `rank`. The ranks are split into `aggregators` groups of neighbours, and the first of each
/// group writes, so that the ranks of a node tend to have the same aggregator.
fn aggregator_of(rank: usize, ranks: usize, aggregators: usize) -> usize {
    if aggregators == 0 || aggregators >= ranks {
        return rank;
    }
    let group = ((rank + 1) * aggregators - 1) / ranks;
    group * ranks / aggregators
}

fn check_can_send(group: &dyn Group) -> Result<()> {
    let why = "the group of this session has no send and receive, which ranks that write for others need; give it \
               both, or let each rank write for itself";
    if group.can_send() { Ok(()) } else { Err(Error::argument("aggregators", why)) }
}

fn check_in_sight(rank: usize, aggregator: usize, domain: &Domain) -> Result<()> {
    if domain.contains(aggregator) {
        return Ok(());
    }
    let why = format!(
        "rank {aggregator} would write for rank {rank}, and does not see its files; give each node an aggregator of its \
         own, or the space a directory that all nodes see"
    );
    Err(Error::argument("aggregators", why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_share_an_aggregator() {
        let of = |ranks, aggregators| -> Vec<usize> {
            (0..ranks).map(|rank| aggregator_of(rank, ranks, aggregators)).collect()
        };
        assert_eq!(of(5, 2), [0, 0, 2, 2, 2]);
        assert_eq!(of(8, 3), [0, 0, 2, 2, 2, 5, 5, 5]);
        assert_eq!(of(4, 1), [0; 4]);
        assert_eq!(of(4, 3), [0, 1, 2, 2]);
        for each_for_itself in [0, 4, 5] {
            assert_eq!(of(4, each_for_itself), [0, 1, 2, 3]);
        }
    }
}
