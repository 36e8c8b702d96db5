use super::*;

/// A shard of number `number` in those blocks.
fn kept(number: u64, blocks: impl Iterator<Item = u64>, is_imagined: bool) -> Arc<Kept> {
    let nothing = Blocks { first: 0, count: 0 };
    let (freeing, data, shared, early, frames) = Default::default();
    let room = Allocation {
        freeing,
        catalogue: nothing,
        meta: nothing,
        data,
        shared,
        early,
        is_outline: false,
        frames,
        packing: None,
    };
    let imagined = room.imagined(number);
    let lineage = Lineage { number: if is_imagined { imagined.entry.lineage.number } else { 1 }, id: [0; 16] };
    let blocks = blocks.map(|first| Blocks { first, count: 1 }).collect();
    Arc::new(Kept::new(Entry { lineage, ..imagined.entry }, blocks, 0, Vec::new()))
}

/// Each step of a rehearsal went through all blocks of each kept revision: with 30 revisions that took longer than
/// the rest of the checkpoint.
#[test]
fn what_is_free_beside_one_list_after_the_other_is_what_is_free_beside_each() {
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut maps = FreeMaps::new((10, 2010));
        let mut some = |number: u64, is_imagined| {
            let odds = *random.choice(&[2, 100, 500]).unwrap();
            kept(number, (10..2010).filter(|_| random.u32(..odds) == 0).collect::<Vec<_>>().into_iter(), is_imagined)
        };
        let saved: Vec<_> = (0..6).map(|number| some(number, false)).collect();
        let imagined: Vec<_> = (0..6).map(|number| some(number, true)).collect();
        for _ in 0..30 {
            let (from, to, made) = (random.usize(..6), random.usize(1..=6), random.usize(..6));
            let list: Vec<_> = saved[from.min(to)..to].iter().chain(&imagined[..made]).collect();
            let found = maps.beside(list.iter().copied());
            let alone = FreeMap::new(10, 2010, list.iter().flat_map(|kept| kept.blocks.iter().copied()));
            assert_eq!(found.count(), alone.count(), "seed {seed}");
            for block in 10..2010 {
                let block = Blocks { first: block, count: 1 };
                assert_eq!(found.has(block), alone.has(block), "seed {seed}: {block:?}");
            }
        }
    }
}

const FRESH: Referred<'_> = Referred { sequence: 1, kept: &[], catalogue: None };

/// A portion that was full to the last block had no room for the root of the job that opened it.
#[test]
fn each_slot_without_a_catalogue_has_one_set_aside() {
    let lies = |first| Some(Blocks { first, count: 1 });
    for (catalogues, aside) in
        [([None, None], 2), ([lies(10), None], 1), ([lies(10), lies(10)], 1), ([lies(10), lies(11)], 0)]
    {
        let slots = catalogues.map(|catalogue| Referred { catalogue, ..FRESH });
        // The blocks that the slots refer to are at the front.
        let fits =
            |data| allocate(&mut FreeMaps::new((10, 30)), slots, &[], &[], Need { data, meta: 2, packing: None });
        let taken = catalogues.iter().flatten().map(|blocks| blocks.first).max().map_or(0, |last| last - 9);
        let most = 20 - taken - aside - 3;
        let room = fits(most).unwrap();
        assert_eq!((room.freeing.len(), room.catalogue.count), (0, 1), "{catalogues:?}");
        assert!(fits(most + 1).is_none_or(|room| !room.freeing.is_empty()), "{catalogues:?}");
    }
}
