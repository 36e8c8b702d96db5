//! What a rank does on the road, and for whom.

pub(super) struct Roles {
    pub(super) writes: bool,
    pub(super) holders: Vec<usize>,
    pub(super) wards: Vec<usize>,
}

impl Roles {
    /// Each rank writes for itself.
    pub(super) const ALONE: Roles = Roles { writes: true, holders: Vec::new(), wards: Vec::new() };
}
