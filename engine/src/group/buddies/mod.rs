//! Which ranks hold the copies of which shards: a function of where the ranks are, so that all ranks come to the same
//! without a message.
//!
//! What must hold:
//! - no two copies of a shard lie on one node, nor in one failure domain (a rack, a switch), while there are as many
//!   nodes or domains as copies; with fewer, each node or domain has a copy;
//! - a rank holds as many copies as it gives. Only if a domain has more than its part of the ranks do the other ranks
//!   hold more, evenly, since the domain's copies cannot all go elsewhere;
//! - the copies of a node's ranks lie on several other nodes: when the node fails, several help at once;
//! - a rank that held a copy before goes on holding it, unless one of the rules above is broken by that;
//! - ranks that are to hold no copies hold none, while the others are on as many nodes as a shard has copies; else they
//!   hold on, as copies on a node that is about to be left are better than none.

mod choice;
mod columns;
mod everywhere;
mod leaving;
mod map;
#[cfg(test)]
mod tests;

pub use choice::{Apart, Buddies};
pub use map::Seat;

impl Buddies {
    /// `seats`: one for each rank. `copies`: how many of each shard, the one on its own rank included. `before`: for
    /// each rank, those that have held its copies until now, in today's numbers; empty at first. The same on all ranks
    /// if these arguments are.
    pub fn choose(seats: &[Seat<'_>], copies: usize, before: &[Vec<usize>]) -> Buddies {
        leaving::choose(seats, copies, before).unwrap_or_else(|| everywhere::choose(seats, copies, before))
    }
}
