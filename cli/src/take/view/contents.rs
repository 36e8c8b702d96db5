//! The items that a view shows, their names, and the items that it leaves out.
//!
//! Invariant: no element reads as a value that was not saved. Names come from the space, and may be hostile.

use super::{
    global::{self, Global},
    pieces::{PIECES_MAX, pieces},
    shard::{Dataset, LeftOut, Shard},
};
use crate::{
    exit::Failure,
    take::{array, shard_path},
};
use mainstay_engine::{RevisionSurvey, SpaceSurvey, check_name, space::format::Item};
use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

/// The group of all shards.
const SHARDS: &str = "shard";

pub struct Contents<'a> {
    /// Its canonical path.
    pub space: PathBuf,
    pub shards: Vec<Shard<'a>>,
    /// The placed items, each as one array.
    pub arrays: Vec<Global>,
    pub left_out: Vec<LeftOut>,
}

/// The contents of a revision of the space at `path`. `in_place` has the items that HDF5 can read in place. `None` if
/// the job removed the revision.
pub fn contents<'a>(
    path: &Path,
    survey: &SpaceSurvey,
    revision: &'a RevisionSurvey,
    in_place: bool,
) -> Result<Option<Contents<'a>>, Failure> {
    let space = fs::canonicalize(path).map_err(|error| Failure::refused(format!("{}: {error}", survey.path)))?;
    let (mut shards, mut left_out) = (Vec::new(), Vec::new());
    for shard in &revision.shards {
        let Some(manifest) = shard.manifest()? else { return Ok(None) };
        let is_compressed = |item: &Item| item.extents.iter().any(|extent| manifest.is_compressed(extent));
        let (file, portion_at) = home(survey, revision, shard.shard, &space)?;
        let path = shard_path(shard.shard, revision.shard_count);
        let (mut datasets, mut names) = (Vec::new(), Names::default());
        for item in &manifest.items {
            let path = format!("{path}/{}", item.name);
            let pieces = pieces(item, portion_at);
            let many = in_place && pieces.len() > PIECES_MAX;
            let why = check_name(&item.name).err().map(|error| error.to_string());
            let why = why.or_else(|| (in_place && is_compressed(item)).then(|| COMPRESSED.to_owned()));
            let why = why.or_else(|| many.then(|| too_many(pieces.len()))).or_else(|| names.take(&path).err());
            match why {
                Some(why) => left_out.push(LeftOut { shard: Some(shard.shard), item: item.name.clone(), why }),
                None => {
                    let (element, shape) = array::of(item);
                    datasets.push(Dataset { path, item: item.clone(), element, shape, pieces });
                }
            }
        }
        shards.push(Shard { survey: shard, path, file, datasets });
    }
    let (mut arrays, of_arrays) = global::arrays(&shards, &left_out);
    left_out.extend(of_arrays);
    let mut names = Names::default();
    // No array may have this name: the path is for shards only.
    let of_shards = |name: &str| name == SHARDS || name.starts_with(&format!("{SHARDS}/"));
    let mut take = |name: &str| match of_shards(name) {
        true => Err(format!("the shards are in the group /{SHARDS}")),
        false => names.take(name),
    };
    arrays.retain(|array| match take(&array.name) {
        Ok(()) => true,
        Err(why) => {
            left_out.push(LeftOut { shard: None, item: array.name.clone(), why });
            false
        }
    });
    Ok(Some(Contents { space, shards, arrays, left_out }))
}

/// The reason that HDF5 cannot read an item in place.
const COMPRESSED: &str =
    "it is compressed, and HDF5 reads only uncompressed data in place (--copy and `mainstay export` decompress it)";

fn too_many(pieces: usize) -> String {
    format!("it is in {pieces} pieces, and HDF5 reads at most {PIECES_MAX} in place (--copy joins them)")
}

/// The layout file of a shard, and the offset of its portion there.
fn home(survey: &SpaceSurvey, revision: &RevisionSurvey, shard: u32, space: &Path) -> Result<(PathBuf, u64), Failure> {
    let of_layout = survey.layouts.iter().filter(|layout| layout.header.layout_id == revision.layout);
    let mut places = of_layout.flat_map(|layout| layout.header.portions.iter().map(move |place| (layout, place)));
    let (layout, place) = places
        .find(|(_, place)| place.rank == shard)
        .ok_or_else(|| Failure::lost(format!("no portion of rank {shard} in {}", survey.path)))?;
    Ok((space.join(&layout.file), place.at))
}

/// The names in one group, and their items.
#[derive(Default)]
struct Names {
    groups: HashSet<String>,
    datasets: HashSet<String>,
}

impl Names {
    /// Reserves the name of a dataset, and those of the groups above it.
    fn take(&mut self, path: &str) -> Result<(), String> {
        let above = || path.match_indices('/').map(|(at, _)| &path[..at]);
        if self.datasets.contains(path) {
            return Err("another item has its name".to_owned());
        }
        if self.groups.contains(path) {
            return Err(format!("a group is called /{path}"));
        }
        if let Some(dataset) = above().find(|above| self.datasets.contains(*above)) {
            return Err(format!("/{dataset} is an array and no group"));
        }
        self.groups.extend(above().map(str::to_owned));
        self.datasets.insert(path.to_owned());
        Ok(())
    }
}
