//! Programs that a script has started, and that cannot load the library. A line names each once.

use super::request::Answer;
use std::collections::HashSet;

/// Most programs to remember.
const PROGRAMS_MAX: usize = 4096;

/// The programs that a line has named since the start of the oldest running `mainstay files`.
#[derive(Debug, Default)]
pub struct Uncaught(HashSet<Vec<u8>>);

impl Uncaught {
    /// `Ok`: the library prints a line on the program. `Plain`: a line has named it before.
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
