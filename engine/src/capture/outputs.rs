//! Files that the program appends to. A revision records the length of each, and a restore cuts the file back to it.
//! Lines that the program writes again after a restart then appear once.
//!
//! Invariant: a revision that records a length is published only after the bytes up to it are durable. Only files that
//! the session has named are touched.

use super::{
    output::{Marked, Output, real_path},
    output_match::{Cuts, FileMatch},
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
    /// The files of the list, for comparison with those of other ranks.
    named: Vec<NamedOutput>,
    /// The value of `named` when the ranks last compared.
    compared: Vec<NamedOutput>,
}

impl Outputs {
    /// An empty list, for a session with its space in this directory.
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

    /// The current length of each file, without the bytes in the program's own buffers.
    pub(crate) fn mark(&mut self) -> Result<Vec<Marked>> {
        self.list.iter_mut().map(Output::mark).collect()
    }

    /// Looks up the files that have the names now. True if the ranks have not compared these.
    pub(crate) fn look_for_new(&mut self) -> bool {
        self.named = self.list.iter().filter_map(|output| NamedOutput::at(output.path())).collect();
        self.named != self.compared
    }

    /// The files that `look_for_new` has found.
    pub(crate) fn named(&self) -> &[NamedOutput] {
        &self.named
    }

    /// Records that all ranks have compared `named` and that each file has one rank.
    pub(crate) fn are_compared(&mut self) {
        self.compared.clone_from(&self.named);
    }

    /// Finds the files of `saved` among those that `cuts` does not have yet. `is_own`: this rank has saved them.
    pub(crate) fn find(
        &self,
        cuts: &mut Cuts,
        saved: &[OutputLength],
        is_own: bool,
    ) -> Result<BTreeMap<usize, FileMatch>> {
        cuts.find(&self.list, saved, is_own)
    }

    /// An error if a file is shorter than it was: the missing bytes are lost.
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
