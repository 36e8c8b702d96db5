//! Texts in fields of a fixed length.

/// A text in a field of `BYTES` bytes: its length, and as much of the text as fits.
pub(super) fn text_field<const BYTES: usize>(text: &str) -> (u32, [u8; BYTES]) {
    let mut field = [0; BYTES];
    let mut bytes = text.len().min(BYTES);
    while !text.is_char_boundary(bytes) {
        bytes -= 1;
    }
    field[..bytes].copy_from_slice(&text.as_bytes()[..bytes]);
    (bytes as u32, field)
}

/// The text of such a field; `None` if the field contradicts itself.
pub(super) fn text_of(bytes: u32, field: &[u8]) -> Option<String> {
    let text = field.get(..usize::try_from(bytes).ok()?)?;
    std::str::from_utf8(text).ok().map(str::to_owned)
}
