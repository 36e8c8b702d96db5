//! A sparse file in few bytes: its length, and each block that has a byte other than zero.

use mainstay_format::BLOCK;

const HEAD: usize = 6;

/// The image of a file.
pub(crate) fn image(file: &[u8]) -> Vec<u8> {
    let mut bytes = (file.len() as u32).to_le_bytes().to_vec();
    for (number, block) in file.chunks(BLOCK).enumerate() {
        let used = block.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        if used > 0 {
            bytes.extend((number as u32).to_le_bytes());
            bytes.extend((used as u16).to_le_bytes());
            bytes.extend(&block[..used]);
        }
    }
    bytes
}

/// The file of an image, which Mainstay itself has made.
pub(crate) fn file(image: &[u8]) -> Vec<u8> {
    let (length, mut rest) = image.split_first_chunk().expect("an image has a length");
    let mut file = vec![0; u32::from_le_bytes(*length) as usize];
    while let Some((head, blocks)) = rest.split_first_chunk::<HEAD>() {
        let [a, b, c, d, low, high] = *head;
        let (used, at) = (u16::from_le_bytes([low, high]) as usize, u32::from_le_bytes([a, b, c, d]) as usize * BLOCK);
        file[at..at + used].copy_from_slice(&blocks[..used]);
        rest = &blocks[used..];
    }
    file
}
