//! Memory from a caller: bytes, and room for them.

use crate::argument::null;
use mainstay_engine::{Error, check_writable};
use std::{ffi::c_void, slice};

/// # Safety
/// `data` is null or points to `bytes` bytes.
#[allow(unsafe_code)]
pub(crate) unsafe fn given<'a>(data: *const c_void, bytes: usize) -> Result<&'a [u8], Error> {
    Ok(match at(data, bytes)? {
        0 => &[],
        // SAFETY: as the caller promised, and not null.
        bytes => unsafe { slice::from_raw_parts(data.cast(), bytes) },
    })
}

/// # Safety
/// `data` is null or has room for `bytes` bytes. Read-only memory is refused, because a write to it would end the
/// program.
#[allow(unsafe_code)]
pub(crate) unsafe fn room<'a>(data: *mut c_void, bytes: usize) -> Result<&'a mut [u8], Error> {
    Ok(match at(data, bytes)? {
        0 => &mut [],
        bytes => {
            check_writable("data", data.addr(), bytes)?;
            // SAFETY: as the caller promised, and neither null nor read-only.
            unsafe { slice::from_raw_parts_mut(data.cast(), bytes) }
        }
    })
}

/// `bytes` again, if memory at `data` can be so large.
fn at(data: *const c_void, bytes: usize) -> Result<usize, Error> {
    if data.is_null() && bytes > 0 {
        return Err(null("data"));
    }
    check(bytes)?;
    Ok(bytes)
}

/// `bytes` again, if memory can be so large.
pub(crate) fn check(bytes: usize) -> Result<u64, Error> {
    // No memory is larger, but a negative count would seem so.
    if bytes > isize::MAX as usize {
        return Err(Error::argument("bytes", format!("{bytes} of them, more than any memory has")));
    }
    Ok(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(unsafe_code)]
    fn read_only_memory_is_no_room() {
        static GIVEN: [u8; 3 * 4096] = [7; 3 * 4096];
        let mut own = vec![0_u8; 100];
        // SAFETY: it is refused before anyone reads it; the other has so many bytes.
        let (refused, room) =
            unsafe { (room(GIVEN.as_ptr().cast_mut().cast(), GIVEN.len()), room(own.as_mut_ptr().cast(), 100)) };
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("data") && refused.contains("it is read-only at 0x"), "{refused}");
        assert_eq!(room.unwrap().len(), 100);
    }
}
