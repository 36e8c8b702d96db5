//! Objects that move: the part of a program's state that is cut into many more pieces than there are ranks. Each piece
//! runs on some rank, gets messages on any rank, is saved by itself, and is restored by any rank that has it at hand
//! (paper 002, FTC-Charm++).
//!
//! A layer on the engine's public interface and on a few functions for messages ([`Wire`]). It has no thread, and
//! communicates only inside its collective calls. A program sends messages, and ends a step ([`Objects::step`]). The
//! step delivers them, and those that their handlers send, until none is left.
//!
//! Invariants: all ranks agree on the rank of each object. An object is on one rank. Every shared decision comes from
//! the same computation on the data of all ranks.

pub mod balance;
mod checkpoint;
mod deliver;
mod exact;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod graph;
pub mod holders;
mod index;
mod kind;
mod load;
mod migrate;
mod mutant;
mod objects;
mod post;
mod restore;
mod tree;
mod wire;

pub use balance::Strategy;
pub use exact::Exact;
pub use index::{Key, id_of, place_of};
pub use kind::{Maker, Object};
pub use migrate::Balanced;
#[cfg(feature = "simulation")]
pub use mutant::MUTANTS;
pub use objects::{Measured, Objects, Options};
pub use post::{Op, Post};
pub use restore::Came;
pub use wire::{Arriving, Wire, work_for_a_while, worth_waiting_for};
