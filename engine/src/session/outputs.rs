//! Brings the output files back with a revision: the ranks find out which of them has which file, and cut them.

use crate::{
    capture::{Cuts, Looked, Missing, Outputs, named_twice, not_cut},
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

/// What is cut back on this rank; and what no rank has, the same on all.
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

/// The same once a rank has told that its files are new. Collective.
pub(super) fn compare_outputs(group: &dyn Group, outputs: &mut Outputs) -> Result<()> {
    match named_twice(&gather(group, &outputs.named().to_vec())?) {
        Some(why) => Err(Error::argument("output file", why)),
        None => {
            outputs.are_compared();
            Ok(())
        }
    }
}

/// Finds the files of `known` among the output files of all ranks. An error if one is shorter than it was. Collective.
pub(super) fn find_outputs(group: &dyn Group, outputs: &Outputs, known: Known) -> Result<Found> {
    let mut found = Found { cuts: Cuts::default(), missing: Vec::new() };
    let all = match known {
        Known::OfAll(all) => all,
        Known::OfThisRank(own) => {
            let looked = agree(group, outputs.find(&mut found.cuts, &own, true))?;
            let is_lacking = |index: &usize| looked.get(index) != Some(&Looked::Found);
            let lacking: Vec<OutputLength> =
                (0..own.len()).filter(is_lacking).map(|index| own[index].clone()).collect();
            let mut lacks = [u64::from(!lacking.is_empty())];
            group.all_max(&mut lacks)?;
            // Another rank may name it now.
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

/// Cuts back what was found, and tells of what was not. Collective.
pub(super) fn cut_outputs(group: &dyn Group, outputs: &Outputs, found: &Found, revision: u64) -> Result<()> {
    agree(group, outputs.cut(&found.cuts))?;
    if let Some(line) = not_cut(revision, &found.missing) {
        remark(group.rank(), &line);
    }
    Ok(())
}

/// Those of `all` that no rank has found.
fn missing(all: Vec<OutputLength>, looked: Vec<BTreeMap<usize, Looked>>) -> Vec<Missing> {
    let of = |index: usize| looked.iter().filter_map(move |looked| looked.get(&index));
    let lacking = all.into_iter().enumerate().filter(|(index, _)| !of(*index).any(|looked| *looked == Looked::Found));
    let alike = |index| {
        of(index).find_map(|looked| match looked {
            Looked::Alike(path) => Some(path.clone()),
            Looked::Found => None,
        })
    };
    lacking.map(|(index, length)| Missing { alike: alike(index), length }).collect()
}
