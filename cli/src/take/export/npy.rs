//! The header of a .npy file, version 1.0, which describes the bytes after it.

use mainstay_engine::space::format::ElementType;

/// All bytes of the header; a multiple of 64.
pub fn header(element: ElementType, shape: &[u64]) -> Vec<u8> {
    const BEFORE: usize = 10;
    let numbers: String = shape.iter().map(|n| format!("{n}, ")).collect();
    // A tuple of one keeps its comma.
    let shape = if shape.len() == 1 { numbers.trim_end() } else { numbers.trim_end_matches(", ") };
    let mut text = format!("{{'descr': '{}', 'fortran_order': False, 'shape': ({shape}), }}", element.numpy());
    let bytes = (BEFORE + text.len() + 1).next_multiple_of(64);
    text += &" ".repeat(bytes - BEFORE - text.len() - 1);
    text.push('\n');
    // 32 dimensions of 20 digits are far below the limit of a two-byte length.
    let length = (text.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], text.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_as_numpy_writes_them() {
        let cases: [(&[u64], &str); 5] =
            [(&[4, 3], "(4, 3)"), (&[7], "(7,)"), (&[0, 2], "(0, 2)"), (&[1, 2, 3], "(1, 2, 3)"), (&[], "()")];
        for (shape, text) in cases {
            let header = header(ElementType::F64, shape);
            let length = u16::from_le_bytes([header[8], header[9]]) as usize;
            assert_eq!((header.len() % 64, header.len()), (0, 10 + length));
            let expected = format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {text}, }}");
            assert_eq!(str::from_utf8(&header[10..]).unwrap().trim_end(), expected);
            assert!(header.starts_with(b"\x93NUMPY\x01\x00") && header.ends_with(b"\n"));
        }
        assert!(header(ElementType::C128, &[u64::MAX; 32]).len() < 1 << 16);
    }
}
