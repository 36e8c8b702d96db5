//! Chooses the ranks that hold the copies of each shard.

use crate::{
    error::{Error, ErrorKind, Result},
    ground::{self, pause},
    group::{Apart, Buddies, Group, Seat, Tested, agree, failure_domain, gather, host_name},
    mutant::{self, Mutant},
    plural::count,
    remark::Remark,
    session::domain::Domain,
    space::LevelKind,
};
use std::collections::BTreeSet;

static SHARED: Remark = Remark::new();
static MISSING: Remark = Remark::new();

/// For each copy of a level, the holders in the order of the shards.
///
/// `copies`: the number of copies of each shard, including the one on its own rank; there are fewer if there are fewer
/// ranks. `domain`: the ranks that share a node's files of this level. `holds`: whether this rank may hold copies.
/// `before`: the previous result for these ranks, or empty. Collective.
pub(in crate::session) fn holders(
    group: &dyn Group,
    kind: LevelKind,
    domain: &Domain,
    copies: usize,
    holds: bool,
    before: &[&[usize]],
) -> Result<Vec<Vec<usize>>> {
    if copies < 2 || group.size() < 2 {
        return Ok(Vec::new());
    }
    if !can_exchange(group)? {
        MISSING.make(group.rank(), || {
            let why = "its group has no messages that go on while the program does (start_send, start_receive, test)";
            Some(format!("this session makes no copies on the level {}: {why}", kind.name()))
        });
        return Ok(Vec::new());
    }
    let variable = |name: &str| mutant::value_of(name).or_else(|| ground::variable(name));
    let rack = agree(group, failure_domain(variable, &host_name()))?;
    let rack = rack.filter(|_| !mutant::is(Mutant::HolderInDomain));
    let reported: Vec<(usize, Option<String>, bool)> = gather(group, &(domain.leader(), rack, holds))?;
    let seats: Vec<Seat> = reported
        .iter()
        .map(|(node, domain, holds)| Seat { node: *node, domain: domain.as_deref(), holds: *holds })
        .collect();
    let of = |rank: usize| before.iter().filter_map(|holders| holders.get(rank).copied()).collect();
    let before: Vec<Vec<usize>> = (0..reported.len()).map(of).collect();
    let buddies = Buddies::choose(&seats, copies, &before);
    if buddies.apart() == Apart::Ranks {
        let nodes = reported.iter().map(|(node, ..)| node).collect::<BTreeSet<_>>().len();
        let level = kind.name();
        let them = if nodes == 1 { "they share its fate" } else { "some share the fate of one" };
        let nodes = count(nodes as u64, "node");
        let text = format!("{} on the level {level}, and {nodes}: {them}", count(copies as u64, "copy"));
        SHARED.make(group.rank(), || Some(text));
    }
    let holder = |copy: usize| {
        let of = |rank: usize| match mutant::is(Mutant::HolderBeside) {
            true => Some((rank + copy + 1) % group.size()),
            false => buddies.of(rank).get(copy).copied(),
        };
        (0..group.size()).map(of).collect::<Option<Vec<usize>>>()
    };
    let all: Vec<Vec<usize>> = (0..copies - 1).map_while(holder).collect();
    if all.iter().flatten().any(|holder| *holder >= group.size()) {
        return Err(Error::Internal { what: "a holder that is no rank".to_owned() });
    }
    Ok(all)
}

/// Whether the ranks can send messages that move on while they do other work. Tries it with one message from each rank
/// to the next. Collective.
pub(in crate::session) fn can_exchange(group: &dyn Group) -> Result<bool> {
    let (rank, ranks) = (group.rank(), group.size());
    let sent = group.start_send((rank + 1) % ranks, Box::new([0; 1]));
    let cannot = sent.as_ref().is_err_and(|error| error.kind() == ErrorKind::InvalidArgument);
    let mut none = [u64::from(cannot)];
    group.all_max(&mut none)?;
    if none == [1] {
        return Ok(false);
    }
    let mut under_way = vec![sent?, group.start_receive((rank + ranks - 1) % ranks, Box::new([0; 1]))?];
    let mut tries = 0;
    while !under_way.is_empty() {
        let mut left = Vec::new();
        for message in under_way {
            if let Tested::UnderWay = group.test(message)? {
                left.push(message);
            }
        }
        under_way = left;
        tries += 1;
        pause(tries);
    }
    Ok(true)
}
