//! Kernels that read whole vectors, where the caller's memory is less aligned than the program's.

use trainc_ir::graph::InputRole;
use trainc_ir::implementation::{Implementation, Memory};
use trainc_ir::ops::Neg;
use trainc_ir::program::Program;
use trainc_ir::target::{
    ArtifactFile, Cost, EmitError, Selection, Signature, Target, TargetDescription,
};
use trainc_ir::{Element, Graph, TensorType, Verified};
use trainc_opt::plan::{PlanEntry, PlanOptions, plan};

use crate::support::{Generic, node};

/// A kernel of whole vectors.
#[derive(Debug)]
struct Whole;

impl Implementation for Whole {
    fn name(&self) -> &'static str {
        "vectors"
    }

    fn cost(&self) -> Cost {
        Cost::new(1)
    }

    fn scratch_bytes(&self) -> usize {
        64
    }

    fn aligned_elements(&self) -> &'static [Element] {
        &[Element::F32]
    }
}

/// A target that has them, where memory is aligned.
struct Aligned(Generic);

impl Target for Aligned {
    fn description(&self) -> &TargetDescription {
        self.0.description()
    }

    fn select(&self, signature: &Signature<'_>) -> Selection {
        match signature.memory {
            Memory::Program => Selection::new(Whole),
            Memory::Caller => Selection::loops(signature, Cost::new(100)),
        }
    }

    fn emit(&self, _: &Verified<Program>) -> Result<Vec<ArtifactFile>, EmitError> {
        Ok(Vec::new())
    }
}

#[test]
fn only_launches_in_the_callers_memory_go_without_vectors() {
    let mut graph = Graph::new("g");
    let mut value = graph.add_input("x", TensorType::f32([4]), InputRole::Data);
    for _ in 0..4 {
        value = node(&mut graph, Neg {}, &[value]);
    }
    graph.add_output("y", value);
    let entries = [PlanEntry { name: "infer", graph: &graph }];
    let target = Aligned(Generic::new());
    let (program, _) = plan("memory", &entries, &target, &PlanOptions::default())
        .unwrap_or_else(|e| panic!("{e}"));
    let launches = trainc_ir::harness::launches(&program.entries[0]);
    let ways: Vec<&str> =
        launches.iter().map(|launch| program.kernel(launch.kernel).selection.name()).collect();
    // The first reads the caller's memory, the last writes it; both are one kernel, and those between are another.
    assert_eq!(ways, ["loops", "vectors", "vectors", "loops"]);
    assert_eq!(program.kernels.len(), 2);
    let scratch: Vec<bool> = launches.iter().map(|launch| launch.scratch.is_some()).collect();
    assert_eq!(scratch, [false, true, true, false]);
}
