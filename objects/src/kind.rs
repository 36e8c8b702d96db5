//! The program's definition of a kind of objects.

use crate::{index::place_of, post::Post};
use mainstay_engine::{Error, Result};
use std::any::Any;

/// A part of the program's state that can be packed, sent or saved, and unpacked elsewhere.
pub trait Object: Any {
    /// Bytes that `pack` writes: the same until the object gets a message.
    fn bytes(&self) -> Result<usize>;
    /// Writes the object, and returns the number of bytes, which must equal `bytes`.
    fn pack(&self, into: &mut [u8]) -> Result<usize>;
    /// Sets the object from packed bytes, and returns the number of bytes used, which must be all.
    fn unpack(&mut self, from: &[u8]) -> Result<usize>;
    /// Handles the message. Its own messages go through `post`.
    fn receive(&mut self, method: u32, bytes: &[u8], post: &Post) -> Result<()>;
    /// The method's name in messages.
    fn method(&self, method: u32) -> String {
        method.to_string()
    }
}

/// Makes an object with this index, to be unpacked into or filled by the program.
pub type Maker = Box<dyn Fn(u64) -> Result<Box<dyn Object>>>;

pub(crate) struct Kind {
    pub(crate) name: String,
    /// Of its index; 0: the index is a plain number.
    pub(crate) dimensions: usize,
    pub(crate) make: Maker,
}

impl Kind {
    /// The object's name in messages: `cell[3,4,5]`.
    pub(crate) fn object(&self, id: u64) -> String {
        let at = if self.dimensions == 0 { vec![id] } else { place_of(id, self.dimensions) };
        let at: Vec<String> = at.iter().map(u64::to_string).collect();
        format!("{}[{}]", self.name, at.join(","))
    }
}

/// An error of an object; errors of the ranks stay unchanged.
pub(crate) fn fault(object: &str, rank: usize, why: impl Into<String>) -> Error {
    Error::argument(format!("object {object} on rank {rank}"), why)
}

/// Appends the packed `object` to `into`; returns the number of bytes.
pub(crate) fn pack(object: &dyn Object, into: &mut Vec<u8>) -> std::result::Result<usize, String> {
    let bytes = object.bytes().map_err(|error| format!("its size could not be determined: {error}"))?;
    let begin = into.len();
    into.try_reserve(bytes).map_err(|_| format!("there is no memory for the {bytes} bytes of its size"))?;
    into.resize(begin + bytes, 0);
    let written = object.pack(&mut into[begin..]).map_err(|error| format!("it could not be packed: {error}"))?;
    if written == bytes {
        return Ok(bytes);
    }
    Err(format!(
        "it was {bytes} bytes when it was sized, and packing wrote {written}; let sizing and packing see the same data"
    ))
}

/// Sets `object` from the packed bytes in `from`.
pub(crate) fn unpack(object: &mut dyn Object, from: &[u8]) -> std::result::Result<(), String> {
    let taken = object.unpack(from).map_err(|error| format!("it could not be unpacked: {error}"))?;
    if taken == from.len() {
        return Ok(());
    }
    Err(format!(
        "packing wrote {} bytes, and unpacking took {taken}; let both go through the same data in the same order",
        from.len()
    ))
}
