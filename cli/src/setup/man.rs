//! `mainstay man`: manual pages, made from the definition of the help.

use crate::{
    arguments::{self, Arguments},
    exit::{Exit, Failure},
    output,
};
use clap::{Command, CommandFactory};
use mainstay_engine::printable_path;
use std::{fs, io, path::Path};

pub fn man(wanted: &arguments::Man) -> Result<Exit, Failure> {
    let mut command = Arguments::command().disable_help_subcommand(true);
    // Gives the commands the names of their pages and the options that they inherit.
    command.build();
    match &wanted.directory {
        None => output::bytes(&page(&command)?)?,
        Some(directory) => write(&command, directory).map_err(|e| Failure {
            exit: Exit::System,
            message: format!("writing the manual pages to {} failed: {e}", printable_path(directory)),
        })?,
    }
    Ok(Exit::Good)
}

/// Writes one page for `command` and one for each command below it.
fn write(command: &Command, directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let name = command.get_display_name().unwrap_or(command.get_name());
    fs::write(directory.join(format!("{name}.1")), page(command)?)?;
    command.get_subcommands().filter(|below| !below.is_hide_set()).try_for_each(|below| write(below, directory))
}

fn page(command: &Command) -> io::Result<Vec<u8>> {
    let man = clap_mangen::Man::new(command.clone());
    let name = command.get_display_name().unwrap_or(command.get_name());
    // Without a date, which would change with each build.
    let title = format!(".TH \"{}\" 1 \"\" \"Mainstay {}\" \"Mainstay\"\n", escaped(name), env!("CARGO_PKG_VERSION"));
    let mut page = title.into_bytes();
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    let after = command.get_after_long_help().or(command.get_after_help());
    page.extend(after.map(|text| sections(&text.to_string())).unwrap_or_default().into_bytes());
    Ok(page)
}

/// The text of the help after the options. A line without an indent becomes a heading; the lines below it stay as
/// they are.
fn sections(text: &str) -> String {
    let mut roff = String::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        match line.strip_prefix("  ") {
            Some(line) => roff += &format!("\\&{}\n", escaped(line)),
            None => {
                let heading = line.trim_end_matches(':').to_uppercase();
                let end = if roff.is_empty() { "" } else { ".fi\n" };
                roff += &format!("{end}.SH \"{}\"\n.nf\n", escaped(&heading));
            }
        }
    }
    roff + if text.is_empty() { "" } else { ".fi\n" }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\(rs").replace('-', "\\-").replace('\'', "\\(aq").replace('"', "\\(dq")
}
