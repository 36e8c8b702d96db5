//! A recovery of the job while it ran: the failed ranks, their replacements, and the times.

use super::{
    Saved,
    bounds::{NUMBER_MAX, RANKS_MAX, TEXT_BYTES_MAX},
};
use crate::printable::is_seen;
use serde::{Deserialize, Serialize};

/// Maximum number of reported ranks or texts of a long list.
pub(crate) const LISTED_MAX: usize = 1000;
/// Maximum number of ranks named in a sentence.
const NAMED_MAX: usize = 8;

/// A failure, and how the job went on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovery {
    /// Time when the failure was noticed, nanoseconds since 1970.
    pub noticed_unix_ns: u64,
    /// The ranks that failed, by their old numbers, ascending.
    pub failed: Vec<u32>,
    pub way: Way,
    pub ranks_before: u32,
    /// The number of ranks from then on.
    pub ranks: u32,
    pub parts: Parts,
    /// From noticing the failure until the program goes on with its state back.
    pub total_ns: u64,
    /// The revision that the job went back to; `None` if it started afresh.
    pub back_to: Option<Saved>,
    /// The lineage under which the job saves from then on.
    pub lineage: u64,
    /// The last step that the program had passed to `due`; `None` if it never did.
    pub step: Option<u64>,
    /// Data that could not be brought back.
    pub lost: Vec<String>,
}

/// How the places of failed ranks were filled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// Spares took them.
    #[default]
    Spare,
    /// Newly started processes took them, or some of them.
    Spawned,
    /// Fewer ranks go on.
    Shrunk,
}

/// Durations of a recovery, in nanoseconds on rank 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parts {
    /// From noticing the failure to the new group.
    pub regroup_ns: u64,
    /// Opening the session on that group.
    pub open_ns: u64,
    /// Remaking lost copies, as far as the program waited for it.
    pub copies_ns: u64,
    /// Bringing the program's state back.
    pub state_ns: u64,
}

impl Way {
    pub fn name(self) -> &'static str {
        match self {
            Way::Spare => "spare",
            Way::Spawned => "spawned",
            Way::Shrunk => "shrunk",
        }
    }
}

impl Parts {
    /// Each part with its name, in the order of time.
    pub fn named(&self) -> [(&'static str, u64); 4] {
        let Parts { regroup_ns, open_ns, copies_ns, state_ns } = *self;
        [("group", regroup_ns), ("opening", open_ns), ("state", state_ns), ("copies", copies_ns)]
    }
}

impl Recovery {
    /// The recovery in one sentence.
    pub fn summary(&self) -> String {
        let failed = match &self.failed[..] {
            [] => "the group failed".to_owned(),
            failed => format!("{} failed", ranks_listed(failed)),
        };
        let one = self.failed.len() == 1;
        let way = match self.way {
            Way::Spare if one => "a spare took its place".to_owned(),
            Way::Spare => "spares took their places".to_owned(),
            Way::Spawned if one => "a new process took its place".to_owned(),
            Way::Spawned => "new processes took their places".to_owned(),
            Way::Shrunk => format!("{} of {} ranks go on", self.ranks, self.ranks_before),
        };
        let back = self.back_to.map_or("anew".to_owned(), |back| format!("from revision {}", back.revision));
        let parts = self.parts.named().map(|(name, ns)| format!("{name} {}", seconds(ns))).join(", ");
        let lost = if self.lost.is_empty() { String::new() } else { format!("; lost: {}", self.lost.join("; ")) };
        format!("{failed}; the job went on {back} after {} ({way}; {parts}){lost}", seconds(self.total_ns))
    }

    /// The JSON, without a slash or a space: `of_word` reads it.
    pub(crate) fn word(&self) -> String {
        // Only texts can contain them, and a text may have any character escaped like this.
        serde_json::to_string(self).unwrap_or_default().replace('/', "\\u002f").replace(' ', "\\u0020")
    }

    /// Reads the result of `word`; `None` for anything else.
    pub fn of_word(word: &str) -> Option<Recovery> {
        serde_json::from_str(word).ok().filter(Recovery::is_sound)
    }

    /// The same, with lists and texts cut to a length for display.
    pub(crate) fn shortened(mut self, shortened: impl Fn(&str) -> String) -> Recovery {
        self.failed.truncate(LISTED_MAX);
        self.lost.truncate(LISTED_MAX);
        self.lost.iter_mut().for_each(|what| *what = shortened(what));
        self
    }

    /// Whether the values are possible: the file may come from anyone.
    pub(super) fn is_sound(&self) -> bool {
        let ranks = [self.ranks_before, self.ranks];
        let is_text = |text: &String| text.len() <= TEXT_BYTES_MAX && text.chars().all(is_seen);
        ranks.iter().all(|ranks| (1..=RANKS_MAX).contains(ranks))
            && self.failed.len() <= LISTED_MAX
            && self.failed.is_sorted_by(|a, b| a < b)
            && self.failed.iter().all(|rank| *rank < self.ranks_before)
            && self.back_to.is_none_or(|saved| saved.is_in_bounds())
            && self.lineage < NUMBER_MAX
            && self.lost.len() <= LISTED_MAX
            && self.lost.iter().all(is_text)
    }
}

/// As in "rank 2" or "ranks 2 and 3".
pub fn ranks_listed(ranks: &[u32]) -> String {
    if let [one] = ranks { format!("rank {one}") } else { format!("ranks {}", listed(ranks)) }
}

fn listed(ranks: &[u32]) -> String {
    let mut names: Vec<String> = ranks.iter().take(NAMED_MAX).map(u32::to_string).collect();
    if ranks.len() > NAMED_MAX {
        return format!("{} and {} others", names.join(", "), ranks.len() - NAMED_MAX);
    }
    let last = names.pop().unwrap_or_default();
    format!("{} and {last}", names.join(", "))
}

/// Seconds, in the range of a recovery, with two significant digits.
fn seconds(ns: u64) -> String {
    let seconds = ns as f64 / 1e9;
    if seconds < 0.1 { format!("{seconds:.3} s") } else { format!("{seconds:.2} s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recovery() -> Recovery {
        Recovery {
            failed: vec![2],
            ranks_before: 4,
            ranks: 4,
            parts: Parts { regroup_ns: 50_000_000, open_ns: 30_000_000, copies_ns: 0, state_ns: 20_000_000 },
            total_ns: 120_000_000,
            back_to: Some(Saved { lineage: 1, revision: 7, saved_unix_ns: None }),
            lineage: 2,
            ..Recovery::default()
        }
    }

    #[test]
    fn it_is_one_sentence() {
        assert_eq!(
            recovery().summary(),
            "rank 2 failed; the job went on from revision 7 after 0.12 s (a spare took its place; group 0.050 s, opening \
             0.030 s, state 0.020 s, copies 0.000 s)"
        );
        let shrunk = Recovery {
            failed: vec![0, 3],
            way: Way::Shrunk,
            ranks: 2,
            total_ns: 2_000_000_000,
            back_to: None,
            lost: vec!["revision 7".to_owned()],
            ..recovery()
        };
        let summary = shrunk.summary();
        assert!(
            summary.starts_with("ranks 0 and 3 failed; the job went on anew after 2.00 s (2 of 4 ranks go on; "),
            "{summary}"
        );
        assert!(summary.ends_with("; lost: revision 7"), "{summary}");
        let many = Recovery { failed: (0..20).collect(), ranks_before: 40, ..recovery() };
        assert!(
            many.summary().starts_with("ranks 0, 1, 2, 3, 4, 5, 6, 7 and 12 others failed; "),
            "{}",
            many.summary()
        );
    }

    #[test]
    fn a_word_says_all_of_it() {
        let lost = vec!["revision 7 in /a b: gone".to_owned(), "\"\\/".to_owned()];
        let original = Recovery { lost, noticed_unix_ns: 5, step: Some(3), way: Way::Spawned, ..recovery() };
        let word = original.word();
        assert!(!word.contains(['/', ' ', '\0']), "{word}");
        assert_eq!(Recovery::of_word(&word), Some(original));
        for bad in [&word[1..], "", "{}", &word.replace("[2]", "[4]")] {
            assert_eq!(Recovery::of_word(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_cannot_be_so_is_none() {
        assert!(recovery().is_sound());
        let not_ascending = Recovery { failed: vec![2, 1], ..recovery() };
        let beyond = Recovery { failed: vec![4], ..recovery() };
        let without_ranks = Recovery { ranks: 0, ..recovery() };
        let hidden = Recovery { lost: vec!["\u{1b}[31m".to_owned()], ..recovery() };
        let long = Recovery { lost: vec![String::new(); LISTED_MAX + 1], ..recovery() };
        for bad in [not_ascending, beyond, without_ranks, hidden, long] {
            assert!(!bad.is_sound(), "{bad:?}");
        }
    }
}
