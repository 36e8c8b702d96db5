//! Restores the output files of a revision: the ranks find out which rank has which file, and truncate them.

use crate::{
    capture::{Cuts, FileMatch, Missing, Outputs, named_twice, not_cut},
    error::{Error, Result},
    group::{Group, agree, gather},
    remark::remark,
    space::format::OutputLength,
};
use std::collections::BTreeMap;

/// The output files of a revision, as far as a rank knows them.
pub(super) enum Known {
    /// Those of its own shard.
    OfThisRank(Vec<OutputLength>),
    /// Those of all shards, the same on all ranks.
    OfAll(Vec<OutputLength>),
}

/// The files that this rank truncates, and the files that no rank has (`missing`, the same on all ranks).
pub(super) struct Found {
    cuts: Cuts,
    missing: Vec<Missing>,
}

/// Refuses a file that several ranks have named. Collective.
pub(super) fn refuse_shared(group: &dyn Group, outputs: &mut Outputs) -> Result<()> {
    let mut are_new = [u64::from(outputs.look_for_new())];
    group.all_max(&mut are_new)?;
    if are_new == [0] { Ok(()) } else { compare_outputs(group, outputs) }
}

/// As `refuse_shared`, if some rank is known to have named new files. Collective.
pub(super) fn compare_outputs(group: &dyn Group, outputs: &mut Outputs) -> Result<()> {
    match named_twice(&gather(group, &outputs.named().to_vec())?) {
        Some(why) => Err(Error::argument("output file", why)),
        None => {
            outputs.are_compared();
            Ok(())
        }
    }
}

/// Finds the files of `known` among the output files of all ranks. Fails if a file is shorter than it was. Collective.
pub(super) fn find_outputs(group: &dyn Group, outputs: &Outputs, known: Known) -> Result<Found> {
    let mut found = Found { cuts: Cuts::default(), missing: Vec::new() };
    let all = match known {
        Known::OfAll(all) => all,
        Known::OfThisRank(own) => {
            let looked = agree(group, outputs.find(&mut found.cuts, &own, true))?;
            let is_lacking = |index: &usize| looked.get(index) != Some(&FileMatch::Found);
            let lacking: Vec<OutputLength> =
                (0..own.len()).filter(is_lacking).map(|index| own[index].clone()).collect();
            let mut lacks = [u64::from(!lacking.is_empty())];
            group.all_max(&mut lacks)?;
            // Another rank may have named it since.
            if lacks == [0] { Vec::new() } else { gather(group, &lacking)?.concat() }
        }
    };
    if !all.is_empty() {
        let looked = agree(group, outputs.find(&mut found.cuts, &all, false))?;
        found.missing = missing(all, gather(group, &looked)?);
    }
    agree(group, outputs.check(&found.cuts))?;
    Ok(found)
}

/// Truncates the files that were found, and remarks on those that are missing. Collective.
pub(super) fn cut_outputs(group: &dyn Group, outputs: &Outputs, found: &Found, revision: u64) -> Result<()> {
    agree(group, outputs.cut(&found.cuts))?;
    if let Some(line) = not_cut(revision, &found.missing) {
        remark(group.rank(), &line);
    }
    Ok(())
}

/// The files of `all` that no rank has found.
fn missing(all: Vec<OutputLength>, looked: Vec<BTreeMap<usize, FileMatch>>) -> Vec<Missing> {
    let of = |index: usize| looked.iter().filter_map(move |looked| looked.get(&index));
    let lacking =
        all.into_iter().enumerate().filter(|(index, _)| !of(*index).any(|looked| *looked == FileMatch::Found));
    let alike = |index| {
        of(index).find_map(|looked| match looked {
            FileMatch::Alike(path) => Some(path.clone()),
            FileMatch::Found => None,
        })
    };
    lacking.map(|(index, length)| Missing { alike: alike(index), length }).collect()
}
