//! Items of a global array: each array is shown as one over its shards.
//!
//! Invariant: every element of such an array is in a shard. If several shards have it, the lowest counts, as in a
//! restore.

use super::{
    super::cover::{Block, blocks_of_their_own},
    shard::{Dataset, LeftOut, Shard},
};
use mainstay_engine::space::format::{ElementType, PlaceInWhole};
use std::collections::BTreeMap;

/// An array over the shards.
#[derive(Debug)]
pub struct Global {
    pub name: String,
    pub element: ElementType,
    pub shape: Vec<u64>,
    pub parts: Vec<Part>,
}

/// A block of the array in one dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Shape of the dataset.
    pub path: String,
    pub block: Block,
    /// Start of the block in the dataset.
    pub within: Vec<u64>,
}

type Placed<'a> = (u32, &'a Dataset, &'a PlaceInWhole);

/// The arrays, and those that cannot be shown as one.
pub fn arrays(shards: &[Shard<'_>], left_out: &[LeftOut]) -> (Vec<Global>, Vec<LeftOut>) {
    let mut placed: BTreeMap<&str, Vec<Placed<'_>>> = BTreeMap::new();
    for shard in shards {
        for dataset in &shard.datasets {
            if let Some(place) = &dataset.item.place {
                let of_name = placed.entry(dataset.item.name.as_str()).or_default();
                of_name.push((shard.survey.shard, dataset, place));
            }
        }
    }
    let (mut arrays, mut refused) = (Vec::new(), Vec::new());
    for (name, parts) in placed {
        let missing = left_out.iter().find(|out| out.item == name).and_then(|out| out.shard);
        let made = match missing {
            Some(shard) => Err(format!("its part in shard {shard} is left out")),
            None => array(name, &parts),
        };
        match made {
            Ok(array) => arrays.push(array),
            Err(why) => refused.push(LeftOut { shard: None, item: name.to_owned(), why }),
        }
    }
    (arrays, refused)
}

fn array(name: &str, placed: &[Placed<'_>]) -> Result<Global, String> {
    let (first, _, PlaceInWhole { global_shape: shape, .. }) = &placed[0];
    let element = placed[0].1.element;
    let mut blocks = Vec::new();
    for (shard, dataset, place) in placed {
        if dataset.element != element || place.global_shape != *shape {
            return Err(format!("shards {first} and {shard} disagree on its type or its shape"));
        }
        // If the shape does not fit the bytes, the dataset is one of bytes.
        let fits = |dim: usize| place.offset[dim].checked_add(dataset.shape[dim]).is_some_and(|end| end <= shape[dim]);
        if shape.is_empty() || dataset.shape != dataset.item.shape || !(0..shape.len()).all(fits) {
            return Err(format!("the part in shard {shard} is outside of it"));
        }
        blocks.push(Block { offset: place.offset.clone(), shape: dataset.shape.clone() });
    }
    let all = elements(shape).filter(|n| n.checked_mul(element.size()).is_some_and(|n| i64::try_from(n).is_ok()));
    let all = all.ok_or_else(|| "it is larger than any file".to_owned())?;
    let own = blocks_of_their_own(&blocks).ok_or_else(|| "its parts overlap too often".to_owned())?;
    // The boxes are inside it and do not overlap, so together they are not larger.
    let held: u64 = own.iter().flatten().filter_map(|block| elements(&block.shape)).sum();
    if held != all {
        return Err(format!("the shards hold {held} of its {all} elements"));
    }
    let parts = placed.iter().zip(own).flat_map(|((_, dataset, place), own)| {
        own.into_iter().map(|block| {
            let within = block.offset.iter().zip(&place.offset).map(|(at, from)| at - from).collect();
            Part { path: dataset.path.clone(), block, within }
        })
    });
    Ok(Global { name: name.to_owned(), element, shape: shape.clone(), parts: parts.collect() })
}

fn elements(shape: &[u64]) -> Option<u64> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1_u64, |total, n| total.checked_mul(*n))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay_engine::space::format::{Item, ItemKind};

    fn dataset(global: &[u64], offset: &[u64], shape: &[u64]) -> Dataset {
        let place = PlaceInWhole { global_shape: global.to_vec(), offset: offset.to_vec() };
        let bytes = shape.iter().product::<u64>() * 8;
        let item = Item {
            name: "t".to_owned(),
            kind: ItemKind::Region,
            element: ElementType::F64,
            bytes,
            shape: shape.to_vec(),
            place: Some(place),
            same_on_all_ranks: false,
            extents: Vec::new(),
        };
        let path = "shard/0/t".to_owned();
        Dataset { path, item, element: ElementType::F64, shape: shape.to_vec(), pieces: Vec::new() }
    }

    fn made(datasets: &[Dataset]) -> Result<Global, String> {
        let placed = datasets.iter().zip(0..).filter_map(|(d, shard)| Some((shard, d, d.item.place.as_ref()?)));
        array("t", &placed.collect::<Vec<_>>())
    }

    #[test]
    fn boxes_that_fill_the_array_are_one() {
        let global: &[u64] = &[4, 6];
        let quarter = |offset: [u64; 2]| dataset(global, &offset, &[2, 3]);
        let quarters = [[2, 3], [0, 0], [0, 3], [2, 0]].map(quarter);
        let array = made(&quarters).unwrap();
        assert_eq!(array.parts.len(), 4);
        assert_eq!(array.parts[0].block, Block { offset: vec![2, 3], shape: vec![2, 3] });
        assert_eq!(array.parts[0].within, [0, 0]);
        // A copy, and a shard without a part of it.
        let more = [[2, 3], [0, 0], [0, 3], [2, 0], [2, 3]].map(quarter);
        assert_eq!(made(&more).unwrap().parts.len(), 4);
        let rows = [dataset(global, &[0, 0], &[4, 6]), dataset(global, &[4, 0], &[0, 6])];
        assert_eq!(made(&rows).unwrap().parts.len(), 1);
        assert_eq!(made(&[dataset(&[0, 6], &[0, 0], &[0, 6])]).unwrap().parts, []);
        // Each shard has a row of its neighbour too.
        let halo = [dataset(global, &[0, 0], &[3, 6]), dataset(global, &[1, 0], &[3, 6])];
        let parts = made(&halo).unwrap().parts;
        let second = Block { offset: vec![3, 0], shape: vec![1, 6] };
        assert_eq!((parts.len(), &parts[1].block, &parts[1].within), (2, &second, &vec![2, 0]));
    }

    #[test]
    fn what_is_no_array_is_told() {
        let global: &[u64] = &[4, 6];
        let part = |offset: [u64; 2], shape: [u64; 2]| dataset(global, &offset, &shape);
        let mut other = part([2, 0], [2, 6]);
        other.element = ElementType::F32;
        let cases = [
            (vec![part([0, 0], [2, 6])], "12 of its 24"),
            // The right number of elements, but not all different ones.
            (vec![part([0, 0], [2, 6]), part([0, 3], [4, 3])], "18 of its 24"),
            (vec![part([3, 0], [2, 6])], "shard 0 is outside of it"),
            (vec![part([u64::MAX, 0], [2, 6])], "shard 0 is outside of it"),
            (vec![part([0, 0], [2, 6]), other], "disagree"),
            (vec![part([0, 0], [2, 6]), dataset(&[4, 7], &[2, 0], &[2, 6])], "disagree"),
            (vec![dataset(&[], &[], &[])], "is outside of it"),
            (vec![dataset(&[u64::MAX, 8], &[0, 0], &[1, 8])], "larger than any file"),
        ];
        for (datasets, says) in cases {
            let why = made(&datasets).unwrap_err();
            assert!(why.contains(says), "{why}");
        }
    }
}
