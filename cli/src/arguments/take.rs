//! Taking revisions out of a space: `export`, `view`, `copy`.

use super::{EXIT_CODES, Revision, Space, revision};
use clap::{Args, ValueEnum};
use std::{path::PathBuf, time::Duration};

/// Copy the items of a revision to .npy or raw files
///
/// Takes the newest complete revision unless you name another. Each item becomes DIR/shard/0003/NAME.npy, or .raw; a
/// stream becomes .bin. `export` verifies every block, and no file appears before all blocks are verified. If a job is
/// at work, `export` holds the revision meanwhile, if it has the right to.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  mainstay export /scratch/me/space out
  mainstay export /scratch/me/space out --whole
  mainstay export /scratch/me/space out --revision 12 --shard 0 --item temperature
  python3 -c 'import numpy; print(numpy.load(\"out/shard/0000/temperature.npy\").shape)'

{EXIT_CODES}"))]
pub struct Export {
    #[command(flatten)]
    pub space: Space,
    /// Directory for the files; `export` makes it if it is missing
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Number of the revision, or `newest` for the newest complete one
    #[arg(long, value_name = "N", value_parser = revision, default_value = "newest")]
    pub revision: Revision,
    /// Export only the shard of rank R; repeat for several
    #[arg(long = "shard", value_name = "R")]
    pub shards: Vec<u32>,
    /// Export only the item NAME; repeat for several
    #[arg(long = "item", value_name = "NAME")]
    pub items: Vec<String>,
    /// Write each array that the shards share (protect_box; global_shape in Python) as one file, DIR/NAME.npy, instead
    /// of one part for each shard
    #[arg(long, conflicts_with = "shards")]
    pub whole: bool,
    /// npy: with a header that numpy reads. raw: only the bytes. Streams are always raw
    #[arg(long, value_enum, default_value_t = Format::Npy)]
    pub format: Format,
    /// Replace existing files
    #[arg(long)]
    pub force: bool,
    /// Only print the plan; read no block and change nothing
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Npy,
    Raw,
}

/// Write an HDF5 file that shows a revision in place, without a copy
///
/// Takes the newest complete revision unless you name another. FILE is a small HDF5 file with datasets that point into
/// the space: /shard/0003/NAME for each item, and /NAME for each array that the shards share. `view` verifies all data
/// before the file appears. HDF5 does not see later damage. `view` holds the revision until you release it, or for the
/// time in --for.
#[derive(Debug, Clone, Args)]
#[command(after_help = format!("\
Examples:
  mainstay view /scratch/me/space --hdf5 out.h5
  h5dump -d /shard/0003/temperature out.h5
  mainstay view /scratch/me/space --revision 12 --hdf5 out.h5 --copy

{EXIT_CODES}"))]
pub struct View {
    #[command(flatten)]
    pub space: Space,
    /// File to write; `view` makes its folder if it is missing
    #[arg(long, value_name = "FILE")]
    pub hdf5: PathBuf,
    /// Number of the revision, or `newest` for the newest complete one
    #[arg(long, value_name = "N", value_parser = revision, default_value = "newest")]
    pub revision: Revision,
    /// Copy the items into FILE, which then needs neither the space nor a hold
    #[arg(long, conflicts_with_all = ["relative", "no_verify", "no_hold", "time"])]
    pub copy: bool,
    /// Name the space relative to the folder of FILE, so that you can move both together. Tools then need
    /// HDF5_EXTFILE_PREFIX='${ORIGIN}' in their environment
    #[arg(long)]
    pub relative: bool,
    /// Do not verify the data first
    #[arg(long)]
    pub no_verify: bool,
    /// Do not hold the revision. If a job removes it, FILE shows other bytes
    #[arg(long, conflicts_with = "time")]
    pub no_hold: bool,
    /// End the hold after TIME: 90s, 30m, 12h, 7d, 2w
    #[arg(long = "for", value_name = "TIME", value_parser = super::time)]
    pub time: Option<Duration>,
    /// Replace an existing file
    #[arg(long)]
    pub force: bool,
    /// Only print the plan; read no block and change nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Copy revisions to another space, on another file system
///
/// Copies all complete revisions unless you name some. OTHER becomes a normal space: a job can go on from it. `copy`
/// verifies every block as it reads it, and reads each copy back from the medium before its revision counts. It skips
/// revisions that OTHER already has, so an interrupted copy goes on when you start it again. If a job is at work,
/// `copy` holds the revisions meanwhile, if it has the right to. `copy` refuses if OTHER is in use or has revisions of
/// another run.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  mainstay copy /scratch/me/space /archive/me/space
  mainstay copy /scratch/me/space /archive/me/space --revision 12 --revision 40
  mainstay verify /archive/me/space

{EXIT_CODES}"))]
pub struct Copy {
    #[command(flatten)]
    pub space: Space,
    /// Directory for the copies: a new one, or one that this space was copied to before
    #[arg(value_name = "OTHER")]
    pub other: PathBuf,
    /// Copy only this revision: a number, or `newest`; repeat for several
    #[arg(long = "revision", value_name = "N", value_parser = revision)]
    pub revisions: Vec<Revision>,
    /// Only print the plan; read no block and change nothing
    #[arg(long)]
    pub dry_run: bool,
}
