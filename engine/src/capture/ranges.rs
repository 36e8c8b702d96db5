//! Ranges of addresses.

pub(in crate::capture) type Range = std::ops::Range<u64>;

/// Whether two ranges have an address in common.
pub(in crate::capture) fn meet(one: &Range, other: &Range) -> bool {
    one.start.max(other.start) < one.end.min(other.end)
}

/// The nonempty parts of `range` outside `others`, which may be in any order and overlap.
pub(in crate::capture) fn without(range: Range, others: &[Range]) -> Vec<Range> {
    let mut others: Vec<&Range> = others.iter().filter(|other| other.start < other.end).collect();
    others.sort_unstable_by_key(|other| other.start);
    let (mut left, mut at) = (Vec::new(), range.start);
    for other in others {
        if at < other.start.min(range.end) {
            left.push(at..other.start.min(range.end));
        }
        at = at.max(other.end);
    }
    if at < range.end {
        left.push(at..range.end);
    }
    left
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "lists of ranges, some with one")]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_splits_what_is_left() {
        let left = |others: &[Range]| without(10..20, others);
        assert_eq!(left(&[]), [10..20]);
        assert_eq!(left(&[0..10, 20..30, 15..15]), [10..20]);
        assert_eq!(left(&[14..16, 11..12]), [10..11, 12..14, 16..20]);
        assert_eq!(left(&[5..12, 8..14, 19..40]), [14..19]);
        assert_eq!(left(&[10..11, 12..18, 13..14]), [11..12, 18..20]);
        assert_eq!(left(&[0..100]), []);
    }
}
