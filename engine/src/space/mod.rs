//! The container: a directory with preallocated files that hold the shards of many ranks and revisions.
//!
//! A layout is one arrangement of portions and never changes in place. A space has one, and for a while a second while
//! a newer one takes over. A portion has two slots, each the root of a catalogue of all revisions that the portion
//! keeps. This module decides the place of all data. Invariant: no bytes are trusted before their checksum matched.

mod aligned;
mod anonymous;
mod arrangement;
mod block_set;
mod directory;
pub use mainstay_format as format;
mod framed;
pub(crate) mod free;
mod hold_blocks;
mod id;
mod in_parts;
mod layout_file;
mod levels;
mod levels_file;
mod lock_blocks;
mod locks;
mod opener;
mod packed;
mod packed_manifest;
mod portion;

pub(crate) use aligned::Aligned;
pub(crate) use anonymous::anonymous_portion;
pub use arrangement::Per;
pub(crate) use arrangement::{Arrangement, blocks_in, bytes_with, stretches};
pub(crate) use block_set::{BlockSet, Ranks, pays};
pub use directory::is_of_space;
pub(crate) use directory::{
    JOURNAL_FILE, JOURNAL_UNFINISHED, LEVELS_COPY, LEVELS_FILE, LOCK_FILE, Making, Probes, SALVAGED_FILE,
    SALVAGED_UNFINISHED, STATUS_FILE, STATUS_UNFINISHED, Stray, Strays, clear_away, contradictions, create_layout,
    files_of_layout, is_layout, layout_name, layout_pattern, layouts, layouts_and_strays, list, make_unnamed,
    name_layout, names_layout, open_layout, open_unnamed, probe_name, remove_layout, remove_layouts_of, remove_unnamed,
    short, write_first_slots,
};
pub(crate) use framed::FrameReader;
pub(crate) use hold_blocks::{HOLDS_BYTES, HoldsRead, holds_in};
pub(crate) use id::draw_id;
pub(crate) use in_parts::portion_in_parts;
pub(crate) use layout_file::LayoutFile;
pub use levels::LevelKind;
pub(crate) use levels::{
    GoneBack, LevelsNote, NOTE_BYTES_MAX, OF_A_SPACE, copy_in, level_directory, node_in, space_of_level, without_copy,
};
pub(crate) use lock_blocks::LockBlocks;
pub(crate) use locks::Locks;
pub use opener::tell_times;
pub(crate) use opener::{note_opener, with_opener};
pub(crate) use packed::{Packer, head_of, unpack};
pub(crate) use packed_manifest::pack_manifest;
#[cfg(feature = "fuzzing")]
pub(crate) use packed_manifest::unpack_manifest;
pub(crate) use portion::{Checked, Portion, PortionShape, SLOT_STRIDE, data_from};
