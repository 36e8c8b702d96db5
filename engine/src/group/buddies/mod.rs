//! Chooses the ranks that hold copies of each shard. The choice depends only on the places of the ranks, so all ranks
//! reach the same one without a message.
//!
//! Invariants:
//! - No two copies of a shard are on one node, or in one failure domain (a rack, a switch), if there are as many nodes
//!   or domains as copies. With fewer, each node or domain has a copy.
//! - A rank holds as many copies as it gives. There is one exception: if a domain has more than its part of the ranks,
//!   its copies cannot all go elsewhere, and the other ranks evenly hold more.
//! - The copies of a node's ranks are on several other nodes: when the node fails, several help at once.
//! - A rank that held a copy before keeps holding it, unless that breaks a rule above.
//! - Ranks that should hold no copies hold none, if the others are on as many nodes as a shard has copies. Otherwise
//!   they keep them, because copies on a node that is about to be left are better than none.

mod assignment;
mod columns;
mod everywhere;
mod leaving;
mod map;
#[cfg(test)]
mod tests;

pub use assignment::{Apart, Buddies};
pub use map::Seat;

impl Buddies {
    /// `seats`: one for each rank. `copies`: the number of copies of each shard, including the one on its own rank.
    /// `before`: for each rank, the current holders of its copies, in today's numbers; empty at first. The result is
    /// the same on all ranks if these arguments are.
    pub fn choose(seats: &[Seat<'_>], copies: usize, before: &[Vec<usize>]) -> Buddies {
        let chosen = leaving::choose(seats, copies, before);
        let is_given_up = |buddies: &Buddies| buddies.of.iter().flatten().any(|buddy| !seats[*buddy].holds);
        debug_assert!(!chosen.as_ref().is_some_and(is_given_up), "a rank that is left holds a copy");
        let chosen = chosen.unwrap_or_else(|| everywhere::choose(seats, copies, before));
        debug_assert!(chosen.are_apart(seats), "two copies of a shard would be lost together");
        chosen
    }
}
