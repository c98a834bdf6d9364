//! A session: a model under a configuration, taken through every stage.
//!
//! The stages are types, each made of the one before, which it holds: the model as imported with its FP32 graphs
//! ([`import`]), their translation ([`Staged::translate`]), the optimised modules ([`Staged::optimise`]) and the program
//! ([`Staged::plan`], which gives the [`Session`]). [`Staged`] has one entry a function; [`Compilation`] is what all stages
//! know.

mod compilation;
mod float;
mod optimised;
mod planned;
mod translated;
mod weights;
mod words;

use std::ops::Deref;

pub use compilation::{Compilation, StageTime};
pub use float::{FloatEntry, import};
pub use optimised::OptimisedEntry;
pub use planned::Session;
#[cfg(feature = "host")]
pub(crate) use planned::own_scratch;
pub use translated::TranslatedEntry;
#[cfg(feature = "host")]
pub(crate) use weights::initial_state;

/// Name of the entry that trains.
pub const TRAIN_STEP: &str = "train_step";
/// Name of the entry that infers.
pub const INFER: &str = "infer";

/// Name of the entry that ends an epoch, if the algorithm has one.
pub const EPOCH_END: &str = "epoch_end";

/// Which functions to compile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entries {
    /// [`TRAIN_STEP`] and [`INFER`], and [`EPOCH_END`] where there is something to do then; [`INFER`] alone, of the model as exported, under an algorithm that only infers.
    TrainAndInfer,
    /// [`INFER`] alone, of the model as it was exported but for dropout, which never drops.
    InferAsExported,
}

/// Every function of a model at one stage.
pub struct Staged<Entry> {
    pub(crate) compilation: Compilation,
    /// The functions.
    pub entries: Vec<Entry>,
}

impl<Entry> Deref for Staged<Entry> {
    type Target = Compilation;

    fn deref(&self) -> &Compilation {
        &self.compilation
    }
}
