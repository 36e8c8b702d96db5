//! Standard input of rank 0. A restart goes on where the rank stood in it, if the job gets the same input again.
//!
//! Invariant: the place in the input belongs to the rank. The host's own descriptor of a file never moves, and bytes of a
//! pipe are kept, so a rank that is brought back in the same process reads them again.

use super::{Arguments, System, kernel};
use crate::memory;
use std::{
    io::{self, Read},
    sync::Mutex,
};

/// The bytes that this process has read from a pipe or a terminal.
static KEPT: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// A read of a pipe passes over no more bytes at once.
const PASSED_MAX: u64 = 1 << 16;

/// Bytes at `place` of an input that can only be read once and in order. Waits as a read does. Empty: the input has ended.
fn bytes_at(kept: &mut Vec<u8>, input: &mut impl Read, place: u64, most: usize) -> io::Result<Vec<u8>> {
    while kept.len() as u64 <= place {
        let wanted = match place - kept.len() as u64 {
            0 => most,
            behind => behind.min(PASSED_MAX) as usize,
        };
        let mut more = vec![0; wanted];
        let got = input.read(&mut more)?;
        if got == 0 {
            return Ok(Vec::new());
        }
        kept.extend(&more[..got]);
    }
    let rest = &kept[place as usize..];
    Ok(rest[..most.min(rest.len())].to_vec())
}

impl System {
    pub(super) fn read(&mut self, number: i64, arguments: Arguments) -> io::Result<i64> {
        let [descriptor, first, second, ..] = arguments;
        let file = self.descriptors.get(descriptor as i32)?.clone();
        let Some(place) = &file.input else {
            return kernel::result(self.on_files(number, arguments, &[0]));
        };
        let (to, most) = match number {
            libc::SYS_readv => self.first_part(first, second)?,
            _ => (first, second),
        };
        if most == 0 {
            return Ok(0);
        }
        let most = most.min(i32::MAX as u64) as usize;
        let bytes = if file.is_a_file() {
            let mut bytes = vec![0; most];
            let got = std::os::unix::fs::FileExt::read_at(&*file.host, &mut bytes, place.get())?;
            bytes.truncate(got);
            bytes
        } else {
            let mut kept = KEPT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            bytes_at(&mut kept, &mut &*file.host, place.get(), most)?
        };
        memory::write(self.slot, to as usize, &bytes)?;
        place.set(place.get() + bytes.len() as u64);
        Ok(bytes.len() as i64)
    }

    /// The first part of a list of parts that is not empty: a read may fill it alone.
    fn first_part(&self, list: u64, count: u64) -> io::Result<(u64, u64)> {
        for index in 0..count.min(1024) {
            let [to, most]: [u64; 2] = memory::get(self.slot, (list + index * 16) as usize)?;
            if most > 0 {
                return Ok((to, most));
            }
        }
        Ok((0, 0))
    }

    pub(super) fn seek(&mut self, number: i64, arguments: Arguments) -> io::Result<i64> {
        let [descriptor, distance, from, ..] = arguments;
        let file = self.descriptors.get(descriptor as i32)?.clone();
        match &file.input {
            Some(place) if file.is_a_file() => {
                let begin = match from as i32 {
                    libc::SEEK_SET => 0,
                    libc::SEEK_CUR => place.get(),
                    libc::SEEK_END => file.host.metadata()?.len(),
                    _ => return Err(io::Error::from_raw_os_error(libc::EINVAL)),
                };
                let wanted = begin.checked_add_signed(distance as i64).filter(|wanted| i64::try_from(*wanted).is_ok());
                let wanted = wanted.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
                place.set(wanted);
                Ok(wanted as i64)
            }
            _ => kernel::result(self.on_files(number, arguments, &[0])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_is_passed_over_up_to_the_place_and_read_again_from_what_is_kept() {
        let (mut kept, mut pipe) = (Vec::new(), &b"one two three"[..]);
        assert_eq!(bytes_at(&mut kept, &mut pipe, 4, 3).unwrap(), b"two", "a restart goes on in the middle");
        assert_eq!(bytes_at(&mut kept, &mut pipe, 0, 100).unwrap(), b"one two", "a rank that goes back reads again");
        assert_eq!(bytes_at(&mut kept, &mut pipe, 7, 100).unwrap(), b" three");
        assert_eq!(bytes_at(&mut kept, &mut pipe, 13, 100).unwrap(), b"", "the input has ended");
        assert_eq!(bytes_at(&mut kept, &mut pipe, 99, 100).unwrap(), b"", "it is shorter than before");
    }
}
