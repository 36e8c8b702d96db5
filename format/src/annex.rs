//! The parts of a manifest other than the items: the program's notes, the lengths of its output files, and the
//! statistics of the checkpoint.

use super::{OutputIdentity, Profile, Refusal, SavedEarly, damaged, sections::Sections};
use serde::{Deserialize, Serialize};
use zerocopy::{
    FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned,
    little_endian::{U16, U32, U64},
};

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct NoteRecord {
    name_bytes: U16,
    reserved: U16,
    value_bytes: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct OutputRecord {
    bytes: U64,
    name_bytes: U32,
    reserved: U32,
}

const _: () = assert!(size_of::<NoteRecord>() == 8 && size_of::<OutputRecord>() == 16);

/// A named text of the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    pub name: String,
    pub value: String,
}

/// A file that the program appends to: its name as the program gave it, and its length at t1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputLength {
    /// A path: any bytes but zero.
    pub name: Vec<u8>,
    pub bytes: u64,
    /// `None` in a revision of a version that did not record it.
    pub identity: Option<OutputIdentity>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Annex {
    pub notes: Vec<Note>,
    pub outputs: Vec<OutputLength>,
    /// `None` in a revision of a version that did not record it.
    pub profile: Option<Profile>,
    /// Result of speculative saving; `None` if nothing can be saved early, and in a shard that another process
    /// completed.
    #[serde(skip)]
    pub saved_early: Option<SavedEarly>,
}

impl Annex {
    pub(super) fn build(&self) -> Vec<u8> {
        let (mut bytes, mut texts) = (Vec::with_capacity(self.bytes_at_most() as usize), Vec::new());
        for Note { name, value } in &self.notes {
            let record = NoteRecord {
                name_bytes: (name.len() as u16).into(),
                reserved: 0.into(),
                value_bytes: (value.len() as u32).into(),
            };
            bytes.extend_from_slice(record.as_bytes());
            texts.extend_from_slice(name.as_bytes());
            texts.extend_from_slice(value.as_bytes());
        }
        for output in &self.outputs {
            let record = OutputRecord {
                bytes: output.bytes.into(),
                name_bytes: (output.name.len() as u32).into(),
                reserved: 0.into(),
            };
            bytes.extend_from_slice(record.as_bytes());
            texts.extend_from_slice(&output.name);
        }
        bytes.extend_from_slice(&texts);
        bytes.extend(self.profile.iter().flat_map(Profile::build));
        bytes.extend(self.saved_early.iter().flat_map(SavedEarly::build));
        bytes
    }

    /// Whether the manifest gets the identities of the output files.
    pub(super) fn has_identities(&self) -> bool {
        !self.outputs.is_empty() && self.outputs.iter().all(|output| output.identity.is_some())
    }

    /// The identities of the output files, in their order. They come last in a manifest.
    pub(super) fn build_identities(&self) -> Vec<u8> {
        self.outputs.iter().filter_map(|output| output.identity.as_ref()).flat_map(OutputIdentity::build).collect()
    }

    pub(super) fn parse_identities(&mut self, sections: &mut Sections<'_>) -> Result<(), Refusal> {
        for output in &mut self.outputs {
            output.identity = Some(OutputIdentity::parse(sections)?);
        }
        Ok(())
    }

    /// Its maximum number of bytes in a manifest. Always counts the profile and the result of speculative saving: they
    /// are known only after the data has been written, but the room is found before.
    pub(super) fn bytes_at_most(&self) -> u64 {
        let notes = self.notes.iter().map(|n| size_of::<NoteRecord>() + n.name.len() + n.value.len());
        let outputs = self
            .outputs
            .iter()
            .map(|o| size_of::<OutputRecord>() + o.name.len() + o.identity.as_ref().map_or(0, OutputIdentity::bytes));
        notes.chain(outputs).sum::<usize>() as u64 + Profile::BYTES + SavedEarly::BYTES
    }

    /// Parses the part of `sections` after the items: so many notes and outputs, and perhaps a profile and the result
    /// of speculative saving.
    pub(super) fn parse(
        sections: &mut Sections<'_>,
        notes: u32,
        outputs: u32,
        [profiled, has_early]: [bool; 2],
    ) -> Result<Annex, Refusal> {
        let note_records = sections.table::<NoteRecord>(notes.into())?;
        let output_records = sections.table::<OutputRecord>(outputs.into())?;
        let mut annex = Annex::default();
        for record in note_records {
            let name = text(sections.table(record.name_bytes.get().into())?)?;
            let value = text(sections.table(record.value_bytes.get().into())?)?;
            annex.notes.push(Note { name, value });
        }
        for record in output_records {
            let name: &[u8] = sections.table(record.name_bytes.get().into())?;
            if name.is_empty() || name.contains(&0) {
                return damaged("the name of an output file is no path");
            }
            annex.outputs.push(OutputLength { name: name.to_vec(), bytes: record.bytes.get(), identity: None });
        }
        annex.profile = profiled.then(|| Profile::parse(sections)).transpose()?;
        annex.saved_early = has_early.then(|| SavedEarly::parse(sections)).transpose()?;
        Ok(annex)
    }
}

fn text(bytes: &[u8]) -> Result<String, Refusal> {
    match str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => damaged("a note is not text"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn annex() -> Annex {
        let note = |name: &str, value: &str| Note { name: name.to_owned(), value: value.to_owned() };
        Annex {
            notes: vec![note("step", "12"), note("empty", "")],
            outputs: vec![OutputLength { name: b"out/\xff.csv".to_vec(), bytes: 1 << 40, identity: None }],
            profile: Some(profile()),
            saved_early: Some(SavedEarly { dirty: 9, early: 5, saved: 7, wasted: 2, ..SavedEarly::default() }),
        }
    }

    fn profile() -> Profile {
        let mut profile =
            Profile { node: 8, stage: 2, pool_bytes: 64 << 20, chunk_bytes: 1 << 20, ..Profile::default() };
        profile.pieces.note(17, Duration::from_nanos(40));
        profile.writes.note(4 << 20, Duration::from_millis(2));
        profile
    }

    #[test]
    fn what_was_built_is_parsed() {
        let bytes = annex().build();
        assert_eq!(bytes.len() as u64, annex().bytes_at_most());
        assert_eq!(Annex::parse(&mut Sections::new(&bytes, "manifest"), 2, 1, [true; 2]), Ok(annex()));
    }

    /// Builds without profiles wrote none, and skip a profile, which comes last, when they read.
    #[test]
    fn a_profile_may_be_missing_or_passed_over() {
        let without = Annex { profile: None, saved_early: None, ..annex() };
        let bytes = without.build();
        assert_eq!(bytes.len() as u64 + Profile::BYTES + SavedEarly::BYTES, without.bytes_at_most());
        assert!(annex().build().starts_with(&bytes));
        for bytes in [bytes, annex().build()] {
            let parsed = Annex::parse(&mut Sections::new(&bytes, "manifest"), 2, 1, [false; 2]);
            assert_eq!(parsed.as_ref(), Ok(&without));
        }
    }

    #[test]
    fn an_annex_that_ends_early_or_is_no_text_is_refused() {
        let bytes = annex().build();
        for length in 0..bytes.len() {
            assert!(
                Annex::parse(&mut Sections::new(&bytes[..length], "manifest"), 2, 1, [true; 2]).is_err(),
                "{length} bytes"
            );
        }
        assert!(Annex::parse(&mut Sections::new(&bytes, "manifest"), u32::MAX, u32::MAX, [true; 2]).is_err());
        let not_text = Annex { notes: Vec::new(), ..annex() }.build();
        let as_note = [&not_text[..0], &[1, 0, 0, 0, 0, 0, 0, 0, 0xff]].concat();
        assert!(Annex::parse(&mut Sections::new(&as_note, "manifest"), 1, 0, [false; 2]).is_err());
    }
}
