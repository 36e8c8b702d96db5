//! Settings and installation: `config`, `completions`, `man`.

use clap::Args;
use clap_complete::Shell;
use std::path::PathBuf;

/// Show the settings in force and their origin, or the flags to compile with Mainstay
///
/// These are the settings of a program that sets none itself and starts in this directory with this environment. A
/// variable MAINSTAY_<KEY> overrides the file mainstay.toml (or the file that MAINSTAY_CONFIG names), and the file
/// overrides the default. With --cflags or --libs, `config` prints flags for a C or C++ compiler instead.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay config
  MAINSTAY_KEEP=3 mainstay config --json
  mpicc app.c $(mainstay config --cflags --libs) -o app

Exit codes:
  0  good
  2  wrong usage, or a wrong setting: the message names it and its place
  4  the system refused, or there is no header or library beside this command")]
pub struct Config {
    /// Print one JSON document instead of a table
    #[arg(long, conflicts_with_all = ["cflags", "libs", "prefix"])]
    pub json: bool,
    /// Print compiler flags: the directory of mainstay.h
    #[arg(long)]
    pub cflags: bool,
    /// Print linker flags: the directory and name of the library
    #[arg(long)]
    pub libs: bool,
    /// Print the directory that Mainstay was installed to
    #[arg(long)]
    pub prefix: bool,
}

/// Print the completion script for a shell
///
/// `make install` puts the scripts for bash, zsh and fish where these shells find them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  source <(mainstay completions bash)")]
pub struct Completions {
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// Print the manual page, or write one for each command to DIR
///
/// `make install` puts the pages where `man` finds them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay man | man -l -
  mainstay man ~/.local/share/man/man1")]
pub struct Man {
    /// Directory for the pages; `man` makes it if it is missing, and overwrites older pages
    #[arg(value_name = "DIR")]
    pub directory: Option<PathBuf>,
}
