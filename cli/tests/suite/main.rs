//! All tests of the command, as one program: it is compiled and linked once.

#[path = "../../../engine/tests/support/between.rs"]
mod between;
#[path = "../../../engine/tests/support/bytes.rs"]
#[allow(dead_code, reason = "the engine's tests use the rest")]
mod bytes;
#[path = "../../../engine/tests/support/stuck.rs"]
#[allow(dead_code, reason = "the engine's tests use the rest")]
mod stuck;
#[path = "../support/mod.rs"]
mod support;

mod advise;
mod changed;
mod copies;
mod copy;
mod diff;
mod dry;
mod export;
mod hold;
mod levels;
mod look;
mod model;
mod oracle;
mod printed;
mod profile;
mod prune;
mod replaced;
mod report;
mod reserve;
mod rollback;
mod salvage;
mod settings;
mod status;
mod times;
mod trace;
mod view;
