//! Reads the streams of the restored revision.
//!
//! Invariant: nothing is read once a checkpoint has begun, because its root may free these blocks.

use crate::{
    error::{Error, Result, named},
    plural::count,
    restore::{BlockReader, Stored},
    space::{
        Portion,
        format::{ItemKind, Manifest},
    },
};

/// The source of `read`.
#[derive(Default)]
pub(super) enum Reading {
    #[default]
    NotRestored,
    /// The space held nothing.
    Nothing,
    Restored(Box<Streams>),
    /// Another number of ranks, this one, saved the revision. The present ranks have no streams of their own in it.
    OfOtherRanks(usize),
    /// A checkpoint has begun since the restore.
    Over,
}

pub(super) struct Streams {
    revision: u64,
    list: Vec<Stream>,
    blocks: BlockReader,
}

struct Stream {
    name: String,
    stored: Stored,
}

impl Reading {
    /// The streams of this rank's shard, from its verified manifest.
    pub(super) fn of(revision: u64, portion: Portion, manifest: Manifest) -> Reading {
        let blocks = BlockReader::new(portion, &manifest);
        let streams = manifest.items.into_iter().filter(|item| item.kind == ItemKind::Stream);
        let list = streams.map(|item| Stream { stored: Stored::of(&item), name: item.name }).collect();
        Reading::Restored(Box::new(Streams { revision, list, blocks }))
    }

    /// Whether a revision with streams was restored, and none was saved since.
    pub(super) fn has_streams(&self) -> bool {
        match self {
            Reading::Restored(streams) => !streams.list.is_empty(),
            Reading::OfOtherRanks(_) => true,
            Reading::NotRestored | Reading::Nothing | Reading::Over => false,
        }
    }

    pub(super) fn read(&mut self, name: &str, offset: u64, into: &mut [u8]) -> Result<usize> {
        let (stream, blocks) = self.stream("read", name)?;
        stream.stored.read(offset, into, blocks)
    }

    pub(super) fn stream_bytes(&mut self, name: &str) -> Result<u64> {
        self.stream("stream_bytes", name).map(|(stream, _)| stream.stored.bytes)
    }

    pub(super) fn streams(&mut self) -> Result<Vec<(String, u64)>> {
        let restored = self.restored("streams")?;
        let all = restored.iter().flat_map(|streams| &streams.list);
        Ok(all.map(|stream| (stream.name.clone(), stream.stored.bytes)).collect())
    }

    fn stream(&mut self, call: &str, name: &str) -> Result<(&Stream, &mut BlockReader)> {
        let Some(streams) = self.restored(call)? else {
            return Err(Error::argument(call, "the last restore found nothing that could be read"));
        };
        match streams.list.iter().find(|stream| stream.name == name) {
            Some(stream) => Ok((stream, &mut streams.blocks)),
            None => Err(streams.missing(name)),
        }
    }

    /// The restored streams; `None` if there was nothing to restore. If nothing can be read now, the error names
    /// `call`.
    fn restored(&mut self, call: &str) -> Result<Option<&mut Streams>> {
        let why = match self {
            Reading::Restored(streams) => return Ok(Some(streams)),
            Reading::Nothing => return Ok(None),
            Reading::OfOtherRanks(saved) => format!(
                "the revision was saved by {}, and nobody can say which streams are whose; read them from the shards \
                 (mainstay_bring_shards and mainstay_read_shard, in Python bring_shards and read_shard)",
                count(*saved as u64, "rank")
            ),
            Reading::NotRestored => "nothing was restored yet; call restore first".to_owned(),
            Reading::Over => {
                "a checkpoint has begun since the restore; read before the next checkpoint begins".to_owned()
            }
        };
        Err(Error::argument(call, why))
    }
}

impl Streams {
    fn missing(&self, name: &str) -> Error {
        let there = named(self.list.iter().map(|stream| stream.name.as_str()));
        let why = format!("revision {} has no stream of this name on this rank; it has: {there}", self.revision);
        Error::argument(format!("stream {name:?}"), why)
    }
}
