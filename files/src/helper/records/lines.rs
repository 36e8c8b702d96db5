//! Lines to print at the end of `mainstay files`: on files that are torn or were not saved.
//!
//! A line belongs to the job of its file, and goes to a member of that job. The member fails, unless the program has
//! replaced the file since. The lines of a killed job go to the next member that ends, and that one does not fail.

use crate::{
    file::Key,
    stage::{Id, Record},
};

#[derive(Debug)]
struct Line {
    job: String,
    key: Key,
    /// `None`: a remark on the published file.
    id: Option<Id>,
    text: String,
    /// The job fails by it.
    fails: bool,
}

#[derive(Debug, Default)]
pub struct Lines(Vec<Line>);

impl Lines {
    /// Adds a line on the staged file `id`.
    pub fn add(&mut self, id: Id, record: &Record, text: String, fails: bool) {
        let (job, key) = (record.options.job.clone(), record.named.key.clone());
        self.0.push(Line { job, key, id: Some(id), text, fails });
    }

    /// Adds a remark on the published file, for the job of a program that opens it.
    pub fn remark(&mut self, key: &Key, job: &str, text: String) {
        self.0.push(Line { job: job.to_owned(), key: key.clone(), id: None, text, fails: false });
    }

    /// The whole file `id` has got its name.
    pub fn replaced(&mut self, key: &Key, id: Id) {
        self.settle(key, |line| line.id <= Some(id), "a whole file has replaced it since");
    }

    /// The program has removed the file, or has renamed another one to its name.
    pub fn removed(&mut self, key: &Key) {
        self.settle(key, |_| true, "the program has removed or replaced it since");
    }

    fn settle(&mut self, key: &Key, is_meant: impl Fn(&Line) -> bool, how: &str) {
        for line in self.0.iter_mut().filter(|line| line.fails && line.key == *key && is_meant(line)) {
            line.fails = false;
            line.text += &format!(" ({how})");
        }
    }

    /// An open file has another name now. It replaces the torn file of the old name, too.
    pub fn renamed(&mut self, from: &Key, to: &Key) {
        self.0.iter_mut().filter(|line| line.key == *from).for_each(|line| line.key = to.clone());
    }

    /// The job was killed, and another one with the same name has started.
    pub fn orphan(&mut self, job: &str) {
        self.0.iter_mut().filter(|line| line.job == job).for_each(|line| line.job.clear());
    }

    /// Takes out the lines of `job` if `has_own`, and the lines of ended jobs. The member fails by the first list.
    pub fn take(&mut self, job: &str, has_own: bool, is_living: impl Fn(&str) -> bool) -> (Vec<String>, Vec<String>) {
        let (mut failures, mut remarks) = (Vec::new(), Vec::new());
        for line in std::mem::take(&mut self.0) {
            let is_own = line.job == job && !job.is_empty();
            match if is_own { has_own } else { !is_living(&line.job) } {
                true if is_own && line.fails => failures.push(line.text),
                true => remarks.push(line.text),
                false => self.0.push(line),
            }
        }
        (failures, remarks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{file::Named, options::Options, stage::Share};
    use std::ffi::OsStr;

    fn record(name: &str, job: &str) -> Record {
        let named = Named::in_folder("/".as_ref(), OsStr::new(name)).unwrap();
        let options = Options { job: job.to_owned(), ..Options::default() };
        Record { named, is_through: false, share: Share::Whole, options, round: 0 }
    }

    fn lines(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn a_line_of_a_killed_job_goes_to_the_next_member_that_ends() {
        let mut all = Lines::default();
        all.add(Id::after(None, 1), &record("x", "a"), "torn".to_owned(), true);
        assert_eq!(all.take("b", true, |_| true), (vec![], vec![]));
        assert_eq!(all.take("a", false, |_| true), (vec![], vec![]));
        assert_eq!(all.take("a", true, |_| true), (lines(&["torn"]), vec![]));
        all.add(Id::after(None, 1), &record("x", "a"), "torn".to_owned(), true);
        assert_eq!(all.take("b", false, |job| job != "a"), (vec![], lines(&["torn"])));
        all.add(Id::after(None, 1), &record("x", "a"), "torn".to_owned(), true);
        all.orphan("a");
        assert_eq!(all.take("a", true, |job| job == "a"), (vec![], lines(&["torn"])));
    }

    #[test]
    fn a_replaced_file_fails_no_job() {
        let (first, x) = (Id::after(None, 1), record("x", "a"));
        let (second, third) = (Id::after(Some(first), 1), Id::after(Some(first), 2));
        let key = x.named.key.clone();
        let mut all = Lines::default();
        all.add(second, &x, "torn".to_owned(), true);
        all.replaced(&key, first);
        all.replaced(&record("y", "a").named.key, third);
        assert_eq!(all.take("a", true, |_| true), (lines(&["torn"]), vec![]));
        all.add(second, &x, "torn".to_owned(), true);
        all.replaced(&key, third);
        all.removed(&key);
        assert_eq!(all.take("a", true, |_| true), (vec![], lines(&["torn (a whole file has replaced it since)"])));
    }
}
