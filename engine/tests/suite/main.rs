//! All tests of the engine that can share a process, as one program: it is compiled and linked once. What sets a limit
//! of its process, or switches the whole of it, is a file of its own beside this folder.

#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod across;
mod aggregators;
mod aggregators_failing;
mod aggregators_refused;
mod annex;
mod auto;
mod buffers;
mod calls;
mod chains;
mod closing;
mod compressed;
mod copies;
mod crash;
mod due;
mod earlier;
mod emptied;
mod faults;
mod follow;
mod forged;
mod format;
mod full_portions;
mod globals;
mod groups;
mod holding;
mod holds;
mod incremental;
mod lacking;
mod layers;
mod level_places;
mod levels;
mod limits;
mod memory_level;
mod metadata;
mod other_ranks;
mod other_ranks_crash;
mod pieces;
mod probes;
mod reader;
mod recover;
mod recoveries_told;
mod remarks;
mod reserve;
mod room;
mod salvage;
mod salvage_crash;
mod seeded;
mod settings;
mod shards;
mod shown;
mod snapshot;
mod speculation;
mod spine;
mod streams;
mod survey;
mod tended;
mod tracing;
mod transfer;
mod unfinished;
mod unseen;
mod within;
mod zeros;
