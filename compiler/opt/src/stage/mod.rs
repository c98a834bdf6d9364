//! Output stages: what stands between integer sums and the integers that a quantizer makes of them, and what is found about
//! it, in a graph or in an e-graph.

pub(crate) mod bounds;
pub(crate) mod chain;
pub(crate) mod source;
pub(crate) mod stairs;
