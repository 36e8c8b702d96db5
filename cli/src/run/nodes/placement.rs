//! The nodes of a start, and the number of ranks on each.
//!
//! Invariants: ranks stay on their nodes if these are left, because their memory is there. Spares come before more
//! ranks than slots. All ranks have a place while any node answers.

use super::list::Node;

/// A node with its ranks, which follow the ranks of the node before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    pub name: String,
    pub slots: u32,
    pub ranks: u32,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Choice {
    pub shares: Vec<Share>,
    /// Which node replaces which.
    pub moves: Vec<(String, String)>,
}

impl Choice {
    pub fn slots(&self) -> u32 {
        self.shares.iter().fold(0, |sum, share| sum.saturating_add(share.slots))
    }
}

/// Places `ranks` on the nodes of `listed` and `spares` that answer; empty if none does. `before`: the nodes of the
/// last start.
pub fn choose(
    before: &[String],
    listed: &[Node],
    spares: &[Node],
    answers: impl Fn(&str) -> bool,
    ranks: u32,
) -> Choice {
    let enough = |nodes: &[&Node]| nodes.iter().fold(0, |sum: u32, node| sum.saturating_add(node.slots)) >= ranks;
    let seats: Vec<&str> = if before.is_empty() {
        let needed = (1..listed.len()).find(|count| enough(&listed[..*count].iter().collect::<Vec<_>>()));
        listed[..needed.unwrap_or(listed.len())].iter().map(|node| node.name.as_str()).collect()
    } else {
        before.iter().map(String::as_str).collect()
    };
    // A node in both lists counts as a listed one.
    let spares = spares.iter().filter(|spare| listed.iter().all(|node| node.name != spare.name));
    let there: Vec<&Node> = listed.iter().chain(spares.clone()).filter(|node| answers(&node.name)).collect();
    let free = spares.chain(listed).filter(|node| answers(&node.name) && !seats.contains(&node.name.as_str()));
    let mut free = free.collect::<Vec<_>>().into_iter();

    let (mut chosen, mut moves): (Vec<&Node>, _) = (Vec::new(), Vec::new());
    for seat in &seats {
        if let Some(node) = there.iter().find(|node| node.name == *seat) {
            chosen.push(node);
        } else if let Some(node) = free.next() {
            moves.push(((*seat).to_owned(), node.name.clone()));
            chosen.push(node);
        }
    }
    while !enough(&chosen)
        && let Some(node) = free.next()
    {
        chosen.push(node);
    }
    while chosen.len() > 1 && enough(&chosen[..chosen.len() - 1]) {
        chosen.pop();
    }
    let shares = share_out(&chosen, ranks);
    let placed: u32 = shares.iter().map(|share| share.ranks).sum();
    debug_assert!(chosen.is_empty() || placed == ranks, "a rank has no place");
    moves.retain(|(_, to)| shares.iter().any(|share| share.name == *to));
    Choice { shares, moves }
}

/// One rank for each slot; if the slots are too few, in proportion.
fn share_out(nodes: &[&Node], ranks: u32) -> Vec<Share> {
    let total: u64 = nodes.iter().map(|node| u64::from(node.slots)).sum();
    let (mut slots, mut placed) = (0, 0);
    let shares = nodes.iter().map(|node| {
        slots += u64::from(node.slots);
        let all = u64::from(ranks);
        let up_to = if total < all { (all * slots).div_ceil(total) } else { all.min(slots) } as u32;
        let share = Share { name: node.name.clone(), slots: node.slots, ranks: up_to - placed };
        placed = up_to;
        share
    });
    shares.collect::<Vec<_>>().into_iter().filter(|share| share.ranks > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::nodes::list::of_words;

    /// "n1:2" for two ranks on n1.
    fn chosen(before: &str, listed: &str, spares: &str, lost: &[&str], ranks: u32) -> String {
        let nodes = |text| of_words(text).unwrap_or_default();
        let before: Vec<String> = before.split_whitespace().map(str::to_owned).collect();
        let choice = choose(&before, &nodes(listed), &nodes(spares), |name| !lost.contains(&name), ranks);
        let mut said: Vec<String> =
            choice.shares.iter().map(|share| format!("{}:{}", share.name, share.ranks)).collect();
        said.extend(choice.moves.iter().map(|(from, to)| format!("{from}>{to}")));
        assert_eq!(choice.shares.iter().map(|share| share.ranks).sum::<u32>(), if said.is_empty() { 0 } else { ranks });
        said.join(" ")
    }

    #[test]
    fn a_first_start_takes_as_many_nodes_as_it_needs() {
        assert_eq!(chosen("", "a:2,b:2", "", &[], 4), "a:2 b:2");
        assert_eq!(chosen("", "a:2,b:2,c:2", "", &[], 4), "a:2 b:2");
        assert_eq!(chosen("", "a:2,b:2,c:2", "", &["a"], 4), "c:2 b:2 a>c");
        assert_eq!(chosen("", "a:2,b:2", "", &[], 3), "a:2 b:1");
    }

    #[test]
    fn a_spare_takes_the_place_of_a_lost_node() {
        assert_eq!(chosen("a b c", "a:2,b:2,c:2", "s:2", &["b"], 6), "a:2 s:2 c:2 b>s");
        // Spares before listed nodes that were not needed or have come back.
        assert_eq!(chosen("a b", "a:2,b:2,c:2", "s:2", &["b"], 4), "a:2 s:2 b>s");
        assert_eq!(chosen("a s", "a:2,b:2", "s:2", &[], 4), "a:2 s:2");
        assert_eq!(chosen("a s", "a:2,b:2", "s:2", &["s"], 4), "a:2 b:2 s>b");
        // A smaller node is not enough alone.
        assert_eq!(chosen("a b", "a:4,b:4", "s:2,t:2", &["b"], 8), "a:4 s:2 t:2 b>s");
        // A spare that the list names, too, is there once.
        assert_eq!(chosen("a b", "a:2,b:2,s:2", "s:2", &["b"], 4), "a:2 s:2 b>s");
    }

    #[test]
    fn without_spares_the_nodes_that_are_left_take_more() {
        assert_eq!(chosen("a b c", "a:2,b:2,c:2", "", &["b"], 6), "a:3 c:3");
        assert_eq!(chosen("a c", "a:2,b:2,c:2", "", &["b", "c"], 6), "a:6");
        assert_eq!(chosen("a b", "a:4,b:2,c:8", "", &["c"], 9), "a:6 b:3");
        assert_eq!(chosen("a b c", "a:1,b:1,c:1", "", &["c"], 3), "a:2 b:1");
        assert_eq!(chosen("a b", "a:2,b:2", "s:2", &["a", "b", "s"], 4), "");
    }

    #[test]
    fn a_node_that_is_back_relieves_the_others() {
        assert_eq!(chosen("a", "a:2,b:2", "", &[], 4), "a:2 b:2");
    }

    #[test]
    fn nodes_that_left_the_list_are_not_used() {
        assert_eq!(chosen("a b", "a:2,c:2", "", &[], 4), "a:2 c:2 b>c");
        assert_eq!(chosen("a b", "a:2", "", &[], 4), "a:4");
    }
}
