//! The container: a directory whose preallocated files hold the shards of many ranks and revisions.
//!
//! A layout is one arrangement of portions and never changes in place; a space has one, and for a
//! while a second while a newer one takes over. A portion has two slots, each the root of a catalogue
//! of all revisions that the portion keeps. Owns: where things lie. What must hold: nothing that was
//! read is believed before its checksum matched.

mod aligned;
mod directory;
pub mod format;
pub(crate) mod free;
mod holds;
mod id;
mod locks;
mod portion;
mod requests;

pub(crate) use aligned::Aligned;
pub(crate) use directory::{
    LOCK_FILE, LayoutFile, PROBE, clear_away, create_layout, is_layout, layouts, list, open_layout, remove_layout,
};
pub(crate) use holds::{HOLDS_BYTES, HoldsRead};
pub(crate) use id::draw_id;
pub(crate) use locks::Locks;
pub(crate) use portion::{Checked, Portion, SLOT_STRIDE, data_from};
pub(crate) use requests::RequestBlocks;
