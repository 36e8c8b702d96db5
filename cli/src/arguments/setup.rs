//! What is set and installed: `config`, `completions`, `man`.

use clap::Args;
use clap_complete::Shell;
use std::path::PathBuf;

/// Shows the settings in force and where each comes from, or how to compile with Mainstay
///
/// The settings are those of a program that sets none itself and is started in this directory with
/// this environment: a variable MAINSTAY_<KEY> goes before the file mainstay.toml (or the one that
/// MAINSTAY_CONFIG names), and that before the default. With --cflags or --libs it prints what a C or
/// C++ compiler needs to know instead.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay config
  MAINSTAY_KEEP=3 mainstay config --json
  mpicc app.c $(mainstay config --cflags --libs) -o app

Exit codes:
  0  good
  2  wrong usage, or a setting that is wrong: the message says which and where
  4  the system refused, or there is no header or library beside this command")]
pub struct Config {
    /// One JSON document instead of a table
    #[arg(long, conflicts_with_all = ["cflags", "libs", "prefix"])]
    pub json: bool,
    /// Flags for the compiler: where mainstay.h is
    #[arg(long)]
    pub cflags: bool,
    /// Flags for the linker: where the library is
    #[arg(long)]
    pub libs: bool,
    /// The directory that Mainstay was installed to
    #[arg(long)]
    pub prefix: bool,
}

/// Writes the completions for a shell
///
/// `make install` puts those of bash, zsh and fish where these shells look for them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  source <(mainstay completions bash)")]
pub struct Completions {
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// Writes the manual page, or with DIR one for each command
///
/// `make install` puts them where `man` looks for them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mainstay man | man -l -
  mainstay man ~/.local/share/man/man1")]
pub struct Man {
    /// The directory for the pages, made if it is missing; they are overwritten
    #[arg(value_name = "DIR")]
    pub directory: Option<PathBuf>,
}
