//! Changes of a file that is mostly zeros. An input is a list of patches, so that each of its bytes matters.

use crate::{image, kept};
use mainstay_format::{BLOCK, HASH_BYTES};
use std::fs;

/// The length of one patch.
const PATCH_BYTES: usize = 12;
/// Bytes that can be patched after the last nonzero byte of a block: a longer list would go on there.
const BEHIND_BYTES: usize = 16;
/// The head of a record that fills its block.
const HEAD_BYTES: usize = 64;

/// A file that Mainstay has written, and the offsets of the bytes that matter.
pub(crate) struct Patched {
    file: Vec<u8>,
    places: Vec<usize>,
}

impl Patched {
    /// The file of an image beside the kept inputs.
    pub(crate) fn of_image(name: &str) -> Patched {
        let file = image::file(&fs::read(kept::folder().join(name)).expect("the image is kept"));
        let places = places(&file);
        Patched { file, places }
    }

    /// The file with these patches. Each is a place, the width of a number, and its value.
    pub(crate) fn with(&self, patches: &[u8]) -> Vec<u8> {
        let mut file = self.file.clone();
        let (patches, _) = patches.as_chunks::<PATCH_BYTES>();
        for [a, b, c, width, value @ ..] in patches {
            let place = self.places[u32::from_le_bytes([*a, *b, *c, 0]) as usize % self.places.len()];
            let width = 1 << (width % 4);
            // Numbers lie at multiples of their width.
            file[place / width * width..][..width].copy_from_slice(&value[..width]);
        }
        file
    }
}

/// Patches drawn at random, with numbers that records may have.
pub(crate) fn draw(random: &mut fastrand::Rng) -> Vec<u8> {
    let one = |_| {
        let place: [u8; 3] = std::array::from_fn(|_| random.u8(..));
        let value = random.choice([0_u64, 1, 2, 8, 16, 4096, 65536, 1 << 20, 1 << 40, 1 << 62, u64::MAX]).unwrap_or(0);
        [&place[..], &[random.u8(..4)], &value.to_le_bytes()].concat()
    };
    (0..3).flat_map(one).collect()
}

/// The offsets of all bytes but the program's data, which fills its blocks.
fn places(file: &[u8]) -> Vec<usize> {
    let used = |block: &[u8]| match block[..block.len() - HASH_BYTES].iter().rposition(|byte| *byte != 0) {
        None => 0,
        Some(last) if last + 1 < block.len() - HASH_BYTES => last + 1 + BEHIND_BYTES.min(block.len() - last - 1),
        Some(_) if block.starts_with(b"MSTY") => HEAD_BYTES,
        Some(_) => 0,
    };
    file.chunks(BLOCK).enumerate().flat_map(|(number, block)| number * BLOCK..number * BLOCK + used(block)).collect()
}
