//! What several operations share: index walks, elementwise and reducing operations, gradient building blocks.

pub(crate) mod clip_bounds;
pub(crate) mod elementwise;
pub(crate) mod gradient;
pub(crate) mod reduction;
pub(crate) mod walk;
