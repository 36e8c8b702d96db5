//! Copies dealt out to *columns*: disjoint sets of ranks. Each column holds at most one copy of a shard.
//!
//! A column's *room* is the number of copies that it is still to hold. Let `rows` ranks still have to give their copies
//! away. A column must not have more room than there are such ranks outside it; otherwise some of its room stays empty
//! and another column gets too many. A column with exactly as much room is *due*: the next rank outside it must take
//! it. At most as many columns are due as a rank has copies to give: with one more, the due columns would have room for
//! all, and no rank outside them could be next. So a rank can always take the due columns, and may choose freely among
//! the others: the columns that held its copies before, or the next in a circle.

use super::map::{Map, count};
use std::{
    collections::{BTreeMap, BTreeSet},
    iter::zip,
};

pub(super) struct Columns<'a> {
    map: &'a Map,
    column_of: &'a [usize],
    /// The ranks of each column, in the order of turns; neighbours are on different nodes.
    members: Vec<Vec<usize>>,
    /// The place of each rank in its column's list of `members`.
    place: Vec<usize>,
    /// The number of copies that each rank is to give now.
    gives: usize,
    room: Room,
    /// The number of ranks that still have to give.
    rows: usize,
    /// The number of copies from a node's ranks in a column, by node and column.
    on_column: BTreeMap<(usize, usize), usize>,
    /// The number of copies from a node's ranks on another node, by the two nodes.
    on_node: BTreeMap<(usize, usize), usize>,
}

/// The number of copies still to be held.
struct Room {
    /// The room of each rank.
    ranks: Vec<usize>,
    /// The room of each column.
    columns: Vec<usize>,
    /// The number of ranks of each column that still have to give.
    givers: Vec<usize>,
    /// By column, the places of the members with room.
    open: Vec<BTreeSet<usize>>,
    /// The columns with room.
    open_columns: BTreeSet<usize>,
    /// All columns, sorted by `columns` + `givers`; for a due column, the sum is `rows`.
    by_need: BTreeSet<(usize, usize)>,
}

impl<'a> Columns<'a> {
    /// `column_of`: one of the columnings of `map`. `of`: the copies that are dealt out already, the same number for
    /// each rank.
    pub(super) fn new(map: &'a Map, column_of: &'a [usize], of: &[Vec<usize>], copies: usize) -> Columns<'a> {
        let ranks = column_of.len();
        let mut members = vec![Vec::new(); count(column_of)];
        let mut place = vec![0; ranks];
        for rank in in_turns(&map.turns) {
            place[rank] = members[column_of[rank]].len();
            members[column_of[rank]].push(rank);
        }
        let given = of.first().map_or(0, Vec::len);
        let gives = copies.min(members.len()).saturating_sub(given + 1);
        let room = Room::new(&members, of, given + gives);
        Columns {
            map,
            column_of,
            members,
            place,
            gives,
            room,
            rows: ranks,
            on_column: BTreeMap::new(),
            on_node: BTreeMap::new(),
        }
    }

    /// Adds buddies to `of` until each rank has given its copies away.
    pub(super) fn fill(mut self, of: &mut [Vec<usize>], before: &[Vec<usize>]) {
        if self.gives == 0 {
            return;
        }
        let had = |rank: usize| before.get(rank).map_or(&[][..], Vec::as_slice);
        // Ranks that have lost no copy come first, so no other rank takes the buddies that they keep.
        let most = before.iter().map(Vec::len).max().unwrap_or(0);
        let (whole, others): (Vec<usize>, Vec<usize>) =
            in_turns(&self.map.turns).into_iter().partition(|rank| most > 0 && had(*rank).len() == most);
        for rank in whole.into_iter().chain(others) {
            let mut used = vec![self.column_of[rank]];
            used.extend(of[rank].iter().map(|buddy| self.column_of[*buddy]));
            for _ in 0..self.gives {
                let buddy = self.pick(rank, &used, had(rank));
                self.room.take(self.column_of[buddy], self.place[buddy], buddy);
                let node = self.map.nodes[rank];
                *self.on_column.entry((node, self.column_of[buddy])).or_default() += 1;
                *self.on_node.entry((node, self.map.nodes[buddy])).or_default() += 1;
                used.push(self.column_of[buddy]);
                of[rank].push(buddy);
            }
            self.room.gave(self.column_of[rank]);
            self.rows -= 1;
        }
    }

    fn pick(&self, rank: usize, used: &[usize], had: &[usize]) -> usize {
        let kept = || had.iter().copied().filter(|old| self.keeps(*old, used));
        match self.room.due(self.rows, used) {
            Some(due) => kept().find(|old| self.column_of[*old] == due).unwrap_or_else(|| self.member(due, rank)),
            None => kept().next().unwrap_or_else(|| self.member(self.next(rank, used), rank)),
        }
    }

    fn keeps(&self, old: usize, used: &[usize]) -> bool {
        self.room.ranks.get(old).is_some_and(|room| *room > 0) && !used.contains(&self.column_of[old])
    }

    /// The column with room that holds the fewest of this node's copies; if all columns with room are used, one without
    /// room.
    fn next(&self, rank: usize, used: &[usize]) -> usize {
        let columns = self.members.len();
        let begin = (self.column_of[rank] + 1 + self.map.turns[rank] * self.gives % (columns - 1)) % columns;
        let is_free = |column: &usize| !used.contains(column);
        let open = &self.room.open_columns;
        let next = open.range(begin..).chain(open.range(..begin)).copied().filter(is_free);
        let node = self.map.nodes[rank];
        least(next, |column| self.on_column.get(&(node, column)))
            .or_else(|| (begin..columns).chain(0..begin).find(is_free))
            .expect("there are more columns than copies")
    }

    /// The member with room on the node that holds the fewest of this node's copies.
    fn member(&self, column: usize, rank: usize) -> usize {
        let (members, open) = (&self.members[column], &self.room.open[column]);
        let begin = (self.place[rank] + self.map.turns[rank]) % members.len();
        let next = open.range(begin..).chain(open.range(..begin)).map(|place| members[*place]);
        let node = self.map.nodes[rank];
        least(next, |member| self.on_node.get(&(node, self.map.nodes[member]))).unwrap_or(members[begin])
    }
}

/// The element of `ones` with the smallest value, the first if there are several. Each turn begins at another place,
/// because otherwise all ranks would choose the same.
fn least<'a>(ones: impl Iterator<Item = usize>, has: impl Fn(usize) -> Option<&'a usize>) -> Option<usize> {
    /// The number of elements to examine: if all of these have some, the choice matters little.
    const LOOKED_AT: usize = 64;
    let mut best = None;
    for one in ones.take(LOOKED_AT) {
        let held = has(one).copied().unwrap_or(0);
        if best.is_none_or(|(least, _)| held < least) {
            best = Some((held, one));
        }
        if held == 0 {
            break;
        }
    }
    best.map(|(_, one)| one)
}

impl Room {
    fn new(members: &[Vec<usize>], of: &[Vec<usize>], each: usize) -> Room {
        let sizes: Vec<usize> = members.iter().map(Vec::len).collect();
        let mut ranks = vec![0; of.len()];
        for (held, members) in zip(shares(&sizes, each), members) {
            let begun = |place: usize| held * place / members.len();
            for (place, rank) in members.iter().enumerate() {
                ranks[*rank] = begun(place + 1) - begun(place);
            }
        }
        for buddy in of.iter().flatten() {
            ranks[*buddy] = ranks[*buddy].saturating_sub(1);
        }
        let columns: Vec<usize> = members.iter().map(|all| all.iter().map(|rank| ranks[*rank]).sum()).collect();
        let has_room = |all: &Vec<usize>| (0..all.len()).filter(|place| ranks[all[*place]] > 0).collect();
        Room {
            open: members.iter().map(has_room).collect(),
            open_columns: (0..columns.len()).filter(|column| columns[*column] > 0).collect(),
            by_need: (0..columns.len()).map(|column| (columns[column] + sizes[column], column)).collect(),
            givers: sizes,
            ranks,
            columns,
        }
    }

    /// A due column that is not used yet.
    fn due(&self, rows: usize, used: &[usize]) -> Option<usize> {
        let due = self.by_need.iter().rev().take_while(|(need, _)| *need >= rows).map(|(_, column)| *column);
        due.filter(|column| self.columns[*column] > 0).find(|column| !used.contains(column))
    }

    fn take(&mut self, column: usize, place: usize, rank: usize) {
        if self.ranks[rank] == 0 {
            return;
        }
        self.by_need.remove(&self.need(column));
        self.ranks[rank] -= 1;
        self.columns[column] -= 1;
        self.by_need.insert(self.need(column));
        if self.ranks[rank] == 0 {
            self.open[column].remove(&place);
        }
        if self.columns[column] == 0 {
            self.open_columns.remove(&column);
        }
    }

    fn gave(&mut self, column: usize) {
        self.by_need.remove(&self.need(column));
        self.givers[column] -= 1;
        self.by_need.insert(self.need(column));
    }

    fn need(&self, column: usize) -> (usize, usize) {
        (self.columns[column] + self.givers[column], column)
    }
}

/// The number of copies for columns of these `sizes` if each rank gives `each`. A column holds as many as its ranks
/// give, but at most the number of ranks outside it; the other columns share the rest.
fn shares(sizes: &[usize], each: usize) -> Vec<usize> {
    let ranks: usize = sizes.iter().sum();
    let mut full = vec![false; sizes.len()];
    let (mut left, mut among) = (ranks * each, ranks);
    while let Some(column) = (0..sizes.len()).find(|c| !full[*c] && left * sizes[*c] > (ranks - sizes[*c]) * among) {
        full[column] = true;
        left -= ranks - sizes[column];
        among -= sizes[column];
    }
    let mut before = 0;
    let share = |(size, is_full): (&usize, bool)| {
        if is_full {
            return ranks - size;
        }
        let begin = left * before / among;
        before += size;
        left * before / among - begin
    };
    zip(sizes, full).map(share).collect()
}

/// All ranks: the first of each node, then the second of each, and so on.
fn in_turns(turns: &[usize]) -> Vec<usize> {
    let mut ranks: Vec<usize> = (0..turns.len()).collect();
    ranks.sort_by_key(|rank| turns[*rank]);
    ranks
}
