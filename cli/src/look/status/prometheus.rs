//! The state for Prometheus, as node_exporter's textfile collector reads it.
//!
//! Invariant: a reader of the file always finds a whole one.

use crate::exit::{Exit, Failure};
use mainstay_engine::{
    printable_path,
    status::{LevelStanding, Loss, Saved, Standing},
};
use std::{
    fmt::Write as _,
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    process,
};

/// One measure: its name, its meaning, and the function for its samples.
struct Measure {
    name: &'static str,
    help: &'static str,
    kind: &'static str,
    /// Labels besides the space, and the value.
    samples: Vec<(String, String)>,
}

const GAUGE: &str = "gauge";

/// Replaces `file` with the current measures.
pub fn write(file: &Path, standing: &Standing, now_unix_ns: u64) -> Result<(), Failure> {
    let failed =
        |e: io::Error| Failure { exit: Exit::System, message: format!("writing {} failed: {e}", printable_path(file)) };
    let Some(name) = file.file_name() else { return Err(failed(io::ErrorKind::InvalidInput.into())) };
    // node_exporter takes files that end with .prom.
    let mut unfinished = name.to_owned();
    unfinished.push(format!(".{}.unfinished", process::id()));
    let unfinished = file.with_file_name(unfinished);
    let write = || {
        let mut made = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&unfinished)?;
        made.write_all(text(standing, now_unix_ns).as_bytes())?;
        fs::rename(&unfinished, file)
    };
    write().inspect_err(|_| drop(fs::remove_file(&unfinished))).map_err(failed)
}

fn text(standing: &Standing, now_unix_ns: u64) -> String {
    let space = label("space", &standing.survey.path);
    let mut text = String::new();
    for Measure { name, help, kind, samples } in measures(standing, now_unix_ns) {
        if samples.is_empty() {
            continue;
        }
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in samples {
            let comma = if labels.is_empty() { "" } else { "," };
            let _ = writeln!(text, "{name}{{{space}{comma}{labels}}} {value}");
        }
    }
    text
}

fn measures(standing: &Standing, now_unix_ns: u64) -> Vec<Measure> {
    let one = |value: String| vec![(String::new(), value)];
    let flag = |is_so: bool| u8::from(is_so).to_string();
    let of_levels = |value: &dyn Fn(&LevelStanding) -> Option<String>| {
        let sample = |level: &LevelStanding| Some((label("level", level.level.name()), value(level)?));
        standing.levels.iter().filter_map(sample).collect::<Vec<_>>()
    };
    let newest = |value: fn(&Saved) -> Option<String>| of_levels(&|level| value(level.complete.first()?));
    let losses = standing.losses.iter().map(|(loss, left)| {
        let labels = match (loss, standing.node(*loss)) {
            (Loss::Node(_), Some(node)) => label("loss", "node") + "," + &label("node", &node.name),
            (Loss::AllNodes, _) => label("loss", "all_nodes"),
            _ => label("loss", "processes"),
        };
        (labels, flag(left.is_some()))
    });
    let mut measures = vec![
        Measure {
            name: "mainstay_alarm",
            help: "1 if saving keeps failing, or nothing is saved.",
            kind: GAUGE,
            samples: one(flag(!standing.alarms.is_empty())),
        },
        Measure {
            name: "mainstay_looked_timestamp_seconds",
            help: "Time of this look.",
            kind: GAUGE,
            samples: one(seconds(now_unix_ns)),
        },
        Measure {
            name: "mainstay_newest_revision",
            help: "The newest complete revision of the level.",
            kind: GAUGE,
            samples: newest(|saved| Some(saved.revision.to_string())),
        },
        Measure {
            name: "mainstay_newest_revision_timestamp_seconds",
            help: "Time when the newest complete revision of the level was saved.",
            kind: GAUGE,
            samples: newest(|saved| saved.saved_unix_ns.map(seconds)),
        },
        Measure {
            name: "mainstay_complete_revisions",
            help: "Number of complete revisions on the level.",
            kind: GAUGE,
            samples: of_levels(&|level| Some(level.complete.len().to_string())),
        },
        Measure {
            name: "mainstay_failures_in_a_row",
            help: "Revisions that the level failed to get since its last success.",
            kind: GAUGE,
            samples: of_levels(&|level| Some(level.failures.in_a_row.to_string())),
        },
        Measure {
            name: "mainstay_passed_over",
            help: "How often the level was busy at its turn, since the job began.",
            kind: GAUGE,
            samples: of_levels(&|level| Some(level.passed_over.to_string())),
        },
        Measure {
            name: "mainstay_survives",
            help: "1 if a revision would survive this loss.",
            kind: GAUGE,
            samples: losses.collect(),
        },
    ];
    if let Some(at_work) = standing.survey.in_use {
        let help = "1 if a job has the space open.";
        measures.push(Measure { name: "mainstay_job_at_work", help, kind: GAUGE, samples: one(flag(at_work)) });
    }
    if let Some(status) = &standing.status {
        let help = "Time of the job's last report.";
        let samples = one(seconds(status.progress.told_unix_ns));
        measures.push(Measure { name: "mainstay_told_timestamp_seconds", help, kind: GAUGE, samples });
        let help = "How often the job went on after a failure without a new start.";
        let samples = one(status.progress.recovered.to_string());
        measures.push(Measure { name: "mainstay_recoveries_total", help, kind: "counter", samples });
        let help = "How often a due checkpoint was put off, because the one before was still under way.";
        let samples = one(status.progress.put_off.to_string());
        measures.push(Measure { name: "mainstay_put_off_total", help, kind: "counter", samples });
    }
    measures
}

fn seconds(unix_ns: u64) -> String {
    format!("{}.{:03}", unix_ns / 1_000_000_000, unix_ns / 1_000_000 % 1000)
}

fn label(name: &str, value: &str) -> String {
    let mut escaped = String::new();
    for c in value.chars() {
        match c {
            '\\' => escaped += "\\\\",
            '"' => escaped += "\\\"",
            '\n' => escaped += "\\n",
            c => escaped.push(c),
        }
    }
    format!("{name}=\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_hold_any_text() {
        assert_eq!(label("space", "/a \"b\\c\nö"), "space=\"/a \\\"b\\\\c\\nö\"");
        assert_eq!(seconds(1_795_400_806_201_520_008), "1795400806.201");
    }
}
