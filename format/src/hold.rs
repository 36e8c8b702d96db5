//! The holds in a layout's file: blocks in which other processes ask to keep a revision, and one block in which the job
//! that writes the space acknowledges them.
//!
//! A damaged block counts as no hold: a torn hold must never make a space unreadable.

use super::{
    BLOCK, Hash, Lineage, NUMBER_MAX, VERSION,
    hash::{is_sealed, seal},
};
use serde::{Deserialize, Serialize};
use zerocopy::{
    FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned,
    little_endian::{U16, U32, U64},
};

/// Blocks for holds, one each; the acknowledgement is in the block after them.
pub const HOLDS: usize = 15;
/// The longest note, in bytes.
pub const NOTE_BYTES_MAX: usize = 512;

const MAGIC: [u8; 8] = *b"MSTYHOLD";
const ANSWER_MAGIC: [u8; 8] = *b"MSTYHACK";

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct HoldRecord {
    magic: [u8; 8],
    version: U32,
    flags: U32,
    id: [u8; 16],
    lineage: U64,
    lineage_id: [u8; 16],
    number: U64,
    created_unix_ns: U64,
    expires_unix_ns: U64,
    note_bytes: U16,
    reserved_1: [u8; 6],
    note: [u8; NOTE_BYTES_MAX],
    reserved_2: [u8; 3480],
    hash: Hash,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct AnswerRecord {
    id: [u8; 16],
    answer: U32,
    reserved: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct AnswersRecord {
    magic: [u8; 8],
    version: U32,
    answers: U32,
    lineage: U64,
    lineage_id: [u8; 16],
    list: [AnswerRecord; HOLDS],
    reserved: [u8; 3680],
    hash: Hash,
}

const _: () = assert!(size_of::<HoldRecord>() == BLOCK && size_of::<AnswersRecord>() == BLOCK);

/// A request to keep a revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// Identifies the hold; drawn at random.
    pub id: [u8; 16],
    pub lineage: Lineage,
    pub number: u64,
    pub created_unix_ns: u64,
    /// Time when the hold expires, in nanoseconds since 1970; 0: it counts until it is released.
    pub expires_unix_ns: u64,
    /// The holder, or the reason; without control characters.
    pub note: String,
}

/// The contents of a block for a hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HoldBlock {
    Free,
    Hold(Hold),
    /// A hold of a later version, which is neither counted nor overwritten.
    Newer,
}

/// The answer of the running job to a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u32)]
pub enum HoldAnswer {
    /// The revision stays.
    Counts = 1,
    /// The revision did not exist any more.
    Gone = 2,
    /// There would have been no room for the next revision.
    NoRoom = 3,
}

/// The holds that the job of `lineage` has read, with its answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldAnswers {
    pub lineage: Lineage,
    pub list: Vec<([u8; 16], HoldAnswer)>,
}

impl Hold {
    /// Whether the hold has expired at `now`, in nanoseconds since 1970.
    pub fn has_expired(&self, now_unix_ns: u64) -> bool {
        self.expires_unix_ns != 0 && self.expires_unix_ns <= now_unix_ns
    }

    pub fn build(&self) -> [u8; BLOCK] {
        assert!(is_note(&self.note), "a note that no reader would take");
        let mut note = [0; NOTE_BYTES_MAX];
        note[..self.note.len()].copy_from_slice(self.note.as_bytes());
        let record = HoldRecord {
            magic: MAGIC,
            version: VERSION.into(),
            flags: 0.into(),
            id: self.id,
            lineage: self.lineage.number.into(),
            lineage_id: self.lineage.id,
            number: self.number.into(),
            created_unix_ns: self.created_unix_ns.into(),
            expires_unix_ns: self.expires_unix_ns.into(),
            note_bytes: (self.note.len() as u16).into(),
            reserved_1: [0; 6],
            note,
            reserved_2: [0; 3480],
            hash: [0; 16],
        };
        let mut block = zerocopy::transmute!(record);
        seal(&mut block);
        block
    }
}

impl HoldBlock {
    pub fn parse(block: &[u8; BLOCK]) -> HoldBlock {
        let record: &HoldRecord = zerocopy::transmute_ref!(block);
        if record.magic != MAGIC || !is_sealed(block) {
            return HoldBlock::Free;
        }
        if record.version.get() > VERSION {
            return HoldBlock::Newer;
        }
        let note = record.note.get(..record.note_bytes.get().into()).and_then(|bytes| str::from_utf8(bytes).ok());
        let (lineage, number) = (record.lineage.get(), record.number.get());
        match note {
            Some(note) if is_note(note) && lineage <= NUMBER_MAX && number <= NUMBER_MAX => HoldBlock::Hold(Hold {
                id: record.id,
                lineage: Lineage { number: lineage, id: record.lineage_id },
                number,
                created_unix_ns: record.created_unix_ns.get(),
                expires_unix_ns: record.expires_unix_ns.get(),
                note: note.to_owned(),
            }),
            _ => HoldBlock::Free,
        }
    }
}

/// Whether a hold can carry this note, which is printed on terminals.
pub fn is_note(note: &str) -> bool {
    note.len() <= NOTE_BYTES_MAX && !note.contains(char::is_control)
}

impl HoldAnswers {
    pub fn build(&self) -> [u8; BLOCK] {
        assert!(self.list.len() <= HOLDS, "more answers than holds");
        let mut record = AnswersRecord::new_zeroed();
        (record.magic, record.version) = (ANSWER_MAGIC, VERSION.into());
        record.answers = (self.list.len() as u32).into();
        (record.lineage, record.lineage_id) = (self.lineage.number.into(), self.lineage.id);
        for (place, (id, answer)) in record.list.iter_mut().zip(&self.list) {
            *place = AnswerRecord { id: *id, answer: (*answer as u32).into(), reserved: 0.into() };
        }
        let mut block = zerocopy::transmute!(record);
        seal(&mut block);
        block
    }

    /// Returns `None` unless the block is an acknowledgement of a known version.
    pub fn parse(block: &[u8; BLOCK]) -> Option<HoldAnswers> {
        let record: &AnswersRecord = zerocopy::transmute_ref!(block);
        if record.magic != ANSWER_MAGIC || !is_sealed(block) || record.version.get() > VERSION {
            return None;
        }
        let lineage = Lineage { number: record.lineage.get(), id: record.lineage_id };
        let list = record.list.get(..record.answers.get() as usize)?.iter();
        let list = list.map(|r| Some((r.id, HoldAnswer::of(r.answer.get())?))).collect::<Option<_>>()?;
        (lineage.number <= NUMBER_MAX).then_some(HoldAnswers { lineage, list })
    }

    pub fn to(&self, id: &[u8; 16]) -> Option<HoldAnswer> {
        self.list.iter().find(|(other, _)| other == id).map(|(_, answer)| *answer)
    }
}

impl HoldAnswer {
    fn of(code: u32) -> Option<HoldAnswer> {
        [Self::Counts, Self::Gone, Self::NoRoom].into_iter().find(|answer| *answer as u32 == code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold() -> Hold {
        Hold {
            id: [7; 16],
            lineage: Lineage { number: 3, id: [9; 16] },
            number: 12,
            created_unix_ns: 1,
            expires_unix_ns: 2,
            note: "who: α".to_owned(),
        }
    }

    fn answers() -> HoldAnswers {
        let list = vec![([1; 16], HoldAnswer::Counts), ([2; 16], HoldAnswer::Gone), ([3; 16], HoldAnswer::NoRoom)];
        HoldAnswers { lineage: Lineage { number: 4, id: [5; 16] }, list }
    }

    /// `block` with `bytes` at `at`, sealed again.
    fn forged(mut block: [u8; BLOCK], at: usize, bytes: &[u8]) -> [u8; BLOCK] {
        block[at..at + bytes.len()].copy_from_slice(bytes);
        seal(&mut block);
        block
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(HoldBlock::parse(&hold().build()), HoldBlock::Hold(hold()));
        assert_eq!(HoldAnswers::parse(&answers().build()), Some(answers()));
        assert_eq!(answers().to(&[2; 16]), Some(HoldAnswer::Gone));
        assert_eq!(HoldBlock::parse(&[0; BLOCK]), HoldBlock::Free);
        assert_eq!(HoldAnswers::parse(&[0; BLOCK]), None);
    }

    #[test]
    fn a_flipped_bit_anywhere_makes_it_free() {
        for at in (0..BLOCK).step_by(5) {
            let (mut hold, mut answers) = (hold().build(), answers().build());
            hold[at] ^= 4;
            answers[at] ^= 4;
            assert_eq!(HoldBlock::parse(&hold), HoldBlock::Free, "byte {at}");
            assert_eq!(HoldAnswers::parse(&answers), None, "byte {at}");
        }
    }

    #[test]
    fn hostile_values_are_no_hold() {
        let huge = u64::MAX.to_le_bytes();
        let long = (NOTE_BYTES_MAX as u16 + 1).to_le_bytes();
        for (at, bytes) in [(32, &huge[..]), (56, &huge), (80, &long), (88, b"\x1b[2J"), (88, b"\xff\xfe")] {
            assert_eq!(HoldBlock::parse(&forged(hold().build(), at, bytes)), HoldBlock::Free, "{bytes:?} at {at}");
        }
        assert_eq!(HoldBlock::parse(&forged(hold().build(), 8, &[2])), HoldBlock::Newer);
        for (at, bytes) in [(8, &[2][..]), (12, &[16]), (12, &huge[..4]), (16, &huge), (56, &[4])] {
            assert_eq!(HoldAnswers::parse(&forged(answers().build(), at, bytes)), None, "{bytes:?} at {at}");
        }
    }

    #[test]
    fn time_runs_out_only_where_there_is_an_end() {
        let open = Hold { expires_unix_ns: 0, ..hold() };
        assert!(hold().has_expired(2) && !hold().has_expired(1) && !open.has_expired(u64::MAX));
    }
}
