//! What every target that turns loops into code wants to know of a loop kernel: addresses as sums, intervals of
//! values, nests that are one loop, reductions, rounds that do not meet, and which loops run as vectors, or why not.
//!
//! The kernels and their meaning are `trainc_ir::loops`. Nothing here knows a machine: what one can do comes in as
//! a description ([`Vectors`]), and what comes out is data that a target prints.

mod collapse;
mod dependence;
mod independent;
mod intervals;
mod linear;
mod locals;
mod partial;
mod phases;
mod ranged;
mod reasons;
mod reductions;
mod simplify;
mod speculation;
mod uses;
mod vector;

pub use collapse::collapsed;
pub use dependence::{Access, rounds_are_apart};
pub use independent::{Independent, free_rounds, independent};
pub use intervals::{
    Interval, Intervals, Leaves, addend, all, bits_of, element_interval, exact, in_bounds,
    interval_of, is_narrow, magnitude_of, within,
};
pub use linear::{Linear, is_linear};
pub use locals::{Locals, count, without_dead_code};
pub use partial::in_parts;
pub use phases::{Between, Phase, phases};
pub use ranged::{blocked, ranged};
pub use reasons::Reason;
pub use reductions::Reduction;
pub use simplify::simplified;
pub use speculation::may_compute_both;
pub use uses::{Changes, count_uses};
pub use vector::{
    Form, Known, Offers, Pair, Place, Step, Value, VectorLoop, Vectors, scalar_loops, vector_loops,
};
