//! Reading the streams of the revision that was restored.
//!
//! What must hold: nothing is read once a checkpoint has begun, whose root may free these blocks.

use super::inner::Inner;
use crate::{
    error::{Error, Result},
    restore::Blocks,
    space::{
        Portion,
        format::{Extent, Item, ItemKind, Manifest},
    },
};

/// Names in a message, at most.
const NAMES_MAX: usize = 10;

/// What `read` reads from.
#[derive(Default)]
pub(super) enum Reading {
    #[default]
    NotRestored,
    /// The space held nothing.
    Nothing,
    Restored(Box<Streams>),
    /// A checkpoint has begun since.
    Over,
}

pub(super) struct Streams {
    revision: u64,
    list: Vec<Stream>,
    blocks: Blocks,
}

struct Stream {
    name: String,
    bytes: u64,
    /// In the order of the stream's bytes, with the offset in the stream at which each begins.
    extents: Vec<(u64, Extent)>,
}

impl Reading {
    /// The streams of this rank's shard, whose manifest was checked.
    pub(super) fn of(revision: u64, portion: Portion, manifest: Manifest) -> Reading {
        let streams = manifest.items.into_iter().filter(|item| item.kind == ItemKind::File);
        let list = streams.map(Stream::new).collect();
        Reading::Restored(Box::new(Streams { revision, list, blocks: Blocks::new(portion, manifest.runs) }))
    }
}

impl Inner {
    pub(super) fn read(&mut self, name: &str, offset: u64, into: &mut [u8]) -> Result<usize> {
        let (stream, blocks) = self.stream("read", name)?;
        stream.read(offset, into, blocks)
    }

    pub(super) fn stream_bytes(&mut self, name: &str) -> Result<u64> {
        self.stream("stream_bytes", name).map(|(stream, _)| stream.bytes)
    }

    pub(super) fn streams(&mut self) -> Result<Vec<(String, u64)>> {
        let restored = self.restored("streams")?;
        let all = restored.iter().flat_map(|streams| &streams.list);
        Ok(all.map(|stream| (stream.name.clone(), stream.bytes)).collect())
    }

    /// A checkpoint begins.
    pub(super) fn forget_reading(&mut self) {
        self.reading = Reading::Over;
    }

    fn stream(&mut self, call: &str, name: &str) -> Result<(&Stream, &mut Blocks)> {
        let Some(streams) = self.restored(call)? else {
            return Err(Error::argument(call, "the last restore found nothing that could be read"));
        };
        match streams.list.iter().find(|stream| stream.name == name) {
            Some(stream) => Ok((stream, &mut streams.blocks)),
            None => Err(streams.missing(name)),
        }
    }

    /// What came back; `None` if there was nothing.
    fn restored(&mut self, call: &str) -> Result<Option<&mut Streams>> {
        let why = match &mut self.reading {
            Reading::Restored(streams) => return Ok(Some(streams)),
            Reading::Nothing => return Ok(None),
            Reading::NotRestored => "nothing was restored yet; call restore first",
            Reading::Over => "a checkpoint has begun since the restore; read before the next checkpoint begins",
        };
        Err(Error::argument(call, why))
    }
}

impl Streams {
    fn missing(&self, name: &str) -> Error {
        let mut there = self.list.iter().map(|stream| stream.name.as_str()).take(NAMES_MAX).collect::<Vec<_>>();
        if self.list.len() > NAMES_MAX {
            there.push("and more");
        }
        let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
        let why = format!("revision {} has no stream of this name on this rank; it has: {there}", self.revision);
        Error::argument(format!("stream {name:?}"), why)
    }
}

impl Stream {
    fn new(item: Item) -> Stream {
        let mut offset = 0;
        let placed = item.extents.into_iter().map(|extent| {
            let begins = offset;
            offset += extent.bytes;
            (begins, extent)
        });
        Stream { name: item.name, bytes: item.bytes, extents: placed.collect() }
    }

    /// How many bytes there were to read.
    fn read(&self, offset: u64, into: &mut [u8], blocks: &mut Blocks) -> Result<usize> {
        let bytes = self.bytes.saturating_sub(offset).min(into.len() as u64) as usize;
        let mut rest = &mut into[..bytes];
        let first = self.extents.partition_point(|(begins, extent)| begins + extent.bytes <= offset);
        let mut offset = offset;
        for (begins, extent) in &self.extents[first..] {
            if rest.is_empty() {
                break;
            }
            let within = offset - begins;
            let part = rest.split_off_mut(..rest.len().min((extent.bytes - within) as usize)).unwrap_or_default();
            blocks.read(extent.at + within, part)?;
            offset += part.len() as u64;
        }
        Ok(bytes)
    }
}
