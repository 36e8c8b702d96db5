//! Requests to a running job from outside, for a checkpoint or for a checkpoint after all objects have left a node, and
//! the job's answers: two blocks of the lock file, which exists as long as the space. A damaged block counts as
//! missing.

use super::{
    BLOCK, Lineage, NUMBER_MAX, VERSION,
    hash::{is_sealed, sealed},
    text::{text_field, text_of},
};
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    little_endian::{U32, U64},
};

const REQUEST_MAGIC: [u8; 8] = *b"MSTYREQU";
const ANSWER_MAGIC: [u8; 8] = *b"MSTYANSW";

/// Identifies one request; drawn at random.
pub type Ticket = [u8; 16];

/// Maximum bytes of a node's name in a request, and of a refusal in an answer.
pub const NODE_BYTES_MAX: usize = 256;
const WHY_BYTES_MAX: usize = 1024;

const MOVED: u32 = 1;
const REFUSED: u32 = 2;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RequestRecord {
    magic: [u8; 8],
    version: U32,
    flags: U32,
    ticket: Ticket,
    asked_unix_ns: U64,
    node_bytes: U32,
    node: [u8; NODE_BYTES_MAX],
    reserved: [u8; 3780],
    hash: [u8; 16],
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct AnswerRecord {
    magic: [u8; 8],
    version: U32,
    flags: U32,
    ticket: Ticket,
    lineage: U64,
    lineage_id: [u8; 16],
    number: U64,
    moved: U64,
    emptied: U32,
    why_bytes: U32,
    why: [u8; WHY_BYTES_MAX],
    copies: U64,
    copies_stay: U64,
    reserved: [u8; 2960],
    hash: [u8; 16],
}

const _: () = assert!(size_of::<RequestRecord>() == BLOCK && size_of::<AnswerRecord>() == BLOCK);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointRequest {
    pub ticket: Ticket,
    pub asked_unix_ns: u64,
    /// The node that all objects should leave before the checkpoint; empty: none.
    pub node: String,
}

/// Result of a request that all objects leave a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Emptied {
    /// There was no such request, or the program has no objects that could move.
    #[default]
    No,
    /// All objects have left the node.
    Moved {
        objects: u64,
        /// Copies of shards that move to other nodes with the revision.
        copies: u64,
        /// Copies that stay, because there are too few other nodes to hold them.
        copies_stay: u64,
    },
    /// The objects stay, for this reason.
    Refused(String),
}

/// Shows that the job looks for requests, and the last one that it answered, with the revision of this number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointAnswer {
    /// All zeros before the first.
    pub ticket: Ticket,
    /// The run that answers.
    pub lineage: Lineage,
    pub number: u64,
    pub emptied: Emptied,
}

impl CheckpointRequest {
    pub fn build(&self) -> [u8; BLOCK] {
        let (node_bytes, node) = text_field(&self.node);
        let record = RequestRecord {
            magic: REQUEST_MAGIC,
            version: VERSION.into(),
            flags: 0.into(),
            ticket: self.ticket,
            asked_unix_ns: self.asked_unix_ns.into(),
            node_bytes: node_bytes.into(),
            node,
            reserved: [0; 3780],
            hash: [0; 16],
        };
        sealed(zerocopy::transmute!(record))
    }

    pub fn parse(block: &[u8; BLOCK]) -> Option<CheckpointRequest> {
        let record: &RequestRecord = zerocopy::transmute_ref!(block);
        let whole = record.magic == REQUEST_MAGIC && is_sealed(block) && record.version.get() <= VERSION;
        let node = text_of(record.node_bytes.get(), &record.node).filter(|_| whole)?;
        Some(CheckpointRequest { ticket: record.ticket, asked_unix_ns: record.asked_unix_ns.get(), node })
    }
}

impl CheckpointAnswer {
    pub fn build(&self) -> [u8; BLOCK] {
        let (emptied, [moved, copies, copies_stay], why) = match &self.emptied {
            Emptied::No => (0, [0; 3], ""),
            Emptied::Moved { objects, copies, copies_stay } => (MOVED, [*objects, *copies, *copies_stay], ""),
            Emptied::Refused(why) => (REFUSED, [0; 3], why.as_str()),
        };
        let (why_bytes, why) = text_field(why);
        let record = AnswerRecord {
            magic: ANSWER_MAGIC,
            version: VERSION.into(),
            flags: 0.into(),
            ticket: self.ticket,
            lineage: self.lineage.number.into(),
            lineage_id: self.lineage.id,
            number: self.number.into(),
            moved: moved.into(),
            emptied: emptied.into(),
            why_bytes: why_bytes.into(),
            why,
            copies: copies.into(),
            copies_stay: copies_stay.into(),
            reserved: [0; 2960],
            hash: [0; 16],
        };
        sealed(zerocopy::transmute!(record))
    }

    pub fn parse(block: &[u8; BLOCK]) -> Option<CheckpointAnswer> {
        let record: &AnswerRecord = zerocopy::transmute_ref!(block);
        let whole = record.magic == ANSWER_MAGIC && is_sealed(block) && record.version.get() <= VERSION;
        let lineage = Lineage { number: record.lineage.get(), id: record.lineage_id };
        let number = record.number.get();
        let possible = lineage.number <= NUMBER_MAX && number <= NUMBER_MAX;
        let emptied = match record.emptied.get() {
            MOVED => Emptied::Moved {
                objects: record.moved.get(),
                copies: record.copies.get(),
                copies_stay: record.copies_stay.get(),
            },
            REFUSED => Emptied::Refused(text_of(record.why_bytes.get(), &record.why)?),
            _ => Emptied::No,
        };
        (whole && possible).then_some(CheckpointAnswer { ticket: record.ticket, lineage, number, emptied })
    }
}

#[cfg(test)]
mod tests {
    use super::{super::hash::seal, *};

    #[test]
    fn a_request_and_its_answer_are_read_as_written_and_not_otherwise() {
        let request = CheckpointRequest { ticket: [7; 16], asked_unix_ns: 12, node: String::new() };
        let of_node = CheckpointRequest { node: "n7.example".to_owned(), ..request.clone() };
        for request in [&request, &of_node] {
            assert_eq!(CheckpointRequest::parse(&request.build()).as_ref(), Some(request));
        }
        let lineage = Lineage { number: 3, id: [4; 16] };
        let answer = CheckpointAnswer { ticket: [7; 16], lineage, number: 9, emptied: Emptied::No };
        for emptied in [
            Emptied::No,
            Emptied::Moved { objects: 12, copies: 3, copies_stay: 1 },
            Emptied::Refused("it is the only node".to_owned()),
        ] {
            let answer = CheckpointAnswer { emptied, ..answer.clone() };
            assert_eq!(CheckpointAnswer::parse(&answer.build()), Some(answer));
        }
        assert_eq!(
            (CheckpointRequest::parse(&answer.build()), CheckpointAnswer::parse(&request.build())),
            (None, None)
        );
        for at in [0, 9, 20, 33, 2000, 4095] {
            let (mut one, mut other) = (request.build(), answer.build());
            one[at] ^= 1;
            other[at] ^= 1;
            assert_eq!((CheckpointRequest::parse(&one), CheckpointAnswer::parse(&other)), (None, None), "byte {at}");
        }
        assert_eq!(CheckpointRequest::parse(&[0; BLOCK]), None);
        // A longer text is cut between two characters; a length beyond the field makes the request invalid.
        let long = CheckpointRequest { node: "é".repeat(NODE_BYTES_MAX), ..request.clone() };
        let cut = CheckpointRequest::parse(&long.build()).map(|request| request.node.len());
        assert_eq!(cut, Some(NODE_BYTES_MAX));
        let mut wrong = of_node.build();
        wrong[40..44].copy_from_slice(&(NODE_BYTES_MAX as u32 + 1).to_le_bytes());
        seal(&mut wrong);
        assert_eq!(CheckpointRequest::parse(&wrong), None);
        let impossible = CheckpointAnswer { number: NUMBER_MAX + 1, ..answer };
        assert_eq!(CheckpointAnswer::parse(&impossible.build()), None);
    }
}
