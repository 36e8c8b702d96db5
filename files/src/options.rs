//! The options of `mainstay files`, as the preload library passes them on with each file: lines `key=value`.

use std::{fmt::Write, path::PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Generations to keep, including the newest.
    pub keep: u32,
    /// Fail to open a damaged file, in place of an older generation.
    pub damaged_fails: bool,
    /// The `close` of a file that the program has synced waits until the file is durable.
    pub sync_waits: bool,
    /// Most bytes of staged files on a node. `None`: a quarter of the free memory.
    pub room_bytes: Option<u64>,
    /// A supervisor sends the requests of the program: `helper/silent.rs`.
    pub is_silent: bool,
    /// Patterns of sets: words with `{}` for the stem, `*` for the member.
    pub sets: Vec<String>,
    /// Members of a set. 0: unknown.
    pub count: u32,
    /// The name of the job, the same on all its nodes.
    pub job: String,
    /// Nodes of the job. 0: unknown.
    pub nodes: u32,
    /// The file from which `mainstay run` reads reports.
    pub report: Option<PathBuf>,
    /// The name of the `mainstay files` that the program runs under.
    pub member: String,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            keep: 2,
            damaged_fails: false,
            sync_waits: false,
            room_bytes: None,
            is_silent: false,
            sets: Vec::new(),
            count: 0,
            job: String::new(),
            nodes: 1,
            report: None,
            member: String::new(),
        }
    }
}

impl Options {
    /// Whether other nodes have processes of the same job.
    pub fn is_on_nodes(&self) -> bool {
        self.nodes > 1
    }

    pub fn to_text(&self) -> String {
        let Options { keep, count, job, nodes, member, .. } = self;
        let mut text = format!("keep={keep}\ncount={count}\njob={job}\nnodes={nodes}\nmember={member}\n");
        if let Some(bytes) = self.room_bytes {
            let _ = writeln!(text, "room={bytes}");
        }
        if let Some(report) = self.report.as_ref().and_then(|report| report.to_str()) {
            let _ = writeln!(text, "report={report}");
        }
        for (key, is_set) in [("damaged", self.damaged_fails), ("sync", self.sync_waits), ("silent", self.is_silent)] {
            if is_set {
                let _ = writeln!(text, "{key}=1");
            }
        }
        self.sets.iter().for_each(|set| {
            let _ = writeln!(text, "set={set}");
        });
        text
    }

    /// Skips unknown keys and invalid numbers: the text comes from another process.
    pub fn from_text(text: &str) -> Options {
        let mut options = Options::default();
        for (key, value) in text.split('\n').filter_map(|line| line.split_once('=')) {
            match key {
                "keep" => options.keep = value.parse().unwrap_or(options.keep).max(1),
                "count" => options.count = value.parse().unwrap_or(0),
                // The name of a set's folder has it between two `-`.
                "job" => options.job = value.chars().filter(char::is_ascii_alphanumeric).take(32).collect(),
                "member" => options.member = value.to_owned(),
                "nodes" => options.nodes = value.parse().unwrap_or(1),
                "room" => options.room_bytes = value.parse().ok(),
                "report" => options.report = Some(PathBuf::from(value)).filter(|path| path.is_absolute()),
                "damaged" => options.damaged_fails = true,
                "sync" => options.sync_waits = true,
                "silent" => options.is_silent = true,
                "set" => options.sets.push(value.to_owned()),
                _ => {}
            }
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_come_back_from_their_text() {
        let options = Options {
            keep: 5,
            damaged_fails: true,
            sync_waits: true,
            room_bytes: Some(1 << 30),
            is_silent: true,
            sets: vec!["{}.base {}.*".to_owned()],
            count: 64,
            job: "7".to_owned(),
            nodes: 4,
            report: Some(PathBuf::from("/proc/1/fd/3")),
            member: "1f".to_owned(),
        };
        assert_eq!(Options::from_text(&options.to_text()), options);
        assert_eq!(Options::from_text(""), Options::default());
        assert_eq!(Options::from_text("keep=0\nkeep=x\n").keep, 1);
    }
}
