//! Taking revisions out of a space: `export`, `view`, `copy`.

use super::{EXIT_CODES, Revision, Space, revision};
use clap::{Args, ValueEnum};
use std::{path::PathBuf, time::Duration};

/// Copies the items of a revision into files that other tools read
///
/// Of the newest complete revision, unless another is asked for: each item becomes DIR/shard/0003/NAME.npy,
/// or .raw, and a stream .bin. Every block is verified, and no file appears before all are. Beside a job at
/// work the revision is held meanwhile, where that is allowed.
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
    /// Where the files go; made if it is missing
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// The revision of this number; newest: the newest complete one
    #[arg(long, value_name = "N", value_parser = revision, default_value = "newest")]
    pub revision: Revision,
    /// Only the shard of this rank; may be given several times
    #[arg(long = "shard", value_name = "R")]
    pub shards: Vec<u32>,
    /// Only the item of this name; may be given several times
    #[arg(long = "item", value_name = "NAME")]
    pub items: Vec<String>,
    /// Each array that the shards share (protect_box; in Python global_shape) becomes one file, DIR/NAME.npy, instead of a
    /// part for each shard
    #[arg(long, conflicts_with = "shards")]
    pub whole: bool,
    /// npy: with a header that numpy reads; raw: the bytes alone, as of streams in any case
    #[arg(long, value_enum, default_value_t = Format::Npy)]
    pub format: Format,
    /// Replaces files that are there already
    #[arg(long)]
    pub force: bool,
    /// Only says what would be done; reads no block and changes nothing
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Npy,
    Raw,
}

/// Shows a revision to tools that read HDF5, in place
///
/// Of the newest complete revision, unless another is asked for. FILE is a small HDF5 file whose datasets point
/// into the space: one for each item, /shard/0003/NAME, and one for each array that the shards share, /NAME.
/// All is verified before the file appears; what is damaged later is not seen through it. The revision is held
/// until it is released, or for so long as --for says.
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
    /// The file to write; its folder is made if it is missing
    #[arg(long, value_name = "FILE")]
    pub hdf5: PathBuf,
    /// The revision of this number; newest: the newest complete one
    #[arg(long, value_name = "N", value_parser = revision, default_value = "newest")]
    pub revision: Revision,
    /// Copies the items: the file needs neither the space nor a hold
    #[arg(long, conflicts_with_all = ["relative", "no_verify", "no_hold", "time"])]
    pub copy: bool,
    /// Names the space as seen from the file's folder, so that both can be moved together; tools then need
    /// HDF5_EXTFILE_PREFIX='${ORIGIN}' in their environment
    #[arg(long)]
    pub relative: bool,
    /// Does not read what the file points to
    #[arg(long)]
    pub no_verify: bool,
    /// Does not hold the revision: a job that lets go of it overwrites what the file shows
    #[arg(long, conflicts_with = "time")]
    pub no_hold: bool,
    /// The hold ends by itself after so long a time: 90s, 30m, 12h, 7d, 2w
    #[arg(long = "for", value_name = "TIME", value_parser = super::time)]
    pub time: Option<Duration>,
    /// Replaces a file that is there already
    #[arg(long)]
    pub force: bool,
    /// Only says what would be done; reads no block and changes nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Takes revisions to another space, on another file system
///
/// All complete ones, unless some are asked for. OTHER is then a space like any other, from which a job can go on. Every block
/// is verified as it is read, and read back from the medium before its revision counts. What is there already is not copied
/// again: a copy that was cut off goes on when it is started again. Beside a job at work the revisions are held meanwhile,
/// where that is allowed. Refused where OTHER is in use, or holds revisions of another run.
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
    /// The directory for the copies: made if it is missing, or one to which this space was copied before
    #[arg(value_name = "OTHER")]
    pub other: PathBuf,
    /// Only the revision of this number, or `newest`; may be given several times
    #[arg(long = "revision", value_name = "N", value_parser = revision)]
    pub revisions: Vec<Revision>,
    /// Only says what would be done; reads no block and changes nothing
    #[arg(long)]
    pub dry_run: bool,
}
