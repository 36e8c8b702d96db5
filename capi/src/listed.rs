//! A listed revision, with its notes as C strings.

use crate::error::c_text;
use mainstay_engine::ListedRevision as EngineListed;
use std::{collections::BTreeMap, ffi::CString};

/// A complete revision, as mainstay_revisions has listed it.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct ListedRevision {
    /// Its number, 1 or more.
    pub revision: u64,
    /// The last step that the program gave to mainstay_due before it saved the revision; 0: none.
    pub step: u64,
}

/// A listed revision, with its notes as C strings.
pub(crate) struct Listed {
    pub listed: ListedRevision,
    pub notes: BTreeMap<CString, CString>,
}

impl Listed {
    pub fn of(found: EngineListed) -> Listed {
        let listed = ListedRevision { revision: found.revision, step: found.step.unwrap_or(0) };
        let notes = found.notes.iter().map(|(name, value)| (c_text(name), c_text(value))).collect();
        Listed { listed, notes }
    }
}
