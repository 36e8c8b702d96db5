//! An object of the program: the functions of its kind pack, unpack and destroy it, and receive its messages.

use super::tables::KindTable;
use crate::{
    argument::null,
    error::{Status, message, set_message},
};
use mainstay_engine::{Error, ErrorKind, Result};
use mainstay_objects::{Object, Post};
use std::{
    any::Any,
    ffi::{c_int, c_void},
    ptr::null_mut,
};

/// An object of a C program.
pub(super) struct CObject {
    pub(super) kind: KindTable,
    pub(super) object: *mut c_void,
}

/// The result of a function of the program, with its own message if it has set one.
pub(super) fn called(call: impl FnOnce() -> c_int) -> Result<()> {
    set_message("");
    let status = call();
    if status == 0 {
        return Ok(());
    }
    let said = message();
    if status == Status::GroupFailed as c_int {
        return Err(Error::GroupFailed { what: said });
    }
    let kind = u32::try_from(status).map_or(ErrorKind::Internal, ErrorKind::from);
    let why = if said.is_empty() { format!("it returned {status} ({})", kind.name()) } else { said };
    Err(Error::argument("the program says", why))
}

#[allow(unsafe_code)]
impl Object for CObject {
    fn bytes(&self) -> Result<usize> {
        let (Some(sized), mut bytes) = (self.kind.bytes, 0) else { return Err(null("bytes")) };
        // SAFETY: the object is one that `create` made.
        called(|| unsafe { sized(self.kind.context, self.object, &mut bytes) })?;
        Ok(bytes)
    }

    fn pack(&self, into: &mut [u8]) -> Result<usize> {
        let (Some(pack), mut written) = (self.kind.pack, 0) else { return Err(null("pack")) };
        let (data, bytes) = (into.as_mut_ptr().cast(), into.len());
        // SAFETY: the object is one that `create` made, and there is so much room.
        called(|| unsafe { pack(self.kind.context, self.object, data, bytes, &mut written) })?;
        Ok(written)
    }

    fn unpack(&mut self, from: &[u8]) -> Result<usize> {
        let (Some(unpack), mut taken) = (self.kind.unpack, 0) else { return Err(null("unpack")) };
        let (data, bytes) = (from.as_ptr().cast(), from.len());
        // SAFETY: the object is one that `create` made, and so many bytes are there.
        called(|| unsafe { unpack(self.kind.context, self.object, data, bytes, &mut taken) })?;
        Ok(taken)
    }

    fn receive(&mut self, method: u32, bytes: &[u8], _: &Post) -> Result<()> {
        let Some(receive) = self.kind.receive else {
            return Err(Error::argument("receive", "its kind takes no messages"));
        };
        // SAFETY: the object is one that `create` made, and so many bytes are there.
        called(|| unsafe { receive(self.kind.context, self.object, method, bytes.as_ptr().cast(), bytes.len()) })
    }
}

impl Drop for CObject {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        if let Some(destroy) = self.kind.destroy {
            // SAFETY: the object is one that `create` made, and is destroyed once.
            unsafe { destroy(self.kind.context, self.object) };
        }
    }
}

/// The program's handle of an object.
pub(super) fn handle(object: &mut dyn Object) -> *mut c_void {
    let object: &dyn Any = object;
    object.downcast_ref::<CObject>().map_or(null_mut(), |made| made.object)
}
