//! The threshold between pieces that are gathered and pieces that bypass the buffer. It is measured on this machine:
//! slides 003 ("Memory-copy vs. File write") search for the size at which the cost of a copy crosses that of a write.

use crate::{
    capture::copy,
    device::{self, Access, Device, File, Naming, NewFile},
    error::{Error, Result},
    ground::Instant,
    space::Aligned,
};
use std::{hint::black_box, sync::Arc, time::Duration};

/// Range of sizes in which the threshold is sought.
const THRESHOLD_MIN: u64 = 4 << 10;
const THRESHOLD_MAX: u64 = 1 << 20;
/// Tries for each size; the fastest counts, because others were disturbed.
const ROUNDS: usize = 5;
/// Offset of the probe's write: off a block boundary, as pieces are, so that the write goes through the cache.
const ASIDE: usize = 64;

/// The smallest size from which a piece costs the program less if it is written at once than if it is copied and
/// written later as a part of something large. Writes to a file of its own, `name` on `device`, and removes it.
pub(crate) fn find_threshold(device: &dyn Device, name: &str) -> Result<u64> {
    let failed = |e| Error::io("finding threshold_bytes with", format!("{}/{name}", device.path()), e);
    let file = device.open(name, Access::Write, Some(&NewFile::of(2 * THRESHOLD_MAX))).map_err(failed)?;
    let found = measure(&file).map_err(failed);
    device.name(Naming::Remove(name)).map_err(failed)?;
    found
}

fn measure(file: &Arc<dyn File>) -> std::io::Result<u64> {
    let room = THRESHOLD_MAX + ASIDE as u64;
    let no_memory = || std::io::Error::from(std::io::ErrorKind::OutOfMemory);
    let (mut from, mut into) =
        (Aligned::zeroed(room).ok_or_else(no_memory)?, Aligned::zeroed(room).ok_or_else(no_memory)?);
    // Touch the memory here, so that no first access is measured.
    from.fill(1);
    into.fill(2);
    let written = |bytes: u64| -> std::io::Result<Duration> {
        let begun = Instant::now();
        device::write_full(&**file, &from[ASIDE..][..bytes as usize], ASIDE as u64)?;
        Ok(begun.elapsed())
    };
    let fastest_write = |bytes: u64| {
        (0..ROUNDS).map(|_| written(bytes)).try_fold(Duration::MAX, |a, b| Ok::<_, std::io::Error>(a.min(b?)))
    };
    let large_per_byte = fastest_write(THRESHOLD_MAX)?.as_secs_f64() / THRESHOLD_MAX as f64;
    let mut size = THRESHOLD_MIN;
    while size < THRESHOLD_MAX {
        let write = fastest_write(size)?.as_secs_f64();
        let mut copied = Duration::MAX;
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            copy(black_box(&from[ASIDE..][..size as usize]), &mut into[ASIDE..][..size as usize]);
            copied = copied.min(begun.elapsed());
        }
        if write <= copied.as_secs_f64() + size as f64 * large_per_byte {
            break;
        }
        size *= 2;
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Disk;

    #[test]
    fn a_threshold_is_found_and_nothing_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let found = find_threshold(&Disk::existing(directory.path()), "probe-threshold").unwrap();
        assert!((THRESHOLD_MIN..=THRESHOLD_MAX).contains(&found) && found.is_power_of_two(), "{found}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
