//! Writes a trace.

use super::{WORD, Written};
use std::io::{self, Write};

/// Writes a trace record by record, each whole and at once. The trace of a killed program is therefore readable.
#[derive(Debug)]
pub struct Writer<W> {
    to: W,
    record: Vec<u8>,
}

impl<W: Write> Writer<W> {
    pub fn new(to: W) -> Writer<W> {
        Writer { to, record: Vec::new() }
    }

    /// Appends a record; times must ascend.
    pub fn write(&mut self, written: &Written) -> io::Result<()> {
        let head = [written.moment as u64, written.at_us, written.resident, written.stretches.len() as u64];
        let pairs = written.stretches.iter().flat_map(|(first, pages)| [*first, *pages]);
        self.record.clear();
        self.record.reserve(WORD * (head.len() + 2 * written.stretches.len()));
        head.into_iter().chain(pairs).for_each(|word| self.record.extend(word.to_le_bytes()));
        self.to.write_all(&self.record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::{Moment, Reader};

    #[test]
    fn what_was_written_is_read() {
        let record = |moment, at_us, stretches| Written { moment, at_us, resident: 77, stretches };
        let records = [
            record(Moment::Iteration, 5, vec![]),
            record(Moment::Tick, 5, vec![(1 << 40, 3), (7, 1)]),
            record(Moment::Iteration, 900, vec![(0, 1)]),
        ];
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        records.iter().for_each(|record| writer.write(record).unwrap());
        let read: Vec<_> = Reader::new(&bytes[..], "it").collect::<Result<_, _>>().unwrap();
        assert_eq!(read, records);
    }
}
