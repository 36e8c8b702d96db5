//! Waiting for descriptors: `poll` and `select`, with the host's numbers.

use super::{Arguments, System, kernel};
use crate::memory;
use std::{io, os::fd::AsRawFd};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A rank polls no more.
const POLLED_MAX: u64 = 1 << 16;
const SET_WORDS: usize = 16;

#[repr(C)]
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
struct Polled {
    descriptor: i32,
    events: i16,
    returned: i16,
}

fn host_error(result: i64) -> io::Result<i64> {
    kernel::result(result)
}

impl System {
    pub(super) fn poll(&mut self, number: i64, [at, count, rest @ ..]: Arguments) -> io::Result<i64> {
        const SIZE: usize = size_of::<Polled>();
        if count > POLLED_MAX {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let place = |index: usize| at as usize + index * SIZE;
        let asked = (0..count as usize).map(|index| memory::get::<Polled>(self.slot, place(index)));
        let asked = asked.collect::<io::Result<Vec<Polled>>>()?;
        let host_number = |number: i32| self.descriptors.get(number).map_or(-1, |file| file.host.as_raw_fd());
        let mut polled: Vec<Polled> =
            asked.iter().map(|one| Polled { descriptor: host_number(one.descriptor), ..*one }).collect();
        let [a, b, c, d] = rest;
        let result = host_error(kernel::call(number, [polled.as_mut_ptr() as u64, count, a, b, c, d]))?;
        for (index, (one, mine)) in polled.iter().zip(&asked).enumerate() {
            memory::put(self.slot, place(index), &Polled { returned: one.returned, ..*mine })?;
        }
        Ok(result)
    }

    /// `select`, over `poll`'s kin with sets that hold as many descriptors as C's type.
    pub(super) fn select(&mut self, number: i64, [count, sets @ .., time, mask]: Arguments) -> io::Result<i64> {
        let count = (count as usize).min(SET_WORDS * 64);
        let words = count.div_ceil(64);
        let read = |at: u64| -> io::Result<Vec<u64>> {
            let word = |index: usize| memory::get::<u64>(self.slot, at as usize + index * 8);
            if at == 0 { Ok(Vec::new()) } else { (0..words).map(word).collect() }
        };
        let asked = [read(sets[0])?, read(sets[1])?, read(sets[2])?];
        let mut host = [[0u64; SET_WORDS]; 3];
        let mut numbers = Vec::new();
        for (set, asked) in asked.iter().enumerate() {
            for number in
                (0..count).filter(|number| asked.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1))
            {
                let file = self.descriptors.get(number as i32)?.host.as_raw_fd() as usize;
                if file >= SET_WORDS * 64 {
                    return Err(io::Error::from_raw_os_error(libc::EINVAL));
                }
                host[set][file / 64] |= 1 << (file % 64);
                numbers.push((set, number, file));
            }
        }
        let most = numbers.iter().map(|(_, _, file)| file + 1).max().unwrap_or(0) as u64;
        let address =
            |set: usize, words: &mut [u64; SET_WORDS]| if sets[set] == 0 { 0 } else { words.as_mut_ptr() as u64 };
        let [first, second, third] = &mut host;
        let arguments = [most, address(0, first), address(1, second), address(2, third), time, mask];
        let result = host_error(kernel::call(number, arguments))?;
        for set in 0..3 {
            let mut back = vec![0u64; asked[set].len()];
            for (_, number, _) in
                numbers.iter().filter(|(of, _, file)| *of == set && host[set][file / 64] >> (file % 64) & 1 == 1)
            {
                back[number / 64] |= 1 << (number % 64);
            }
            for (index, word) in back.iter().enumerate() {
                memory::put(self.slot, sets[set] as usize + index * 8, word)?;
            }
        }
        Ok(result)
    }
}
