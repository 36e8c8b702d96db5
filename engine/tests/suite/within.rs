//! Boxes inside larger arrays in memory: with ghost cells around them, or between them.
#![expect(unsafe_code, reason = "regions are memory of the program")]

use crate::support::{
    in_sessions,
    program::Mark,
    spread::{Part, value},
};
use mainstay_engine::{
    Config, Error, Region, Result, Session, Stage, Start,
    group::Solo,
    space::format::{ElementType, PlaceInWhole},
};
use std::path::Path;
use tempfile::TempDir;

/// The value of the cells around a box.
const GHOST: u64 = 0x6705_7ce1;

fn stages() -> [Config; 4] {
    let of = |stage| Config {
        stage,
        pool_bytes: Some(512 << 10),
        chunk_bytes: Some(64 << 10),
        buffer_bytes: 64 << 10,
        ..Config::default()
    };
    [Stage::Pool, Stage::Node, Stage::Rank, Stage::Direct].map(of)
}

/// A box of a global array as the inside of an array in memory.
struct Inside {
    part: Part,
    /// The same cells as a box in the array in memory. Their numbers are their places there.
    within: Part,
    memory: Vec<u64>,
}

impl Inside {
    /// At most two ghosts at each end of each side.
    fn new(part: Part, random: &mut fastrand::Rng) -> Inside {
        let ends: Vec<[u64; 2]> = part.sides.iter().map(|_| [random.u64(..3), random.u64(..3)]).collect();
        let cells = |side: usize| part.sides[side].end - part.sides[side].start;
        let sides = ends.iter().enumerate().map(|(side, [low, _])| *low..low + cells(side)).collect();
        let shape: Vec<u64> = ends.iter().enumerate().map(|(side, [low, high])| low + cells(side) + high).collect();
        let memory = vec![GHOST; shape.iter().product::<u64>() as usize];
        Inside { within: Part::new(&shape, sides), part, memory }
    }

    fn region(&mut self) -> Result<Region> {
        let (sides, global_shape) = (&self.part.sides, self.part.global.clone());
        let shape: Vec<u64> = sides.iter().map(|side| side.end - side.start).collect();
        let place = PlaceInWhole { global_shape, offset: sides.iter().map(|side| side.start).collect() };
        let ghosts: Vec<u64> = self.within.sides.iter().map(|side| side.start).collect();
        // SAFETY: the tests keep the memory for as long as the session.
        unsafe {
            let region = Region::placed("u", self.memory.as_mut_ptr().cast(), ElementType::U64, &shape, place)?;
            region.within(&self.within.global, &ghosts)
        }
    }

    /// The memory with the cells of `mark`.
    fn with(&self, mark: Mark) -> Vec<u64> {
        let mut memory = vec![GHOST; self.memory.len()];
        for (at, number) in self.within.numbers().into_iter().zip(self.part.numbers()) {
            memory[at as usize] = value(mark, number);
        }
        memory
    }
}

/// Runs `work` on `ranks` ranks, each with its share of a global array.
fn job(space: &Path, config: &Config, ranks: usize, seed: u64, work: impl Fn(&mut Session, &mut Inside) + Sync) {
    const GLOBAL: [u64; 3] = [37, 61, 79];
    in_sessions(space, ranks, config, |rank, session| {
        let mut random = fastrand::Rng::with_seed(seed << 8 | rank as u64);
        let mut inside = Inside::new(Part::slab(&GLOBAL, rank, ranks), &mut random);
        session.protect(inside.region().unwrap()).unwrap();
        work(session, &mut inside);
        session.unprotect("u").unwrap(); // the memory is freed before the session
    });
}

/// On the same and on other numbers of ranks, with other ghosts around the boxes: all cells come back, and no ghost
/// changes.
#[test]
fn the_inside_of_larger_arrays_comes_back_whatever_the_stage_and_the_ranks() {
    for (round, config) in stages().iter().enumerate() {
        for saved in [1, 4] {
            let (folder, seed) = (TempDir::new_in("/dev/shm").unwrap(), (round * 100 + saved * 10) as u64);
            let mark = Mark { run: 1, step: seed };
            job(folder.path(), config, saved, seed, |session, inside| {
                let filled = inside.with(mark);
                inside.memory.copy_from_slice(&filled);
                session.checkpoint().unwrap();
                inside.memory.fill(0); // at t2 everything is copied
                session.wait().unwrap();
            });
            for ranks in [saved, 1, 2, 3, 6] {
                job(folder.path(), config, ranks, seed + ranks as u64, |session, inside| {
                    assert_eq!(session.restore().unwrap().unwrap().revision, 1);
                    let lost = inside.memory.iter().zip(inside.with(mark)).position(|(is, should)| *is != should);
                    let shape = &inside.within.global;
                    assert_eq!(lost, None, "saved by {saved}, on {ranks}: memory {shape:?}, {:?}", config.stage);
                });
            }
        }
    }
}

/// The saved data has no gaps: it comes from a contiguous array, and is restored to every other cell of another one.
#[test]
fn cells_that_lie_apart_are_those_of_an_array_without_gaps() {
    let folder = TempDir::new().unwrap();
    let array = |memory: &mut [u32], strides: Option<&[u64]>| {
        // SAFETY: the memory outlives the session.
        unsafe {
            let region = Region::array("u", memory.as_mut_ptr().cast(), ElementType::U32, &[3, 5]).unwrap();
            strides.map_or(Ok(region.clone()), |strides| region.spread(strides)).unwrap()
        }
    };
    let fresh = Config { start: Start::Fresh, ..Config::default() };
    let alone = |region: Region, work: &dyn Fn(&mut Session)| {
        let mut session = Session::open(Box::new(Solo), folder.path(), fresh.clone()).unwrap();
        session.protect(region).unwrap();
        work(&mut session);
        session.close().unwrap();
    };
    // The rows are 50 bytes apart, and only every other number of a row is used, without alignment.
    let mut apart = vec![0xffff_ffff_u32; 40];
    let bytes = |memory: &[u32]| memory.iter().flat_map(|number| number.to_ne_bytes()).collect::<Vec<u8>>();
    let mut rows = vec![7_u32; 15];
    rows.iter_mut().enumerate().for_each(|(number, cell)| *cell = number as u32);
    alone(array(&mut rows, None), &|session| assert!(session.checkpoint().is_ok()));
    alone(array(&mut apart, Some(&[50, 8])), &|session| assert!(session.restore().unwrap().is_some()));
    let mut expected = vec![0xff_u8; 160];
    for (number, cell) in rows.iter().enumerate() {
        expected[number / 5 * 50 + number % 5 * 8..][..4].copy_from_slice(&cell.to_ne_bytes());
    }
    assert_eq!(bytes(&apart), expected);

    let saved = std::mem::replace(&mut rows, vec![0; 15]);
    alone(array(&mut apart, Some(&[50, 8])), &|session| assert!(session.checkpoint().is_ok()));
    alone(array(&mut rows, None), &|session| assert!(session.restore().unwrap().is_some()));
    assert_eq!(rows, saved);
}

#[test]
fn what_does_not_fit_into_its_memory_is_refused() {
    let mut memory = [0_u64; 24];
    let mut told = |lay: &dyn Fn(Region) -> Result<Region>| {
        // SAFETY: it is never read.
        let region = unsafe { Region::array("u", memory.as_mut_ptr().cast(), ElementType::U64, &[4, 6]) };
        match lay(region.unwrap()) {
            Err(error @ Error::InvalidArgument { .. }) => error.to_string(),
            other => panic!("{other:?}"),
        }
    };
    // SAFETY: see above.
    let mut within = |shape: &[u64], offset: &[u64]| told(&|region| unsafe { region.within(shape, offset) });
    let outside = within(&[6, 8], &[1, 3]);
    assert!(outside.contains("memory of \"u\"") && outside.contains("6 cells from 3 on along side 1"), "{outside}");
    assert!(outside.contains("where the array in memory has 8"), "{outside}");
    assert!(within(&[6], &[1]).contains("2 dimensions, the array in memory has 1"));
    assert!(within(&[6, u64::MAX / 8], &[1, 1]).contains("more bytes than any memory"));
    assert!(within(&[6, 8], &[u64::MAX, 1]).contains("along side 0"));
    // SAFETY: see above.
    let mut spread = |strides: &[u64]| told(&|region| unsafe { region.spread(strides) });
    assert!(spread(&[47, 8]).contains("cells 47 bytes apart along side 0, each of 48 bytes"));
    assert!(spread(&[48, 7]).contains("along side 1"));
    assert!(spread(&[0, 8]).contains("0 bytes apart"));
    assert!(spread(&[8]).contains("1 strides for 2 dimensions"));
    assert!(spread(&[u64::MAX / 3, 8]).contains("further apart"));
}
