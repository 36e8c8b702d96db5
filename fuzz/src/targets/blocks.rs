//! Records of one block: header, slots, holds, requests, answers, opener; and the catalogue.

use crate::Target;
use mainstay_format::{
    BLOCK, Catalogue, CheckpointAnswer, CheckpointRequest, HASH_BYTES, Header, HoldAnswers, HoldBlock, Opener, Slot,
    hash,
};

pub(super) static TARGETS: [Target; 4] = [
    Target::new("header", header, 40_000).repaired(repair_header),
    Target::new("slot", slot, 40_000).repaired(seal),
    Target::new("catalogue", catalogue, 40_000),
    Target::new("words", words, 40_000).repaired(seal),
];

/// No portion is larger.
pub(super) const PORTION_BYTES: u64 = 1 << 40;

/// Offsets in the header's block.
const PORTIONS_AT: usize = 52;
const TABLE_HASH_AT: usize = 56;
/// Offsets in a slot.
const LAYOUT_AT: usize = 24;
const RANK_AT: usize = 40;

/// Writes the hash of the first block into its last bytes.
pub(super) fn seal(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().max(BLOCK), 0);
    let sum = hash(&bytes[..BLOCK - HASH_BYTES]);
    bytes[BLOCK - HASH_BYTES..BLOCK].copy_from_slice(&sum);
}

pub(super) fn repair_header(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().max(BLOCK), 0);
    let portions = u32_at(bytes, PORTIONS_AT) as usize;
    if let Some(table) = bytes.get(BLOCK..Header::bytes_for(portions) as usize) {
        let sum = hash(table);
        bytes[TABLE_HASH_AT..][..HASH_BYTES].copy_from_slice(&sum);
    }
    seal(bytes);
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |number| u32::from_le_bytes(*number))
}

fn header(bytes: &[u8]) {
    let parse = |bytes: &[u8]| {
        let (block, rest) = bytes.split_first_chunk()?;
        let table = rest.get(..Header::table_bytes(block).ok()?)?;
        Header::parse(block, table).ok()
    };
    if let Some(header) = parse(bytes) {
        assert_eq!(parse(&header.build()), Some(header));
    }
}

fn slot(bytes: &[u8]) {
    let Some(block) = bytes.first_chunk() else { return };
    let layout_id = std::array::from_fn(|at| block[LAYOUT_AT + at]);
    let parse = |block| Slot::parse(block, layout_id, u32_at(bytes, RANK_AT), PORTION_BYTES).ok();
    if let Some(slot) = parse(block) {
        assert_eq!(parse(&slot.build()), Some(slot));
    }
}

fn catalogue(bytes: &[u8]) {
    let parse = |bytes: &[u8]| Catalogue::parse(bytes, &hash(bytes), PORTION_BYTES).ok();
    if let Some(catalogue) = parse(bytes) {
        assert_eq!(parse(&catalogue.build()), Some(catalogue));
    }
}

/// The blocks by which processes talk to a job. Each reader of such a block reads the bytes.
fn words(bytes: &[u8]) {
    let Some(block) = bytes.first_chunk() else { return };
    if let HoldBlock::Hold(hold) = HoldBlock::parse(block) {
        assert_eq!(HoldBlock::parse(&hold.build()), HoldBlock::Hold(hold));
    }
    if let Some(answers) = HoldAnswers::parse(block) {
        assert_eq!(HoldAnswers::parse(&answers.build()), Some(answers));
    }
    if let Some(request) = CheckpointRequest::parse(block) {
        assert_eq!(CheckpointRequest::parse(&request.build()), Some(request));
    }
    if let Some(answer) = CheckpointAnswer::parse(block) {
        assert_eq!(CheckpointAnswer::parse(&answer.build()), Some(answer));
    }
    if let Some(opener) = Opener::parse(block) {
        assert_eq!(Opener::parse(&opener.build()), Some(opener));
    }
}
