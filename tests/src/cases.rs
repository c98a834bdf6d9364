//! Operations on operands, and programs of them for any target.

use trainc_driver::verify::{ProgramCall, ProgramReport, VerifyOptions, verify_program};
use trainc_ir::graph::{Graph, InputRole};
use trainc_ir::ops::Transpose;
use trainc_ir::target::Target;
use trainc_ir::{Op, Tensor, ValueId};
use trainc_opt::plan::{PlanEntry, PlanOptions, plan};

/// An operation and its operands.
#[derive(Clone, Debug)]
pub struct Case {
    /// What it is, for readers.
    pub what: String,
    /// The operation.
    pub op: Op,
    /// Its operands.
    pub inputs: Vec<Tensor>,
    /// Whether all operands but the first are constants, which a target may lay out as it likes.
    pub constant: bool,
}

/// Where operands and results lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// In the caller's memory.
    Caller,
    /// In the program's: they are copied from and to the caller's.
    Arena,
}

/// A value of the same elements, elsewhere; itself where its scale cannot move.
fn copied(graph: &mut Graph, value: ValueId, name: &str) -> ValueId {
    let permutation = (0..graph.ty(value).shape.rank()).collect();
    graph.add1(Transpose { permutation }, &[value], name).unwrap_or(value)
}

fn graph(case: &Case, place: Place) -> Graph {
    let mut graph = Graph::new("case");
    let inside = place == Place::Arena;
    let mut operands = Vec::new();
    for (i, tensor) in case.inputs.iter().enumerate() {
        let name = format!("x{i}");
        operands.push(if is_constant(case, i) {
            graph.add_constant(name, tensor.clone())
        } else {
            let input = graph.add_input(name, tensor.ty().clone(), InputRole::Data);
            if inside { copied(&mut graph, input, "copy") } else { input }
        });
    }
    let results = graph.add(case.op.clone(), &operands, "node");
    for (i, result) in results.unwrap_or_else(|e| panic!("{}: {e}", case.what)).iter().enumerate() {
        let result = if inside { copied(&mut graph, *result, "copy") } else { *result };
        graph.add_output(format!("y{i}"), result);
    }
    graph
}

fn is_constant(case: &Case, operand: usize) -> bool {
    case.constant && operand > 0
}

/// Runs cases on a target, each an entry of one program, beside the interpreter.
///
/// # Errors
/// Why they could not be run.
pub fn run(
    target: &dyn Target,
    cases: &[(&Case, Place)],
    options: &VerifyOptions,
) -> Result<ProgramReport, String> {
    let graphs: Vec<Graph> = cases.iter().map(|(case, place)| graph(case, *place)).collect();
    let names: Vec<String> = (0..cases.len()).map(|n| format!("case_{n}")).collect();
    let entries: Vec<PlanEntry<'_>> =
        names.iter().zip(&graphs).map(|(name, graph)| PlanEntry { name, graph }).collect();
    let planned = plan("cases", &entries, target, &PlanOptions::default());
    let (program, _) = planned.map_err(|e| e.to_string())?;
    let calls: Vec<ProgramCall> = cases
        .iter()
        .enumerate()
        .map(|(entry, (case, _))| {
            let given = case.inputs.iter().enumerate().filter(|(i, _)| !is_constant(case, *i));
            ProgramCall { entry, step: 3, operands: given.map(|(_, t)| t.clone()).collect() }
        })
        .collect();
    let options = VerifyOptions { seed: 0x1234_5678_9abc_def0, ..options.clone() };
    verify_program(&program, target, &calls, &options)
        .map_err(|e| trainc_driver::error::message(&e))
}
