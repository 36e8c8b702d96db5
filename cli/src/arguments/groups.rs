//! The groups of commands in the help. Every command is in exactly one, but for hidden ones.

use super::Arguments;
use clap::{Command, CommandFactory};
use std::fmt::Write;

struct Group {
    heading: &'static str,
    commands: &'static [&'static str],
}

const GROUPS: [Group; 5] = [
    Group { heading: "Look", commands: &["ls", "show", "status", "report", "diff", "verify", "config"] },
    Group { heading: "Take out", commands: &["export", "view", "copy"] },
    Group { heading: "Tidy up", commands: &["prune", "rollback", "hold", "release", "salvage"] },
    Group {
        heading: "Run",
        commands: &[
            "run",
            "rehearse",
            "files",
            "checkpoint",
            "evacuate",
            "advise",
            "model",
            "mpicc",
            "mpicxx",
            "mpifort",
            "stand-in",
        ],
    },
    Group { heading: "Rare", commands: &["reserve", "grow", "trace", "oracle", "completions", "man"] },
];

/// The definition of the command line, with a help that lists the commands by group.
pub fn command() -> Command {
    let command = Arguments::command();
    let list = list(&command);
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}Options:\n{{options}}{{after-help}}"
    ))
}

/// A heading for each group, and a line for each of its commands. Clap knows headings for options only.
fn list(command: &Command) -> String {
    let width = command.get_subcommands().map(|command| command.get_name().len()).max().unwrap_or(0);
    let mut list = String::new();
    for Group { heading, commands } in &GROUPS {
        let _ = writeln!(list, "{heading}:");
        for name in commands.iter() {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let _ = writeln!(list, "  {name:width$}  {}", about.map(ToString::to_string).unwrap_or_default());
        }
        list.push('\n');
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, path::Path};

    #[test]
    fn every_command_is_in_exactly_one_group() {
        let command = Arguments::command();
        let mut defined: Vec<&str> =
            command.get_subcommands().filter(|one| !one.is_hide_set()).map(Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|group| group.commands).copied().collect();
        defined.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(defined, grouped, "the commands that are defined, and those in a group");
    }

    #[test]
    fn the_guide_has_a_section_on_each_command_on_the_page_of_its_group() {
        let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide/src");
        let pages = ["look", "take", "tidy", "run", "rare"];
        for (group, page) in GROUPS.iter().zip(pages) {
            let text = fs::read_to_string(guide.join(format!("command-{page}.md"))).unwrap();
            for name in group.commands {
                let is_there = |line: &str| line.starts_with("## ") && line.contains(&format!("`mainstay {name}"));
                assert!(text.lines().any(is_there), "command-{page}.md has no section on `mainstay {name}`");
            }
        }
    }
}
