//! An item as an array, for tools that know arrays.

use mainstay_engine::space::format::{ElementType, Item};

/// Saved element type and shape of the item, or else its bytes in a row.
pub fn of(item: &Item) -> (ElementType, Vec<u64>) {
    let product = item.shape.iter().try_fold(item.element.size(), |total, n| total.checked_mul(*n));
    let is_said = item.element != ElementType::Bytes || !item.shape.is_empty();
    // No tool has a length beyond the signed numbers, not even for an empty array.
    let is_sane = item.shape.iter().all(|n| i64::try_from(*n).is_ok());
    if is_said && is_sane && product == Some(item.bytes) {
        (item.element, item.shape.clone())
    } else {
        (ElementType::Bytes, vec![item.bytes])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainstay_engine::space::format::ItemKind;

    fn item(element: ElementType, bytes: u64, shape: &[u64]) -> Item {
        let (name, kind, place, extents) = ("step".to_owned(), ItemKind::Region, None, Vec::new());
        Item { name, kind, element, bytes, shape: shape.to_vec(), place, same_on_all_ranks: false, extents }
    }

    /// A number saved as an array without dimensions came out as eight bytes.
    #[test]
    fn a_single_number_keeps_its_type() {
        assert_eq!(of(&item(ElementType::I64, 8, &[])), (ElementType::I64, Vec::new()));
        assert_eq!(of(&item(ElementType::I64, 16, &[])), (ElementType::Bytes, vec![16]));
    }

    /// One byte without a stated type came out as an array without dimensions, two as a row of two.
    #[test]
    fn bytes_of_which_nothing_was_said_are_a_row() {
        for bytes in 0..3 {
            assert_eq!(of(&item(ElementType::Bytes, bytes, &[])), (ElementType::Bytes, vec![bytes]));
        }
    }

    #[test]
    fn a_shape_that_cannot_be_is_left_out() {
        for shape in [&[0, u64::MAX][..], &[u64::MAX, 0], &[3], &[u64::MAX, 2]] {
            assert_eq!(of(&item(ElementType::F64, 0, shape)), (ElementType::Bytes, vec![0]), "{shape:?}");
        }
        assert_eq!(of(&item(ElementType::F64, 0, &[0, 5])), (ElementType::F64, vec![0, 5]));
    }
}
