//! The documents of `--json`. Names and meanings stay; fields may be added. Numbers are in base units, which their
//! names end with; unknown values are null. `docs/guide/src/command-json.md` lists them.

mod advise;
mod diff;
mod files;
mod key;
mod look;
mod model;
pub mod nodes;
mod oracle;
mod profile;
mod status;
mod tend;

pub use advise::*;
pub use diff::*;
pub use files::*;
pub use key::Key;
pub use look::*;
pub use model::*;
pub use oracle::*;
pub use profile::*;
pub use status::*;
pub use tend::*;

pub fn hex(id: &[u8; 16]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}
