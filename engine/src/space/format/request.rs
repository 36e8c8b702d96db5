//! How a running job is asked for a checkpoint from outside, and how it answers: two blocks of the lock
//! file, which is there as long as the space is. Anything that is not whole counts as not there.

use super::{
    BLOCK, Lineage, NUMBER_MAX, VERSION,
    hash::{is_sealed, seal},
};
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    little_endian::{U32, U64},
};

const REQUEST_MAGIC: [u8; 8] = *b"MSTYREQU";
const ANSWER_MAGIC: [u8; 8] = *b"MSTYANSW";

/// Names one request; drawn at random.
pub type Ticket = [u8; 16];

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RequestRecord {
    magic: [u8; 8],
    version: U32,
    flags: U32,
    ticket: Ticket,
    asked_unix_ns: U64,
    reserved: [u8; 4040],
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
    reserved: [u8; 4016],
    hash: [u8; 16],
}

const _: () = assert!(size_of::<RequestRecord>() == BLOCK && size_of::<AnswerRecord>() == BLOCK);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointRequest {
    pub ticket: Ticket,
    pub asked_unix_ns: u64,
}

/// The job looks for requests; the last one that it met, by the revision of this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointAnswer {
    /// All zeros before the first.
    pub ticket: Ticket,
    /// The run that answers.
    pub lineage: Lineage,
    pub number: u64,
}

impl CheckpointRequest {
    pub fn build(&self) -> [u8; BLOCK] {
        let record = RequestRecord {
            magic: REQUEST_MAGIC,
            version: VERSION.into(),
            flags: 0.into(),
            ticket: self.ticket,
            asked_unix_ns: self.asked_unix_ns.into(),
            reserved: [0; 4040],
            hash: [0; 16],
        };
        sealed(zerocopy::transmute!(record))
    }

    pub fn parse(block: &[u8; BLOCK]) -> Option<CheckpointRequest> {
        let record: &RequestRecord = zerocopy::transmute_ref!(block);
        let whole = record.magic == REQUEST_MAGIC && is_sealed(block) && record.version.get() <= VERSION;
        whole.then(|| CheckpointRequest { ticket: record.ticket, asked_unix_ns: record.asked_unix_ns.get() })
    }
}

impl CheckpointAnswer {
    pub fn build(&self) -> [u8; BLOCK] {
        let record = AnswerRecord {
            magic: ANSWER_MAGIC,
            version: VERSION.into(),
            flags: 0.into(),
            ticket: self.ticket,
            lineage: self.lineage.number.into(),
            lineage_id: self.lineage.id,
            number: self.number.into(),
            reserved: [0; 4016],
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
        (whole && possible).then_some(CheckpointAnswer { ticket: record.ticket, lineage, number })
    }
}

fn sealed(mut block: [u8; BLOCK]) -> [u8; BLOCK] {
    seal(&mut block);
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_and_its_answer_are_read_as_written_and_not_otherwise() {
        let request = CheckpointRequest { ticket: [7; 16], asked_unix_ns: 12 };
        let answer = CheckpointAnswer { ticket: [7; 16], lineage: Lineage { number: 3, id: [4; 16] }, number: 9 };
        assert_eq!(CheckpointRequest::parse(&request.build()), Some(request));
        assert_eq!(CheckpointAnswer::parse(&answer.build()), Some(answer));
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
        let impossible = CheckpointAnswer { number: NUMBER_MAX + 1, ..answer };
        assert_eq!(CheckpointAnswer::parse(&impossible.build()), None);
    }
}
