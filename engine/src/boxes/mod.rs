//! Boxes in arrays of n dimensions: what two share, which of many cover one, and where their cells lie as bytes.
//!
//! Numbers only. What must hold: no product overflows, because no array that was checked has 2^63 bytes.

mod cells;
mod rows;

pub(crate) use cells::{Cells, Uncovered, cover};
pub(crate) use rows::Rows;
