//! The size of differences between elements.

use mainstay_engine::space::format::ElementType;

/// Number of elements that were compared so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Difference {
    pub changed: u64,
    /// The largest finite difference, and the index of its element.
    pub largest: Option<(f64, u64)>,
    /// Changed elements with an infinite difference or NaN.
    pub not_finite: u64,
    pub first: Option<First>,
}

/// The first changed element.
#[derive(Debug, Clone, PartialEq)]
pub struct First {
    pub index: u64,
    /// Its value in both.
    pub values: [String; 2],
}

impl Difference {
    /// Compares two rows of elements; the first has the index `first`. An incomplete element at the end counts as one
    /// more.
    pub fn add(&mut self, element: ElementType, first: u64, a: &[u8], b: &[u8]) {
        let size = element.size() as usize;
        for (index, (a, b)) in (first..).zip(a.chunks(size).zip(b.chunks(size))) {
            if a == b {
                continue;
            }
            self.changed += 1;
            if self.first.as_ref().is_none_or(|first| index < first.index) {
                self.first = Some(First { index, values: [a, b].map(|bytes| value(element, bytes)) });
            }
            let Some(by) = between(element, a, b) else { continue };
            if !by.is_finite() {
                self.not_finite += 1;
            } else if self.largest.is_none_or(|(largest, _)| largest < by) {
                self.largest = Some((by, index));
            }
        }
    }
}

/// An element as text; bytes, and an incomplete element at the end, as hexadecimal digits.
fn value(element: ElementType, bytes: &[u8]) -> String {
    macro_rules! integer {
        ($type:ty) => {
            bytes.try_into().ok().map(|bytes| <$type>::from_le_bytes(bytes).to_string())
        };
    }
    let real = |real: fn(&[u8]) -> Option<f64>| real(bytes).map(|value| value.to_string());
    let complex = |real: fn(&[u8]) -> Option<f64>| {
        let (a, b) = bytes.split_at_checked(element.size() as usize / 2)?;
        Some(format!("{} + {}i", real(a)?, real(b)?))
    };
    let text = match element {
        ElementType::Bytes => None,
        ElementType::Bool => Some(if bytes == [0] { "false" } else { "true" }.to_owned()),
        ElementType::I8 => integer!(i8),
        ElementType::U8 => integer!(u8),
        ElementType::I16 => integer!(i16),
        ElementType::U16 => integer!(u16),
        ElementType::I32 => integer!(i32),
        ElementType::U32 => integer!(u32),
        ElementType::I64 => integer!(i64),
        ElementType::U64 => integer!(u64),
        ElementType::F16 => real(f16),
        ElementType::BF16 => real(bf16),
        ElementType::F32 => bytes.try_into().ok().map(|bytes| f32::from_le_bytes(bytes).to_string()),
        ElementType::F64 => real(f64),
        ElementType::C64 => complex(f32),
        ElementType::C128 => complex(f64),
    };
    text.unwrap_or_else(|| format!("0x{}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
}

/// `None` if it is no number.
fn between(element: ElementType, a: &[u8], b: &[u8]) -> Option<f64> {
    macro_rules! integers {
        ($type:ty) => {{
            let [a, b] = [a, b].map(|bytes| Some(<$type>::from_le_bytes(bytes.try_into().ok()?)));
            Some(a?.abs_diff(b?) as f64)
        }};
    }
    let reals = |real: fn(&[u8]) -> Option<f64>| Some((real(a)? - real(b)?).abs());
    let complex = |real: fn(&[u8]) -> Option<f64>| {
        let half = element.size() as usize / 2;
        let [a, b] = [(a.get(..half)?, a.get(half..)?), (b.get(..half)?, b.get(half..)?)];
        Some((real(a.0)? - real(b.0)?).hypot(real(a.1)? - real(b.1)?))
    };
    match element {
        ElementType::Bytes | ElementType::Bool => None,
        ElementType::I8 => integers!(i8),
        ElementType::U8 => integers!(u8),
        ElementType::I16 => integers!(i16),
        ElementType::U16 => integers!(u16),
        ElementType::I32 => integers!(i32),
        ElementType::U32 => integers!(u32),
        ElementType::I64 => integers!(i64),
        ElementType::U64 => integers!(u64),
        ElementType::F16 => reals(f16),
        ElementType::BF16 => reals(bf16),
        ElementType::F32 => reals(f32),
        ElementType::F64 => reals(f64),
        ElementType::C64 => complex(f32),
        ElementType::C128 => complex(f64),
    }
}

fn f64(bytes: &[u8]) -> Option<f64> {
    Some(f64::from_le_bytes(bytes.try_into().ok()?))
}

fn f32(bytes: &[u8]) -> Option<f64> {
    Some(f64::from(f32::from_le_bytes(bytes.try_into().ok()?)))
}

/// The upper half of an f32.
fn bf16(bytes: &[u8]) -> Option<f64> {
    Some(f64::from(f32::from_bits(u32::from(u16::from_le_bytes(bytes.try_into().ok()?)) << 16)))
}

fn f16(bytes: &[u8]) -> Option<f64> {
    let bits = u16::from_le_bytes(bytes.try_into().ok()?);
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    let value = match exponent {
        0 => fraction * 2f64.powi(-24),
        0x1f if fraction == 0.0 => f64::INFINITY,
        0x1f => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    };
    Some(if bits >> 15 == 1 { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<const N: usize>(element: ElementType, a: [u8; N], b: [u8; N]) -> Difference {
        let mut difference = Difference::default();
        difference.add(element, 10, &a, &b);
        assert!(difference.first.take().is_some_and(|first| first.index == 10));
        difference
    }

    #[test]
    fn differences_are_those_of_the_element_type() {
        let by = |by: f64| Difference { changed: 1, largest: Some((by, 10)), not_finite: 0, first: None };
        assert_eq!(of(ElementType::I8, [128], [127]), by(255.0));
        assert_eq!(of(ElementType::U8, [128], [127]), by(1.0));
        assert_eq!(of(ElementType::I16, (-3i16).to_le_bytes(), 4i16.to_le_bytes()), by(7.0));
        assert_eq!(of(ElementType::I64, i64::MIN.to_le_bytes(), i64::MAX.to_le_bytes()), by(u64::MAX as f64));
        assert_eq!(of(ElementType::F64, 1.5f64.to_le_bytes(), (-0.5f64).to_le_bytes()), by(2.0));
        assert_eq!(of(ElementType::F32, 1.5f32.to_le_bytes(), 1.25f32.to_le_bytes()), by(0.25));
        assert_eq!(of(ElementType::BF16, [0x80, 0x3f], [0x00, 0x40]), by(1.0));
        // 1, 2, the least, the largest.
        assert_eq!(of(ElementType::F16, [0x00, 0x3c], [0x00, 0x40]), by(1.0));
        assert_eq!(of(ElementType::F16, [0x01, 0x00], [0x00, 0x80]), by(2f64.powi(-24)));
        assert_eq!(of(ElementType::F16, [0xff, 0x7b], [0x00, 0x00]), by(65504.0));
        let complex = |re: f32, im: f32| [re.to_le_bytes(), im.to_le_bytes()].concat().try_into().unwrap();
        assert_eq!(of::<8>(ElementType::C64, complex(3.0, 1.0), complex(0.0, 5.0)), by(5.0));
        assert_eq!(of(ElementType::Bool, [0], [1]), Difference { changed: 1, ..Difference::default() });
        assert_eq!(of(ElementType::Bytes, [0, 7, 2], [1, 7, 3]), Difference { changed: 2, ..Difference::default() });
    }

    #[test]
    fn what_is_no_number_is_counted_apart() {
        let mut difference = Difference::default();
        let row = |values: [f64; 4]| values.map(f64::to_le_bytes).concat();
        difference.add(
            ElementType::F64,
            0,
            &row([f64::NAN, 1.0, f64::INFINITY, 3.0]),
            &row([1.0, 1.0, f64::INFINITY, 3.5]),
        );
        difference.add(ElementType::F64, 4, &row([0.0, 1.0, 2.0, f64::INFINITY]), &row([-0.0, 1.25, 2.0, 0.0]));
        let first = Some(First { index: 0, values: ["NaN".to_owned(), "1".to_owned()] });
        assert_eq!(difference, Difference { changed: 5, largest: Some((0.5, 3)), not_finite: 2, first });
    }

    #[test]
    fn elements_read_well() {
        let complex = [1.5f32.to_le_bytes(), (-2f32).to_le_bytes()].concat();
        let all = [
            value(ElementType::I16, &(-3i16).to_le_bytes()),
            value(ElementType::F32, &0.1f32.to_le_bytes()),
            value(ElementType::F64, &0.1f64.to_le_bytes()),
            value(ElementType::C64, &complex),
            value(ElementType::Bool, &[1]),
            value(ElementType::Bytes, &[0x0a]),
            value(ElementType::F64, &[1, 2]),
        ];
        assert_eq!(all, ["-3", "0.1", "0.1", "1.5 + -2i", "true", "0x0a", "0x0102"]);
    }
}
