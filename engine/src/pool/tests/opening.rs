//! Who gets into a pool, and what is refused.
