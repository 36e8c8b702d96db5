//! What theory says of checkpointing: how often is best. Formulas only; nothing here measures or saves.

mod interval;

pub use interval::{daly, young};
