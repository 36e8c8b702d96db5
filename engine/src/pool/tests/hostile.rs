//! What a hostile or half-dead process leaves in shared memory.
