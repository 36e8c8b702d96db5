//! The places of an item's bytes in the layout file.

use mainstay_engine::space::format::Item;

/// HDF5 joins at most this many pieces to a dataset: their list is one message of an object header, of 64 KiB at 24
/// bytes a piece.
pub const PIECES_MAX: usize = 2700;

/// A range of the layout file, or of zeros, which are stored nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// `None`: zeros.
    pub at: Option<u64>,
    pub bytes: u64,
}

/// The item's bytes in order, in a portion that begins at `portion_at`. Adjacent ranges are one piece.
pub fn pieces(item: &Item, portion_at: u64) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for extent in item.extents.iter().filter(|extent| extent.bytes > 0) {
        let at = (!extent.is_zeros()).then(|| portion_at + extent.at);
        match pieces.last_mut() {
            Some(last) if last.at.map(|begins| begins + last.bytes) == at => last.bytes += extent.bytes,
            _ => pieces.push(Piece { at, bytes: extent.bytes }),
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay_engine::space::format::{ElementType, Extent, ItemKind};

    #[test]
    fn neighbours_are_one_piece() {
        let zeros = Extent::ZEROS;
        let extents = [(10, 5), (15, 3), (18, 0), (40, 2), (18, 1), (zeros, 4), (zeros, 1), (19, 2)];
        let extents = extents.map(|(at, bytes)| Extent { at, bytes });
        let item = Item {
            name: "a".to_owned(),
            kind: ItemKind::Stream,
            element: ElementType::Bytes,
            bytes: 18,
            shape: Vec::new(),
            place: None,
            same_on_all_ranks: false,
            extents: extents.to_vec(),
        };
        let expected = [(Some(110), 8), (Some(140), 2), (Some(118), 1), (None, 5), (Some(119), 2)];
        let expected = expected.map(|(at, bytes)| Piece { at, bytes });
        assert_eq!(pieces(&item, 100), expected);
    }
}
