//! Programs that no library can be loaded into, and that a script has started. A line names each once.

use super::request::Answer;
use std::collections::HashSet;

/// Programs that are remembered.
const PROGRAMS_MAX: usize = 4096;

/// The programs that were named since the first of the running `mainstay files` has begun.
#[derive(Debug, Default)]
pub struct Uncaught(HashSet<Vec<u8>>);

impl Uncaught {
    /// `Ok`: the library names the program. `Plain`: a line has named it before.
    pub fn answer(&mut self, program: &[u8]) -> Answer {
        if self.0.len() >= PROGRAMS_MAX {
            self.0.clear();
        }
        match self.0.insert(program.to_vec()) {
            true => Answer::Ok,
            false => Answer::Plain(String::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_named_once() {
        let mut uncaught = Uncaught::default();
        assert_eq!(uncaught.answer(b"/a"), Answer::Ok);
        assert_eq!(uncaught.answer(b"/b"), Answer::Ok);
        assert_eq!(uncaught.answer(b"/a"), Answer::Plain(String::new()));
    }
}
