//! Matches the output files of a session with those that a revision records. Spelling does not decide: the same file
//! can be named by another path, through a link, in a directory that moved, or on another mount.
//!
//! Invariant: a file is cut back only if it is certainly the saved one; Mainstay reports uncertain ones.

use super::output::{Output, real_path};
use crate::{
    error::{Error, Result},
    printable::printable_path,
    space::format::{Hash, OutputIdentity, OutputLength},
};
use serde::{Deserialize, Serialize};
use std::{
    cmp::Reverse,
    collections::BTreeMap,
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Fewer equal bytes prove nothing: many tables begin with the same line.
const TELLING_BYTES: u64 = 64;

/// The number of files that one line names.
const NAMED_MAX: usize = 4;

/// Facts in favour of a file, the strongest first. The order of the fields is the order of comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Evidence {
    /// It has the same inode and creation time.
    is_same_file: bool,
    bytes: Bytes,
    has_same_path: bool,
    /// It is in the same place, seen from the space.
    lies_same: bool,
    /// The program named it by the same text.
    is_spelled_same: bool,
    is_called_same: bool,
    is_as_long: bool,
}

/// The result of comparing the bytes of a file with the saved bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Bytes {
    Other,
    Unknown,
    Same,
}

/// The lengths to which a restore cuts files back.
#[derive(Debug, Default)]
pub(crate) struct Cuts {
    /// Output files of the session, by their place in its list, and the saved length of each.
    pub(super) found: Vec<(usize, u64)>,
}

/// The result of a rank's search for a recorded file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum FileMatch {
    Found,
    /// A file that looks like it but is not certainly the same.
    Alike(String),
}

/// A recorded output file that no rank could identify with certainty.
#[derive(Debug, Clone)]
pub(crate) struct Missing {
    pub(crate) length: OutputLength,
    /// The file that looks like it.
    pub(crate) alike: Option<String>,
}

impl Evidence {
    /// `is_own`: this rank has saved the file. Another rank may have had another working directory.
    fn of(output: &Output, now: &OutputIdentity, bytes: u64, saved: &OutputLength, is_own: bool) -> Evidence {
        let spelled = output.name() == saved.name;
        let known = saved.identity.as_ref();
        let has =
            |of: fn(&OutputIdentity) -> &[u8]| known.is_some_and(|known| !of(known).is_empty() && of(known) == of(now));
        let earlier = || now.path == real_path(&resolved(&saved.name)).as_os_str().as_bytes();
        let evidence = Evidence {
            is_same_file: known.is_some_and(|known| {
                known.born_unix_ns > 0 && (known.inode, known.born_unix_ns) == (now.inode, now.born_unix_ns)
            }),
            bytes: Bytes::Unknown,
            has_same_path: if known.is_some() { has(|of| &of.path) } else { spelled || earlier() },
            lies_same: has(|of| &of.from_space),
            is_spelled_same: spelled && is_own,
            is_called_same: spelled || has(|of| file_name(&of.path)),
            is_as_long: bytes >= saved.bytes,
        };
        let hashed = known.filter(|known| known.hash != Hash::default() && evidence.is_as_long && evidence.is_alike());
        match hashed.and_then(|known| Some((known.hash, output.hash_at(saved.bytes)?))) {
            Some((saved, now)) => Evidence { bytes: if saved == now { Bytes::Same } else { Bytes::Other }, ..evidence },
            None => evidence,
        }
    }

    /// The file has a name of the saved one.
    fn is_named(&self) -> bool {
        self.is_same_file || self.has_same_path || self.lies_same || self.is_spelled_same
    }

    fn is_alike(&self) -> bool {
        self.is_named() || self.is_called_same
    }

    fn is_sure(&self, bytes: u64) -> bool {
        if !self.is_as_long {
            return self.is_named();
        }
        let is_in_place = self.has_same_path || self.lies_same;
        let is_elsewhere = self.bytes == Bytes::Same && bytes >= TELLING_BYTES && self.is_alike();
        ((self.is_same_file || is_in_place) && self.bytes != Bytes::Other) || is_elsewhere
    }
}

impl Cuts {
    /// Finds the files of `saved` among those `outputs` that are not matched yet. Returns the result for each file of
    /// `saved`, in order. `is_own`: this rank has saved them.
    pub(super) fn find(
        &mut self,
        outputs: &[Output],
        saved: &[OutputLength],
        is_own: bool,
    ) -> Result<BTreeMap<usize, FileMatch>> {
        let (mut pairs, mut looked) = (Vec::new(), BTreeMap::new());
        for (at, output) in outputs.iter().enumerate().filter(|(at, _)| !self.has(*at)) {
            let (bytes, now) = output.now()?;
            for (index, saved) in saved.iter().enumerate() {
                let evidence = Evidence::of(output, &now, bytes, saved, is_own);
                if evidence.is_sure(saved.bytes) {
                    pairs.push((evidence, at, index));
                } else if evidence.is_alike() {
                    looked.insert(index, FileMatch::Alike(printable_path(output.path())));
                }
            }
        }
        pairs.sort_by_key(|pair| Reverse(pair.0));
        for (evidence, at, index) in &pairs {
            if self.has(*at) || looked.get(index) == Some(&FileMatch::Found) {
                continue;
            }
            let bytes = saved[*index].bytes;
            if let Some(other) = ambiguous(&pairs, (*evidence, *at), saved, bytes) {
                return Err(several(&outputs[*at], bytes, other));
            }
            self.found.push((*at, bytes));
            looked.insert(*index, FileMatch::Found);
        }
        Ok(looked)
    }

    fn has(&self, at: usize) -> bool {
        self.found.iter().any(|(found, _)| *found == at)
    }
}

/// Another length with equally strong evidence.
fn ambiguous(
    pairs: &[(Evidence, usize, usize)],
    (evidence, at): (Evidence, usize),
    saved: &[OutputLength],
    bytes: u64,
) -> Option<u64> {
    let equal = pairs.iter().filter(|(other, output, _)| (*other, *output) == (evidence, at));
    equal.map(|(_, _, index)| saved[*index].bytes).find(|other| *other != bytes)
}

fn several(output: &Output, bytes: u64, other: u64) -> Error {
    let path = printable_path(output.path());
    let why = format!(
        "the revision has {path} twice, with {bytes} bytes and with {other}; name each file once, on one rank; to go on, \
         cut the file back yourself and name it only after the restore"
    );
    Error::argument("output file", why)
}

/// The line that lists the files of revision `revision` that were not cut back; `None` if there are none.
pub(crate) fn not_cut(revision: u64, missing: &[Missing]) -> Option<String> {
    let one = |missing: &Missing| {
        let name = printable_path(Path::new(OsStr::from_bytes(&missing.length.name)));
        let alike = missing.alike.as_ref();
        let alike = alike.map_or(String::new(), |path| format!("; {path} may not be the same file"));
        format!("{name} ({} bytes{alike})", missing.length.bytes)
    };
    let named: Vec<String> = missing.iter().take(NAMED_MAX).map(one).collect();
    let more = match missing.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!named.is_empty()).then(|| {
        format!(
            "revision {revision} has output files that this start does not name: {}{more}; they were not cut back, and lines \
             may come twice; name each with protect_output before the restore, or cut it back with truncate -s BYTES",
            named.join(", ")
        )
    })
}

fn resolved(name: &[u8]) -> PathBuf {
    let path = Path::new(OsStr::from_bytes(name));
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_cut_back_is_told_with_both_names() {
        assert_eq!(not_cut(3, &[]), None);
        let missing = |name: &str, alike: Option<&str>| Missing {
            length: OutputLength { name: name.into(), bytes: 7, identity: None },
            alike: alike.map(str::to_owned),
        };
        let text = not_cut(3, &[missing("log.txt", Some("/b/log.txt")), missing("x.csv", None)]).unwrap();
        for says in
            ["revision 3", "log.txt (7 bytes; /b/log.txt may not be the same file), x.csv (7 bytes); they were not"]
        {
            assert!(text.contains(says), "{text}");
        }
        assert!(not_cut(3, &vec![missing("a", None); 6]).unwrap().contains(" and 2 more"));
    }
}
