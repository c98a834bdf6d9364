//! `M_evaluate`: inference on labelled examples, and how many of them it gets right.

use std::collections::BTreeSet;

use trainc_ir::Element;
use trainc_ir::graph::InputRole;
use trainc_ir::names::{identifier, unique};

use crate::interface::{Function, Interface, Parameter, Passing};
use crate::layout::Lines;
use crate::loops::element_type;

/// Inference as `M_evaluate` uses it: one result of shape [batch, classes], and labels in training.
#[derive(Debug)]
pub struct Evaluation<'i> {
    pub(crate) symbol: String,
    /// Inference.
    pub(crate) infer: &'i Function,
    /// Training.
    pub(crate) training: &'i Function,
    /// The result of inference.
    pub(crate) scores: &'i Parameter,
    /// Examples of inference.
    pub(crate) batch: usize,
    /// Examples of a training step.
    pub(crate) training_batch: usize,
    pub(crate) classes: usize,
    labels: String,
    examples: String,
}

impl<'i> Evaluation<'i> {
    /// How an artifact evaluates, if it can: it has the entry `infer` with such a result, an entry that takes labels, and
    /// no other function of that name.
    pub fn of(interface: &'i Interface) -> Option<Evaluation<'i>> {
        let symbol = format!("{}_evaluate", interface.prefix);
        if interface.functions.iter().any(|f| f.symbol == symbol) {
            return None;
        }
        let infer = interface.functions.iter().find(|f| f.entry == "infer")?;
        let mut results = infer.parameters.iter().filter(|p| p.passing == Passing::Write);
        let (Some(scores), None) = (results.next(), results.next()) else { return None };
        let [batch, classes] = scores.ty.shape[..] else { return None };
        let is_label = |p: &Parameter| {
            let one_each = p.ty.element == Element::I32 && p.ty.shape.rank() == 1;
            p.role == InputRole::Labels && p.passing == Passing::Read && one_each && !p.is_struct()
        };
        let trains = |f: &&Function| f.entry != "infer" && f.parameters.iter().any(is_label);
        let training = interface.functions.iter().find(trains)?;
        let training_batch = training.parameters.iter().find(|p| is_label(p))?.ty.shape[0];
        let labelled = infer.parameters.iter().any(|p| p.role == InputRole::Labels);
        if labelled
            || batch == 0
            || training_batch == 0
            || classes == 0
            || scores.ty.element.bits() < 8
        {
            return None;
        }
        let mut names: BTreeSet<String> =
            ["arena", "state", "seed", "step"].map(String::from).into();
        names.extend(infer.parameters.iter().map(|p| p.name.clone()));
        let [labels, examples] = ["labels", "examples"].map(|name| unique(name, &names));
        Some(Evaluation {
            symbol,
            infer,
            training,
            scores,
            batch,
            training_batch,
            classes,
            labels,
            examples,
        })
    }

    /// `uint32_t M_evaluate(...)`, without an end.
    pub(crate) fn prototype(&self) -> String {
        let mut all = vec!["void *arena".to_string(), "void *state".to_string()];
        if self.infer.random {
            all.extend(["uint64_t seed".into(), "uint32_t step".into()]);
        }
        let (reads, writes): (Vec<&Parameter>, Vec<&Parameter>) =
            self.infer.parameters.iter().partition(|p| p.passing != Passing::Write);
        all.extend(reads.iter().map(|p| self.infer.declaration(p)));
        all.push(format!("const int32_t {}[{}]", self.labels, self.batch));
        all.push(format!("uint32_t {}", self.examples));
        all.extend(writes.iter().map(|p| self.infer.declaration(p)));
        format!("uint32_t {}({})", self.symbol, all.join(", "))
    }

    /// What it does, for the header.
    pub(crate) fn comment(&self) -> Vec<String> {
        let (labels, examples) = (&self.labels, &self.examples);
        vec![
            format!(
                "Runs `infer` on a batch and counts the examples that it gets right: those of the first `{examples}` \
                 whose label is the class of the highest score, the first of equal ones, a NaN never."
            ),
            format!("{labels}: classes, 0-based, of the first `{examples}` examples."),
            format!("{examples}: at most {}; what follows them is not counted.", self.batch),
            "Everything else is as above.".into(),
        ]
    }

    /// The definition, and that of a helper whose name is not taken.
    pub fn define(&self, taken: &BTreeSet<String>, out: &mut Lines) {
        let (batch, classes) = (self.batch, self.classes);
        let helper = unique(&format!("{}_count", self.symbol), taken);
        let element = element_type(self.scores.ty.element);
        let float = self.scores.ty.element == Element::F32;
        let nan = if float { " || row[best] != row[best]" } else { "" };
        out.comment(&["Rows of which the label is the place of the highest score.".into()]);
        out.open_function(&format!(
            "static uint32_t {helper}(const {element} *scores, const int32_t *labels, uint32_t examples)"
        ));
        out.line("uint32_t right = 0;");
        out.open(&format!("for (uint32_t i = 0; i < examples && i < {batch}; i++) {{"));
        out.line(&format!("const {element} *const row = scores + (size_t)i * {classes};"));
        out.line("int32_t best = 0;");
        out.open(&format!("for (int32_t c = 1; c < {classes}; c++) {{"));
        out.open(&format!("if (row[c] > row[best]{nan}) {{"));
        out.line("best = c;");
        out.close("}");
        out.close("}");
        out.line("right += best == labels[i];");
        out.close("}");
        out.line("return right;");
        out.close("}");
        out.line("");
        out.open_function(&self.prototype());
        let mut arguments = vec!["arena", "state"];
        if self.infer.random {
            arguments.extend(["seed", "step"]);
        }
        arguments.extend(self.infer.parameters.iter().map(|p| p.name.as_str()));
        out.line(&format!("{}({});", self.infer.symbol, arguments.join(", ")));
        let field = if self.scores.is_struct() { "->elements" } else { "" };
        let (scores, labels, examples) = (&self.scores.name, &self.labels, &self.examples);
        out.line(&format!("return {helper}({scores}{field}, {labels}, {examples});"));
        out.close("}");
    }
}

/// The macros for the sizes of arguments: name, elements, and the model's name and type. An argument of several entries
/// has one macro if its sizes agree; otherwise the name of the entry comes before its own.
pub(crate) fn sizes(interface: &Interface) -> Vec<(String, usize, String)> {
    let mut all: Vec<(String, usize, String)> = Vec::new();
    for function in &interface.functions {
        for parameter in &function.parameters {
            let name = elements_macro(interface, function, parameter);
            if !all.iter().any(|(other, ..)| *other == name) {
                let what = format!("`{}`: {}", parameter.original, parameter.ty);
                all.push((name, parameter.elements(), what));
            }
        }
    }
    all
}

/// The macro for the size of an argument.
pub(crate) fn elements_macro(
    interface: &Interface,
    function: &Function,
    parameter: &Parameter,
) -> String {
    let name = |p: &Parameter| p.name.to_uppercase();
    let macros = interface.macros();
    let all = || interface.functions.iter().flat_map(|f| &f.parameters);
    let agree =
        all().filter(|p| name(p) == name(parameter)).all(|p| p.elements() == parameter.elements());
    if agree {
        format!("{macros}_{}_ELEMENTS", name(parameter))
    } else {
        let entry = identifier(&function.entry).to_uppercase();
        let mut own = format!("{entry}_{}", name(parameter));
        // Another argument may bear the names of both.
        while all().any(|p| name(p) == own) {
            own.push('_');
        }
        format!("{macros}_{own}_ELEMENTS")
    }
}
