//! The second stage: modules in the algorithm's representation.

use std::ops::Deref;

use trainc_ir::OpKind;
use trainc_ir::graph::Graph;
use trainc_ir::verify::Stage;
use trainc_opt::constants::fold_constants;
use trainc_opt::frozen_prefix::FrozenPrefix;
use trainc_opt::one_by_one::one_by_one;
use trainc_opt::quantized::{OutputStage, quantize};
use trainc_opt::translate::{Translation, float_operations, translate};
use trainc_opt::update::only_updates;

use super::compilation::timed;
use super::{Compilation, FloatEntry, Staged, words};
use crate::error::Result;
use crate::model;

/// A function in the algorithm's representation.
#[derive(Debug)]
pub struct TranslatedEntry {
    pub(super) before: FloatEntry,
    /// The module.
    pub module: Graph,
    /// What it may contain.
    pub stage: Stage,
    /// What was translated, and what stays in FP32.
    pub translation: Translation,
    /// How close the 8-bit output stages of quantized inference come.
    pub output_stages: Vec<OutputStage>,
    /// The modules of a frozen prefix and of the rest, which `module` joins.
    pub(super) parts: Option<Parts>,
}

/// A training step in two parts.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) prefix: Graph,
    pub(super) rest: Graph,
}

impl Deref for TranslatedEntry {
    type Target = FloatEntry;

    fn deref(&self) -> &FloatEntry {
        &self.before
    }
}

/// What translation makes of one function.
struct Translated {
    module: Graph,
    translation: Translation,
    output_stages: Vec<OutputStage>,
    parts: Option<Parts>,
}

impl Staged<FloatEntry> {
    /// Translates every function.
    ///
    /// # Errors
    /// What the algorithm cannot translate.
    pub fn translate(self) -> Result<Staged<TranslatedEntry>> {
        let Staged { mut compilation, entries } = self;
        let (mut times, mut warnings) = (Vec::new(), Vec::new());
        let translated = timed(&mut times, "translate", || {
            let each = |entry| translated(&compilation, entry, &mut warnings);
            entries.iter().map(each).collect::<Result<Vec<Translated>>>()
        })?;
        compilation.times.extend(times);
        compilation.warnings.extend(warnings);
        if compilation.algorithm.inference.is_none() {
            let floats =
                |t: &Translated| words::floats(&t.translation.floated, &compilation.algorithm);
            let first = translated.first().and_then(floats);
            compilation.notes.extend(first);
        }
        let stage = stage(&compilation, &entries, &translated);
        let entry = |(before, own): (FloatEntry, Translated)| TranslatedEntry {
            before,
            module: own.module,
            stage: stage.clone(),
            translation: own.translation,
            output_stages: own.output_stages,
            parts: own.parts,
        };
        let entries = entries.into_iter().zip(translated).map(entry).collect();
        Ok(Staged { compilation, entries })
    }
}

fn translated(
    compilation: &Compilation,
    entry: &FloatEntry,
    warnings: &mut Vec<String>,
) -> Result<Translated> {
    let algorithm = entry.algorithm.as_ref().unwrap_or(&compilation.algorithm);
    if let Some(inference) = algorithm.inference {
        let asked = compilation.precision.as_ref().and_then(|precision| precision.eight_bit);
        let stored = model::stored_scales(&compilation.imported);
        let found = quantize(&entry.float, asked.unwrap_or(inference.eight_bit), &stored)?;
        warnings.extend(found.warnings);
        let (module, translation, output_stages) = (found.module, found.report, found.stages);
        return Ok(Translated { module, translation, output_stages, parts: None });
    }
    let rest = entry.prefix.as_ref().map(|prefix| &prefix.rest);
    let float = rest.or(entry.context.as_ref()).unwrap_or(&entry.float);
    let (mut module, mut translation) = translate(float, algorithm)?;
    if entry.context.is_some() {
        module = only_updates(&module)?;
        let own = |(name, _): &(String, OpKind)| {
            entry.float.nodes().iter().any(|node| node.name == *name)
        };
        translation.floated.retain(own);
    }
    let mut module = compilation.with_stored(module);
    if compilation.only_infers {
        module = fold_constants(&module)?;
    }
    let mut parts = None;
    if let Some(frozen) = &entry.prefix {
        let (prefix, own) = translate(&frozen.prefix, algorithm)?;
        translation.floated.splice(0..0, own.floated);
        let rest = module;
        module = joined(compilation, frozen, &prefix, &rest)?;
        parts = Some(Parts { prefix, rest });
    }
    Ok(Translated { module, translation, output_stages: Vec::new(), parts })
}

/// A training step of its two parts, the first for each example of the batch.
pub(super) fn joined(
    compilation: &Compilation,
    frozen: &FrozenPrefix,
    prefix: &Graph,
    rest: &Graph,
) -> Result<Graph> {
    Ok(frozen.join(&one_by_one(prefix, compilation.config.batch_size())?, rest)?)
}

/// What the modules may contain.
fn stage(compilation: &Compilation, entries: &[FloatEntry], translated: &[Translated]) -> Stage {
    let floated = translated.iter().flat_map(|t| t.translation.floated.iter().map(|f| f.1));
    // Inputs of several examples are taken apart, their results put together.
    let apart = [OpKind::Slice, OpKind::Concat];
    let in_two = entries.iter().any(|entry| entry.prefix.is_some());
    let several = in_two || compilation.graph_batch() != compilation.inference_batch;
    let floated = floated.chain(apart.into_iter().filter(|_| several));
    let own = float_operations(&compilation.algorithm, floated);
    let stages = entries.iter().filter_map(|entry| entry.algorithm.as_ref());
    let float_operations = stages.fold(own, |allowed, staged| {
        Some(&allowed? | &float_operations(staged, std::iter::empty())?)
    });
    Stage::Quantized { float_operations }
}
