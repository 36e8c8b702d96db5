//! A program with a state that is spread over its ranks: a global array, of which each rank holds a box, and a mark
//! that all ranks have. Any number of ranks can go on with it.
#![expect(unsafe_code, reason = "regions are memory of the program")]

use super::{
    faulty::{Faulty, Medium},
    program::Mark,
    recording::{Checked, Trouble},
};
use mainstay_engine::{
    Config, Error, Region, Session,
    group::ThreadGroup,
    space::format::{ElementType, PlaceInWhole},
};
use std::{ops::Range, sync::Arc, thread};

/// A box of a global array of u64, as stored in the memory of a rank.
pub struct Part {
    pub global: Vec<u64>,
    pub sides: Vec<Range<u64>>,
    pub cells: Vec<u64>,
}

/// One rank of the program.
pub struct Spread {
    mark: Box<[u64; 2]>,
    part: Part,
}

impl Part {
    pub fn new(global: &[u64], sides: Vec<Range<u64>>) -> Part {
        let count = sides.iter().map(|side| side.end - side.start).product::<u64>();
        Part { global: global.to_vec(), sides, cells: vec![0; count as usize] }
    }

    /// The rank's share if the first side is cut among `ranks`: uneven if necessary.
    pub fn slab(global: &[u64], rank: usize, ranks: usize) -> Part {
        let cut = |rank: usize| global[0] * rank as u64 / ranks as u64;
        let sides = global.iter().map(|side| 0..*side);
        let mut sides: Vec<Range<u64>> = sides.collect();
        sides[0] = cut(rank)..cut(rank + 1);
        Part::new(global, sides)
    }

    /// The part as the region `name`. The part outlives the session, or is unprotected before.
    pub fn region(&mut self, name: &str) -> Result<Region, Error> {
        let shape: Vec<u64> = self.sides.iter().map(|side| side.end - side.start).collect();
        let offset = self.sides.iter().map(|side| side.start).collect();
        let place = PlaceInWhole { global_shape: self.global.clone(), offset };
        // SAFETY: see the comment of the function.
        unsafe { Region::placed(name, self.cells.as_mut_ptr().cast(), ElementType::U64, &shape, place) }
    }

    /// The number of each cell in the global array, in the order of the memory.
    pub fn numbers(&self) -> Vec<u64> {
        if self.cells.is_empty() {
            return Vec::new();
        }
        let mut at: Vec<u64> = self.sides.iter().map(|side| side.start).collect();
        let mut numbers = Vec::with_capacity(self.cells.len());
        loop {
            numbers.push(at.iter().zip(&self.global).fold(0, |number, (at, side)| number * side + at));
            let Some(side) = (0..at.len()).rev().find(|side| at[*side] + 1 < self.sides[*side].end) else {
                return numbers;
            };
            at[side] += 1;
            for (at, inner) in at.iter_mut().zip(&self.sides).skip(side + 1) {
                *at = inner.start;
            }
        }
    }

    pub fn fill(&mut self, value: impl Fn(u64) -> u64) {
        let numbers = self.numbers();
        // In place: a session knows the address.
        self.cells.iter_mut().zip(numbers).for_each(|(cell, number)| *cell = value(number));
    }

    pub fn holds(&self, value: impl Fn(u64) -> u64) -> bool {
        self.numbers().into_iter().map(value).eq(self.cells.iter().copied())
    }
}

/// The value of cell `number` at a mark.
pub fn value(mark: Mark, number: u64) -> u64 {
    (mark.run << 48 | mark.step << 32 | number).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Spread {
    pub fn new(global: &[u64], rank: usize, ranks: usize) -> Spread {
        Spread { mark: Box::new([0; 2]), part: Part::slab(global, rank, ranks) }
    }

    pub fn protect(&mut self, session: &mut Session) -> Result<(), Error> {
        // SAFETY: the mark is on the heap, and the tests keep it as long as the session.
        session.protect(unsafe { Region::new("mark", self.mark.as_mut_ptr().cast(), 16) }?)?;
        session.protect(self.part.region("cells")?)
    }

    pub fn fill(&mut self, mark: Mark) {
        *self.mark = [mark.run, mark.step];
        self.part.fill(|number| value(mark, number));
    }

    /// Restores, and checks that all cells belong to one mark.
    pub fn restore(&mut self, session: &mut Session) -> Result<Option<Mark>, Trouble> {
        let Some(restored) = session.restore()? else { return Ok(None) };
        if let Some(what) = restored.skipped.iter().find(|what| !what.contains("slot")) {
            return Err(Trouble::new(format!("damage was passed over: {what}")));
        }
        let mark = Mark { run: self.mark[0], step: self.mark[1] };
        if !self.part.holds(|number| value(mark, number)) {
            return Err(Trouble::new(format!("cells {:?} are not all of {mark:?}", self.part.sides)));
        }
        Ok(Some(mark))
    }
}

/// Runs the program on `medium`, with a thread for each rank. A rank that does not close ends like a killed one.
pub fn spread_job(
    medium: &Medium,
    ranks: usize,
    global: &[u64],
    config: &Config,
    work: impl Fn(Spread, Session) -> Result<(), Trouble> + Sync,
) -> Checked<()> {
    let run = |rank: usize, group: ThreadGroup| -> Result<(), Trouble> {
        let mut program = Spread::new(global, rank, ranks);
        let mut session = Session::open_on(Box::new(group), Arc::new(Faulty(medium.view())), config.clone())?;
        program.protect(&mut session)?;
        work(program, session)
    };
    let ended: Vec<Result<(), Trouble>> = thread::scope(|scope| {
        let run = &run;
        let ranks: Vec<_> = ThreadGroup::new(ranks).into_iter().enumerate().collect();
        let ranks: Vec<_> = ranks.into_iter().map(|(rank, group)| scope.spawn(move || run(rank, group))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap_or_else(|_| Err(Trouble::new("a rank panicked")))).collect()
    });
    ended.into_iter().collect::<Result<(), Trouble>>().map_err(Trouble::why)
}
