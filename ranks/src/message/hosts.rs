//! Words between hosts, beside the messages of their ranks.

use super::mailbox::Label;
use super::post::{Head, Post, kind};
use crate::{Error, Result, mutant};
use serde::{Serialize, de::DeserializeOwned};

/// A word from one host to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Control {
    pub from: usize,
    pub word: u64,
    pub value: u64,
}

impl Post {
    pub fn sum(&mut self, words: &mut [u64]) -> Result<()> {
        Ok(self.wire.sum(words)?)
    }

    /// Tells another host something.
    pub fn tell(&mut self, process: usize, word: u64, value: u64) -> Result<()> {
        if process == self.process() {
            self.controls.push(Control { from: process, word, value });
            return Ok(());
        }
        let label = Label { source: 0, context: 0, tag: 0, bytes: 0 };
        let head = Head { number: word, offset: value, ..self.head(kind::CONTROL, label, 0) };
        self.send_head(process as u32, head, &[])
    }

    /// The words from other hosts that have arrived.
    pub fn controls(&mut self) -> Vec<Control> {
        std::mem::take(&mut self.controls)
    }

    /// Sends a part of a rank that moves to another process.
    pub fn send_part(&mut self, process: u32, part: &[u8]) -> Result<()> {
        let label = Label { source: 0, context: 0, tag: 0, bytes: part.len() as u64 };
        self.send_head(process, self.head(kind::PART, label, 0), part)
    }

    /// The parts of ranks that have arrived, in order.
    pub fn parts(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.parts)
    }

    /// Gives every process the values of all, by their numbers. Collective.
    pub fn gather<T: Serialize + DeserializeOwned>(&mut self, mine: &T) -> Result<Vec<T>> {
        const WORD: usize = 8;
        let garbled = |error| Error::Refused(format!("the words of another host: {error}"));
        let bytes = postcard::to_stdvec(mine).map_err(garbled)?;
        let (process, mut lengths) = (self.process(), vec![0; self.processes()]);
        lengths[process] = bytes.len() as u64;
        self.sum(&mut lengths)?;
        let words = |bytes: u64| (bytes as usize).div_ceil(WORD);
        let mut all = vec![0; lengths.iter().map(|bytes| words(*bytes)).sum()];
        let before = lengths[..process].iter().map(|bytes| words(*bytes)).sum::<usize>();
        for (word, part) in all[before..].iter_mut().zip(bytes.chunks(WORD)) {
            let mut padded = [0; WORD];
            padded[..part.len()].copy_from_slice(part);
            *word = u64::from_le_bytes(padded);
        }
        self.sum(&mut all)?;
        let mut rest = &all[..];
        let mut each = |bytes: &u64| {
            let (mine, others) = rest.split_at(words(*bytes));
            rest = others;
            let bytes: Vec<u8> = mine.iter().flat_map(|word| word.to_le_bytes()).collect();
            postcard::from_bytes(&bytes).map_err(garbled)
        };
        lengths.iter().map(&mut each).collect()
    }

    /// Waits until nothing is in flight between processes. Collective; no rank runs meanwhile.
    pub fn drain(&mut self) -> Result<()> {
        if self.processes() == 1 {
            return Ok(());
        }
        loop {
            self.poll()?;
            let mut words = [self.sent, self.received];
            self.sum(&mut words)?;
            if words[0] == words[1] || mutant::is("DrainedTooEarly") {
                break;
            }
        }
        // Every process has got everything, and knows it.
        self.underway.clear();
        self.unannounced.clear();
        Ok(())
    }
}
