use super::*;
use crate::capture::OwnMemory;
use crate::space::format::{ElementType, ItemKind};
use std::collections::HashMap;

/// The process has one heap, so one test runs at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn fresh() {
    *lock(&HEAP) = Heap::new();
}

/// Allocates and frees as a program does. Returns the addresses and their contents.
fn play(seed: u64) -> HashMap<usize, (usize, u8)> {
    let (mut random, mut all) = (fastrand::Rng::with_seed(seed), HashMap::<usize, (usize, u8)>::new());
    let mut order: Vec<usize> = Vec::new();
    for step in 0..3000_u32 {
        let bytes = if random.u8(..) < 4 { random.usize(..1 << 20) } else { random.usize(..3000) };
        let given = match random.u8(..8) {
            0..4 => allocate(bytes, 16),
            4 => allocate(bytes, 256).inspect(|at| assert!(at.addr().is_multiple_of(256))),
            5 if !order.is_empty() => {
                let at = order.swap_remove(random.usize(..order.len()));
                let (had, value) = all.remove(&at).unwrap();
                // SAFETY: memory that was given out.
                #[allow(unsafe_code)]
                let to = unsafe { resize(at as *mut u8, bytes) }.unwrap();
                assert!(bytes_are(to, had.min(bytes), value));
                Some(to)
            }
            _ if !order.is_empty() => {
                let at = order.swap_remove(random.usize(..order.len()));
                let (had, value) = all.remove(&at).unwrap();
                assert!(bytes_are(at as *mut u8, had, value) && release(at as *mut u8));
                assert!(!release(at as *mut u8), "twice");
                None
            }
            _ => allocate_zeros(bytes).inspect(|at| assert!(bytes_are(*at, bytes, 0))),
        };
        if let Some(at) = given {
            // SAFETY: memory that was given out.
            #[allow(unsafe_code)]
            unsafe {
                ptr::write_bytes(at, step as u8, bytes);
            }
            assert!(all.insert(at.addr(), (bytes, step as u8)).is_none());
            order.push(at.addr());
        }
    }
    for (at, (bytes, value)) in &all {
        assert!(bytes_are(*at as *mut u8, *bytes, *value));
    }
    all
}

fn bytes_are(at: *mut u8, bytes: usize, value: u8) -> bool {
    // SAFETY: memory that was given out.
    #[allow(unsafe_code)]
    let all = unsafe { std::slice::from_raw_parts(at, bytes) };
    all.iter().all(|byte| *byte == value)
}

#[test]
fn the_same_calls_give_the_same_addresses_and_nothing_overlaps() {
    let _alone = lock(&ALONE);
    fresh();
    let first = play(7);
    fresh();
    assert_eq!(play(7), first);
    assert!(lock(&HEAP).segments.len() < 100);
    for at in [0, 1, START - 1, START + 5, END, usize::MAX] {
        assert!(!release(at as *mut u8));
    }
    assert_eq!([allocate(usize::MAX, 16), allocate(1 << 60, 16), allocate(1, 1 << 40)], [None; 3]);
    fresh();
}

/// The taken slots follow from the bytes of the slabs alone.
#[test]
fn a_heap_that_was_laid_out_goes_on_where_it_was() {
    let _alone = lock(&ALONE);
    fresh();
    let before = play(3);
    let bytes: Vec<(Region, Vec<u8>)> = lock(&HEAP)
        .regions()
        .unwrap()
        .into_iter()
        .map(|region| {
            let mut bytes = vec![0; region.description.bytes as usize];
            region.copy_out(0, &mut bytes);
            (region, bytes)
        })
        .collect();
    let next: Vec<_> = (0..100).map(|at| allocate(at * 50, 16)).collect();
    fresh();
    play(4);
    let saved = SavedHeap(());
    saved.lay_out(&bytes.iter().map(|(region, _)| region.clone()).collect::<Vec<_>>()).unwrap();
    bytes.iter().for_each(|(region, bytes)| region.copy_in(0, bytes));
    saved.look(&mut Regions::default()).unwrap();
    assert!(before.iter().all(|(at, (bytes, value))| bytes_are(*at as *mut u8, *bytes, *value)));
    assert_eq!((0..100).map(|at| allocate(at * 50, 16)).collect::<Vec<_>>(), next);
    assert!(before.keys().all(|at| release(*at as *mut u8)));
    drop(saved);
    fresh();
}

fn note() -> [Note; 1] {
    [Note { name: NOTE.to_owned(), value: NOTE_VALUE.to_owned() }]
}

fn item(name: &str, bytes: u64) -> Item {
    Item {
        name: name.to_owned(),
        kind: ItemKind::Region,
        element: ElementType::Bytes,
        bytes,
        shape: vec![bytes],
        place: None,
        same_on_all_ranks: false,
        extents: Vec::new(),
    }
}

/// Names and sizes in a forged space.
#[test]
fn segments_that_overlap_or_reach_too_far_are_refused() {
    let _alone = lock(&ALONE);
    let saved = SavedHeap(());
    let good = [item("heap/400000000000", 5 << 20), item("heap/of-16/400000600000", 65536), item("other", 3)];
    assert_eq!(saved.to_fill(&[], &good, &note(), 1).unwrap().len(), 2);
    for bad in [
        [item("heap/400000000000", 5 << 20), item("heap/of-16/400000400000", 65536)],
        [item("heap/400000000000", 0), item("other", 3)],
        [item("heap/400000000000", u64::MAX), item("other", 3)],
        [item("heap/of-16/400000600000", (1 << 20) + 1), item("other", 3)],
    ] {
        assert!(saved.to_fill(&[], &bad, &note(), 1).is_err());
    }
    assert!(saved.to_fill(&[], &good, &[], 1).unwrap_err().to_string().contains("not in revision 1"));
}

/// Story: all memory freed between two checkpoints stayed mapped, and a program that allocates and frees ran out of
/// memory.
#[test]
fn memory_that_no_session_knows_of_goes_at_once() {
    const BYTES: usize = 1 << 20;
    let _alone = lock(&ALONE);
    fresh();
    let saved = SavedHeap::claim(&mut Notes::default()).unwrap();
    let mut regions = Regions::default();
    let known = allocate(BYTES, 16).unwrap();
    saved.look(&mut regions).unwrap();
    let unknown = allocate(BYTES, 16).unwrap();
    assert!(release(known) && release(unknown));
    assert_eq!(lock(&HEAP).given_back.len(), 1);
    for looked in 0..2 {
        assert_eq!(allocate(BYTES, 16), Some(unknown), "{looked}: threads may read saved memory");
        assert!(release(unknown));
        saved.look(&mut regions).unwrap();
    }
    assert_eq!(allocate(BYTES, 16), Some(known));
    drop(saved);
    fresh();
}

/// Story: the heap of this run was gone, and the error named an existing file.
#[test]
fn a_heap_whose_addresses_are_taken_is_refused_and_the_one_of_now_stays() {
    let _alone = lock(&ALONE);
    fresh();
    let saved = SavedHeap::claim(&mut Notes::default()).unwrap();
    let before = play(6);
    // First where nothing is mapped, beside a segment that stays; then in the middle of the wanted addresses.
    let at = START + 1000 * GRANULE;
    let in_the_way = OwnMemory::at(at + GRANULE, 1).unwrap();
    let items = [item("heap/400000000000", 5 << 20), item(&format!("heap/{at:x}"), 5 << 20)];
    let error = saved.to_fill(&[], &items, &note(), 3).unwrap_err().to_string();
    let place = format!("at {:#x} to {:#x}, where revision 3 has its heap", at + GRANULE, at + GRANULE + 4096);
    assert!(error.contains(&place) && error.contains("restore before"), "{error}");
    assert!(before.iter().all(|(at, (bytes, value))| bytes_are(*at as *mut u8, *bytes, *value)));
    drop(in_the_way);
    let regions = saved.to_fill(&[], &items, &note(), 3).unwrap();
    saved.lay_out(&regions).unwrap();
    drop(saved);
    fresh();
}
