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
        let streams = match &mut self.reading {
            Reading::NotRestored => {
                return Err(Error::argument("read", "nothing was restored yet; call restore first"));
            }
            Reading::Nothing => {
                return Err(Error::argument("read", format!("{} held nothing to restore", self.device.path())));
            }
            Reading::Over => return Err(over("read")),
            Reading::Restored(streams) => streams,
        };
        let Some(stream) = streams.list.iter().find(|stream| stream.name == name) else {
            return Err(streams.missing(name));
        };
        stream.read(offset, into, &mut streams.blocks)
    }

    pub(super) fn streams(&self) -> Result<Vec<(String, u64)>> {
        match &self.reading {
            Reading::NotRestored => Err(Error::argument("streams", "nothing was restored yet; call restore first")),
            Reading::Nothing => Ok(Vec::new()),
            Reading::Over => Err(over("streams")),
            Reading::Restored(streams) => {
                Ok(streams.list.iter().map(|stream| (stream.name.clone(), stream.bytes)).collect())
            }
        }
    }

    /// A checkpoint begins.
    pub(super) fn forget_reading(&mut self) {
        self.reading = Reading::Over;
    }
}

fn over(call: &str) -> Error {
    Error::argument(call, "a checkpoint has begun since the restore; read before the next checkpoint begins")
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
