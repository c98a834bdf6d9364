//! Operations on operands, and programs of them for any target.

use trainc_driver::verify::{ProgramCall, ProgramReport, VerifyOptions, verify_program};
use trainc_ir::graph::{Graph, InputRole};
use trainc_ir::ops::Transpose;
use trainc_ir::program::Program;
use trainc_ir::target::Target;
use trainc_ir::{Op, Tensor, ValueId, Verified};
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
pub fn copied(graph: &mut Graph, value: ValueId, name: &str) -> ValueId {
    let permutation = (0..graph.ty(value).shape.rank()).collect();
    graph.add1(Transpose { permutation }, &[value], name).unwrap_or(value)
}

/// A graph and its operands.
#[derive(Clone, Debug)]
pub struct GraphCase {
    /// What it is, for readers.
    pub what: String,
    /// The graph.
    pub graph: Graph,
    /// Its operands.
    pub operands: Vec<Tensor>,
}

impl Case {
    /// The operation alone, or between copies.
    ///
    /// # Panics
    /// If it does not type.
    pub fn placed(&self, place: Place) -> GraphCase {
        let mut graph = Graph::new("case");
        let inside = place == Place::Arena;
        let (mut values, mut operands) = (Vec::new(), Vec::new());
        for (i, tensor) in self.inputs.iter().enumerate() {
            let name = format!("x{i}");
            values.push(if self.constant && i > 0 {
                graph.add_constant(name, tensor.clone())
            } else {
                operands.push(tensor.clone());
                let input = graph.add_input(name, tensor.ty().clone(), InputRole::Data);
                if inside { copied(&mut graph, input, "copy") } else { input }
            });
        }
        let results = graph.add(self.op.clone(), &values, "node");
        let results = results.unwrap_or_else(|e| panic!("{}: {e}", self.what));
        for (i, result) in results.iter().enumerate() {
            let result = if inside { copied(&mut graph, *result, "copy") } else { *result };
            graph.add_output(format!("y{i}"), result);
        }
        GraphCase { what: format!("{}, {place:?}", self.what), graph, operands }
    }
}

/// Runs cases on a target, each an entry of one program, beside the interpreter.
///
/// # Errors
/// Why they could not be run.
pub fn run(
    target: &dyn Target,
    cases: &[GraphCase],
    options: &VerifyOptions,
) -> Result<ProgramReport, String> {
    let program = planned(target, cases, &PlanOptions::default())?;
    run_planned(&program, target, cases, options)
}

/// A program of cases, each an entry.
///
/// # Errors
/// Why there is none.
pub fn planned(
    target: &dyn Target,
    cases: &[GraphCase],
    options: &PlanOptions,
) -> Result<Verified<Program>, String> {
    let names: Vec<String> = (0..cases.len()).map(|n| format!("case_{n}")).collect();
    let entries: Vec<PlanEntry<'_>> = names
        .iter()
        .zip(cases)
        .map(|(name, case)| PlanEntry { name, graph: &case.graph })
        .collect();
    let (program, _) = plan("cases", &entries, target, options).map_err(|e| e.to_string())?;
    Ok(program)
}

/// Runs the program of some cases beside the interpreter.
///
/// # Errors
/// Why it could not be run.
pub fn run_planned(
    program: &Verified<Program>,
    target: &dyn Target,
    cases: &[GraphCase],
    options: &VerifyOptions,
) -> Result<ProgramReport, String> {
    let calls: Vec<ProgramCall> = cases
        .iter()
        .enumerate()
        .map(|(entry, case)| ProgramCall { entry, step: 3, operands: case.operands.clone() })
        .collect();
    let options = VerifyOptions { seed: 0x1234_5678_9abc_def0, ..options.clone() };
    verify_program(program, target, &calls, &options).map_err(|e| trainc_driver::error::message(&e))
}
