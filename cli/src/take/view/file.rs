//! The HDF5 file: groups, datasets that point into the space, arrays over them, and attributes.

use super::{
    chunks::Chunks,
    element::datatype,
    global::Global,
    pieces::Piece,
    shard::{Dataset, Shard},
};
use crate::{
    document::{hex, item_kind},
    exit::Failure,
};
use mainstay_engine::RevisionSurvey;
use rust_hdf5::{
    FileLocking, H5Dataset, H5File, H5Group, Hdf5Error, Hyperslab, LibverBound, RegularHyperslab, Selection,
    VarLenUnicode, dataset::DatasetBuilder,
};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

/// Source of zeros that are stored nowhere.
const ZEROS: &str = "/dev/zero";

/// Fills the buffer with verified bytes of a shard's item, from an offset on.
pub type Read<'a> = &'a mut dyn FnMut(u32, &str, u64, &mut [u8]) -> Result<(), Failure>;

type Result<T, E = Failure> = std::result::Result<T, E>;

impl From<Hdf5Error> for Failure {
    fn from(error: Hdf5Error) -> Failure {
        Failure::refused(format!("writing the HDF5 file failed: {error}"))
    }
}

pub struct File {
    file: H5File,
    /// Groups by path; the root has none.
    groups: HashMap<String, H5Group>,
}

impl File {
    /// Makes the file, with the attributes of the whole: a revision of `space`.
    pub fn create(path: &Path, space: &str, revision: &RevisionSurvey) -> Result<File> {
        // Virtual datasets came with 1.10. Older tools do not read a newer format.
        let options = H5File::options().libver(LibverBound::V110).track_order(true);
        // The file has no name yet.
        let file = options.locking(FileLocking::Disabled).create(path)?;
        let root = file.root_group();
        root.set_attr_string("space", space)?;
        root.set_attr_numeric("revision", &revision.key.number)?;
        root.set_attr_numeric("lineage", &revision.key.lineage.number)?;
        root.set_attr_string("lineage_id", &hex(&revision.key.lineage.id))?;
        root.set_attr_numeric("shards", &revision.shard_count)?;
        root.set_attr_numeric("t1_unix_ns", &revision.t1_unix_ns())?;
        Ok(File { file, groups: HashMap::from([(String::new(), root)]) })
    }

    /// Adds the shards' datasets in place; `names` are those of the layout files.
    pub fn show(&mut self, shards: &[Shard<'_>], names: &HashMap<PathBuf, String>) -> Result<()> {
        for shard in shards {
            self.number(shard)?;
            for dataset in &shard.datasets {
                let file = names[&shard.file].as_str();
                let place = |piece: &Piece| match piece.at {
                    Some(at) => (file, at, piece.bytes),
                    None => (ZEROS, 0, piece.bytes),
                };
                let pieces: Vec<_> = dataset.pieces.iter().map(place).collect();
                let new = self.new_dataset(dataset)?;
                // An empty item has no place.
                let new = if pieces.is_empty() { new } else { new.external(&pieces) };
                describe(&new.create(leaf(&dataset.path))?, dataset)?;
            }
        }
        Ok(())
    }

    /// Adds the shards' datasets with the bytes from `read`.
    pub fn copy(&mut self, shards: &[Shard<'_>], read: Read<'_>) -> Result<()> {
        let mut buffer = Vec::new();
        for shard in shards {
            self.number(shard)?;
            for dataset in &shard.datasets {
                let (of, name, new) = (shard.survey.shard, &dataset.item.name, self.new_dataset(dataset)?);
                let Some(chunks) = Chunks::of(dataset.element.size(), &dataset.shape) else {
                    let made = new.create(leaf(&dataset.path))?;
                    describe(&made, dataset)?;
                    buffer.resize(dataset.item.bytes as usize, 0);
                    if !buffer.is_empty() {
                        read(of, name, 0, &mut buffer)?;
                        made.write_raw_bytes(&buffer)?;
                    }
                    continue;
                };
                let made = new.chunk(&lengths(&chunks.shape)).create(leaf(&dataset.path))?;
                describe(&made, dataset)?;
                for (index, (at, bytes)) in chunks.each().enumerate() {
                    buffer.clear();
                    buffer.resize(chunks.bytes as usize, 0);
                    read(of, name, at, &mut buffer[..bytes as usize])?;
                    made.write_chunk(index, &buffer)?;
                }
            }
        }
        Ok(())
    }

    /// Adds the arrays over the shards' datasets.
    pub fn join(&mut self, arrays: &[Global]) -> Result<()> {
        arrays.iter().try_for_each(|array| self.array(array))
    }

    pub fn close(self) -> Result<()> {
        let File { file, groups } = self;
        drop(groups);
        Ok(file.close()?)
    }

    /// The group of a shard, with its attribute.
    fn number(&mut self, shard: &Shard<'_>) -> Result<()> {
        Ok(self.group(&shard.path)?.set_attr_numeric("shard", &shard.survey.shard)?)
    }

    fn new_dataset(&mut self, dataset: &Dataset) -> Result<DatasetBuilder<u8>> {
        let group = self.group(above(&dataset.path))?;
        Ok(group.new_dataset::<u8>().datatype(datatype(dataset.element)).shape(lengths(&dataset.shape)))
    }

    fn array(&mut self, array: &Global) -> Result<()> {
        let group = self.group(above(&array.name))?;
        let mut new = group.new_dataset::<u8>().datatype(datatype(array.element)).shape(lengths(&array.shape));
        for part in &array.parts {
            let (of_array, of_dataset) = (part.block.offset.clone(), part.within.clone());
            // A dot means this file, under any name.
            let source = format!("/{}", part.path);
            let [of_array, of_dataset] = [of_array, of_dataset].map(|start| selection(start, &part.block.shape));
            new = new.virtual_mapping(of_array, ".", &source, of_dataset);
        }
        let made = new.create(leaf(&array.name))?;
        Ok(made.new_attr::<VarLenUnicode>().create("element_type")?.write_string(array.element.name())?)
    }

    /// The group of this path; makes it if it is missing.
    fn group(&mut self, path: &str) -> Result<&H5Group> {
        if !self.groups.contains_key(path) {
            let group = self.group(above(path))?.create_group(leaf(path))?;
            self.groups.insert(path.to_owned(), group);
        }
        Ok(&self.groups[path])
    }
}

fn describe(made: &H5Dataset, dataset: &Dataset) -> Result<()> {
    let text = |name: &str, value: &str| made.new_attr::<VarLenUnicode>().create(name)?.write_string(value);
    let numbers = |name: &str, of: &[u64]| made.new_attr::<u64>().shape([of.len()]).create(name)?.write_array(of);
    text("kind", item_kind(dataset.item.kind))?;
    text("element_type", dataset.element.name())?;
    made.new_attr::<u64>().create("bytes")?.write_numeric(&dataset.item.bytes)?;
    if let Some(place) = &dataset.item.place {
        numbers("global_shape", &place.global_shape)?;
        numbers("offset", &place.offset)?;
    }
    Ok(())
}

fn selection(start: Vec<u64>, shape: &[u64]) -> Selection {
    let ones = vec![1; shape.len()];
    let form = Hyperslab::Regular(RegularHyperslab { start, stride: ones.clone(), count: ones, block: shape.to_vec() });
    Selection::Hyperslab { rank: shape.len(), form }
}

fn lengths(shape: &[u64]) -> Vec<usize> {
    shape.iter().map(|n| *n as usize).collect()
}

fn above(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(above, _)| above)
}

fn leaf(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, leaf)| leaf)
}
