//! The rows of the table.

use mainstay_engine::{Error, ErrorKind};
use serde::Deserialize;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    pub name: String,
    pub fault: String,
    pub call: String,
    pub status: String,
    pub says: Vec<String>,
    pub rank: Option<usize>,
    pub rust: usize,
    pub c: usize,
    pub python: Option<usize>,
    /// The number of ranks of rows that the crate of objects stages.
    pub objects: Option<usize>,
}

#[derive(Deserialize)]
struct Table {
    row: Vec<Row>,
}

pub fn rows() -> Vec<Row> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/faults.toml");
    let text = std::fs::read_to_string(path).unwrap();
    toml::from_str::<Table>(&text).unwrap().row
}

/// The name of a status in C.
pub fn status(kind: ErrorKind) -> String {
    let mut name = String::new();
    for c in format!("{kind:?}").chars() {
        if c.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.extend(c.to_uppercase());
    }
    name
}

impl Row {
    /// Checks the error of rank `rank` at `call` against the row.
    #[track_caller]
    pub fn check(&self, space: &str, rank: usize, call: &str, error: &Error) {
        let message = error.to_string();
        let place = format!("{}: rank {rank} of {}: {message}", self.name, self.rust);
        assert!(self.call == call, "{place}: told at {call} instead of {}", self.call);
        assert!(self.status == status(error.kind()), "{place}: {:?} instead of {}", error.kind(), self.status);
        self.check_text(space, &message);
        if let Some(failing) = self.rank.filter(|failing| *failing != rank) {
            assert!(message.starts_with(&format!("on rank {failing}: ")), "{place}: does not name rank {failing}");
        }
    }

    #[track_caller]
    pub fn check_text(&self, space: &str, text: &str) {
        for says in &self.says {
            let says = says.replace("{space}", space);
            assert!(text.contains(&says), "{} ({}): {says:?} is not in {text:?}", self.name, self.fault);
        }
    }
}

#[test]
fn rows_are_well_formed() {
    let calls = [
        "open",
        "protect",
        "unprotect",
        "settled",
        "move",
        "follow",
        "checkpoint",
        "wait",
        "poll",
        "restore",
        "close",
        "every",
        "step",
        "balance",
        "evacuate",
        "put",
        "set",
    ];
    let statuses: Vec<String> = ErrorKind::ALL.into_iter().map(status).collect();
    let mut names = std::collections::HashSet::new();
    for row in rows() {
        assert!(names.insert(row.name.clone()), "{} stands twice in the table", row.name);
        assert!(calls.contains(&row.call.as_str()), "{}: no call {}", row.name, row.call);
        assert!(row.status == "OK" || statuses.contains(&row.status), "{}: no status {}", row.name, row.status);
        // The row names the fault, its place, and the remedy.
        assert!(row.status == "OK" || row.says.len() >= 2, "{}: says too little", row.name);
        assert!(
            !row.fault.is_empty() && row.rust + row.c + row.python.unwrap_or(0) + row.objects.unwrap_or(0) > 0,
            "{}: staged nowhere",
            row.name
        );
    }
    // The other kinds need a peer that dies (the kill tests), a bug, or a rank that waits for others to die.
    for kind in ErrorKind::ALL {
        let elsewhere = matches!(kind, ErrorKind::GroupFailed | ErrorKind::Internal | ErrorKind::NotNeeded);
        assert!(elsewhere || rows().iter().any(|row| row.status == status(kind)), "no row has {kind:?}");
    }
}
