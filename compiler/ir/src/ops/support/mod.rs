//! What several operations share: index walks, elementwise and reducing operations, products, windows, gradient
//! building blocks.

pub(crate) mod affine;
pub(crate) mod binary;
pub(crate) mod channels;
pub(crate) mod chunks;
pub(crate) mod clip_bounds;
pub(crate) mod convolution;
pub(crate) mod derivation;
pub(crate) mod elementwise;
pub(crate) mod fusion;
pub(crate) mod gradient;
pub(crate) mod grid;
pub(crate) mod indexed;
pub(crate) mod likelihood;
pub(crate) mod movement;
pub(crate) mod narrow;
pub(crate) mod partial_sums;
pub(crate) mod pool;
pub(crate) mod product;
pub(crate) mod reduction;
pub(crate) mod rows;
pub(crate) mod sample;
pub(crate) mod step;
pub(crate) mod terms;
pub(crate) mod walk;
pub(crate) mod window;
