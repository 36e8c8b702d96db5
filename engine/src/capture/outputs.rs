//! Files that the program appends to: a revision knows how long each was, and a restore cuts it back, so
//! that what the program writes again after a restart is there once.
//!
//! What must hold: a revision that knows a length is published only after the bytes up to it are durable,
//! and no file is touched that the session has not named.

use super::{
    output::{Marked, Output, real_path},
    output_match::{Cuts, Looked},
    output_named::NamedOutput,
};
use crate::{
    error::{Error, Result},
    printable::printable_path,
    space::format::OutputLength,
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

/// The output files of a session.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    list: Vec<Output>,
    /// The directory of the space, without links.
    space: PathBuf,
    /// The files of the list, for the other ranks to compare with theirs.
    named: Vec<NamedOutput>,
    /// The same when all ranks last compared theirs.
    compared: Vec<NamedOutput>,
}

impl Outputs {
    /// None yet, of a session whose space is in this directory.
    pub(crate) fn of_space(directory: &Path) -> Outputs {
        Outputs { space: real_path(directory), ..Outputs::default() }
    }

    /// Adds a file, which need not exist yet.
    pub(crate) fn add(&mut self, path: &Path) -> Result<()> {
        let output = Output::at(path, &self.space)?;
        if let Some(same) = self.list.iter_mut().find_map(|other| other.same_as(&output)) {
            let what = printable_path(output.path());
            let as_what = if same == output.path() { String::new() } else { format!(" as {}", printable_path(&same)) };
            let why = format!("{what} is named already{as_what}; name each file once, on one rank");
            return Err(Error::argument("output file", why));
        }
        self.list.push(output);
        Ok(())
    }

    /// How long each file is now. Bytes that the program still keeps in buffers of its own do not count.
    pub(crate) fn mark(&mut self) -> Result<Vec<Marked>> {
        self.list.iter_mut().map(Output::mark).collect()
    }

    /// Finds out which files have the names now. True if the ranks have not compared these.
    pub(crate) fn look_for_new(&mut self) -> bool {
        self.named = self.list.iter().filter_map(|output| NamedOutput::at(output.path())).collect();
        self.named != self.compared
    }

    /// The files as `look_for_new` has found them.
    pub(crate) fn named(&self) -> &[NamedOutput] {
        &self.named
    }

    /// All ranks have compared `named`, and each file is named by one alone.
    pub(crate) fn are_compared(&mut self) {
        self.compared.clone_from(&self.named);
    }

    /// Finds the files of `saved` among those for which `cuts` has nothing yet. `is_own`: this rank has saved them.
    pub(crate) fn find(
        &self,
        cuts: &mut Cuts,
        saved: &[OutputLength],
        is_own: bool,
    ) -> Result<BTreeMap<usize, Looked>> {
        cuts.find(&self.list, saved, is_own)
    }

    /// Refuses if a file is shorter than it was: the missing bytes are lost.
    pub(crate) fn check(&self, cuts: &Cuts) -> Result<()> {
        self.each(cuts).try_for_each(|(output, saved)| output.check(saved))
    }

    /// Cuts each file back to its length.
    pub(crate) fn cut(&self, cuts: &Cuts) -> Result<()> {
        self.each(cuts).try_for_each(|(output, saved)| output.cut(saved))?;
        // Two names may lead to one file meanwhile.
        self.check(cuts)
    }

    fn each<'a>(&'a self, cuts: &'a Cuts) -> impl Iterator<Item = (&'a Output, u64)> {
        cuts.found.iter().filter_map(|(at, bytes)| Some((self.list.get(*at)?, *bytes)))
    }
}
