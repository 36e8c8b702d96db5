//! Cutting an array into chunks for the copy.

/// Larger arrays are cut.
const CHUNK_BYTES: u64 = 1 << 20;

/// A chunk is contiguous in the array: some rows of one dimension, with all of the later dimensions.
#[derive(Debug)]
pub struct Chunks {
    /// Bytes of a chunk.
    pub shape: Vec<u64>,
    /// Rows of a full chunk; the last along the dimension may have fewer.
    pub bytes: u64,
    /// Bytes along the cut dimension: the distance between two neighbours in the dimension before it.
    span: u64,
    total: u64,
}

impl Chunks {
    /// `None` if the array is copied whole.
    pub fn of(element_bytes: u64, shape: &[u64]) -> Option<Chunks> {
        let total = shape.iter().fold(element_bytes, |total, n| total * n);
        if total <= CHUNK_BYTES {
            return None;
        }
        let (mut chunk, mut row) = (vec![1; shape.len()], element_bytes);
        for dim in (0..shape.len()).rev() {
            let span = row * shape[dim];
            if span > CHUNK_BYTES {
                chunk[dim] = CHUNK_BYTES / row;
                return Some(Chunks { bytes: chunk[dim] * row, shape: chunk, span, total });
            }
            (chunk[dim], row) = (shape[dim], span);
        }
        None
    }

    /// Offset and bytes of each chunk, in order.
    pub fn each(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let Chunks { bytes, span, total, .. } = *self;
        (0..total).step_by(span as usize).flat_map(move |from| {
            let within = (0..span).step_by(bytes as usize);
            within.map(move |at| (from + at, bytes.min(span - at)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_follow_one_another_and_are_the_whole() {
        let shapes: [&[u64]; 8] = [
            &[3 << 20],
            &[7, 1_000_003],
            &[3, 5, 300_000],
            &[2000, 1000],
            &[1 << 21, 1, 1],
            &[2, 3, 1 << 18, 2],
            &[1025, 128],
            &[1, 1, 131_073],
        ];
        for shape in shapes {
            let chunks = Chunks::of(8, shape).unwrap();
            let mut end = 0;
            for (at, bytes) in chunks.each() {
                assert!(at == end && (1..=chunks.bytes).contains(&bytes), "{shape:?}: {chunks:?}");
                end += bytes;
            }
            assert_eq!(end, shape.iter().product::<u64>() * 8);
            assert_eq!(chunks.shape.iter().product::<u64>() * 8, chunks.bytes);
            assert!(chunks.bytes <= CHUNK_BYTES && chunks.bytes > CHUNK_BYTES / 4, "{shape:?}: {chunks:?}");
            let grid = shape.iter().zip(&chunks.shape).map(|(all, one)| all.div_ceil(*one)).product::<u64>();
            assert_eq!(chunks.each().count() as u64, grid);
        }
        for shape in [&[][..], &[0, 1 << 40], &[1 << 17]] {
            assert!(Chunks::of(8, shape).is_none());
        }
    }
}
