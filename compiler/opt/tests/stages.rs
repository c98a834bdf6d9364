//! No rewrite leaves an algorithm's set: whatever a target's costs are, an optimised module holds only what its stage
//! allows.

use std::collections::BTreeSet;

use trainc_ir::graph::{Graph, InputRole};
use trainc_ir::ops::{AvgPool2d, Conv2d, Reshape};
use trainc_ir::target::{
    ArtifactFile, Cost, EmitError, Selection, Signature, Target, TargetDescription,
};
use trainc_ir::types::TensorType;
use trainc_ir::verify::{Stage, verify};
use trainc_ir::{Op, OpKind, RunContext, Tensor};
use trainc_opt::algorithm::Algorithm;
use trainc_opt::egraph::saturate::Limits;
use trainc_opt::optimise::{OptimiseOptions, Strategy, optimise};
use trainc_opt::rules::instance::Random;
use trainc_opt::rules::rules;
use trainc_opt::training::training_graph;
use trainc_opt::translate::translate;

/// A target of any costs: those of a form follow from the seed and the form alone.
struct Any(u64);

impl Target for Any {
    fn description(&self) -> &TargetDescription {
        &TargetDescription {
            name: "any",
            summary: "a test",
            alignment: 16,
            vector_bytes: 16,
            cost_unit: "cycles",
            devices: &["cpu"],
        }
    }

    fn select(&self, signature: &Signature<'_>) -> Selection {
        let Signature { op, inputs, .. } = *signature;
        let text = format!("{op} {inputs:?}");
        let hash = text.bytes().fold(self.0, |hash, b| Random::new(hash ^ u64::from(b)).bits());
        Selection::known("any", Cost::new(1 + hash % 1000), 0)
    }

    fn emit(
        &self,
        _: &trainc_ir::Verified<trainc_ir::program::Program>,
    ) -> Result<Vec<ArtifactFile>, EmitError> {
        Ok(Vec::new())
    }
}

fn options(strategy: Strategy, iterations: usize) -> OptimiseOptions {
    let limits = Limits { iterations, nodes: 20_000 };
    OptimiseOptions { strategy, exact: false, limits }
}

/// The stage that allows floats to the operations of a graph that have them, and to no other.
fn narrowest(graph: &Graph) -> Stage {
    let float = graph
        .nodes()
        .iter()
        .filter(|node| node.inputs.iter().chain(&node.outputs).any(|&v| graph.ty(v).is_f32()));
    let kinds: BTreeSet<OpKind> = float
        .flat_map(|node| match &node.op {
            Op::Chain(chain) => chain.ops.iter().map(Op::kind).collect(),
            op => vec![op.kind()],
        })
        .collect();
    Stage::Quantized { float_operations: Some(kinds) }
}

#[test]
fn no_rule_leaves_the_stage() {
    for rule in rules() {
        for seed in 0..24 {
            let form = seed as usize % rule.forms();
            let graph = rule.instance(form, &mut Random::new(seed)).unwrap();
            let stage = narrowest(&graph);
            verify(&graph, &stage).unwrap();
            for costs in 0..4 {
                let optimised =
                    optimise(&graph, &stage, &Any(costs), &options(Strategy::Saturate, 4));
                optimised.unwrap_or_else(|e| panic!("rule `{}`: {e}", rule.name));
            }
        }
    }
}

/// Scores that a Flatten after pooling gives, as in SqueezeNet: their dequantize could move before the reshape, where
/// NITI has no FP32.
#[test]
fn flattened_scores_stay_integers() {
    let run = RunContext { seed: 1, step: 0 };
    let mut g = Graph::new("squeezed");
    let x = g.add_input("x", TensorType::f32([2, 3, 4, 4]), InputRole::Data);
    let data = (0..15).map(|i| (run.draw(7, i) >> 8) as f32 / (1 << 24) as f32 - 0.5).collect();
    let w = g.add_parameter("weight", Tensor::f32([5, 3, 1, 1], data), true);
    let conv = Conv2d { strides: [1, 1], pads: [0; 4], dilations: [1, 1], groups: 1 };
    let y = g.add1(conv, &[x, w], "conv").unwrap();
    let pool = AvgPool2d {
        kernel: [4, 4],
        strides: [1, 1],
        pads: [0; 4],
        ceil: false,
        count_include_pad: false,
    };
    let y = g.add1(pool, &[y], "pool").unwrap();
    let y = g.add1(Reshape { shape: [2, 5].into() }, &[y], "flatten").unwrap();
    g.add_output("scores", y);
    let training = training_graph(&g, None).unwrap();
    let niti = Algorithm::built_in("niti").unwrap();
    let stage = Stage::Quantized { float_operations: niti.float_operations.clone() };
    let (module, _) = translate(&training, &niti).unwrap();
    for strategy in [Strategy::Saturate, Strategy::Ordered] {
        for costs in 0..16 {
            let (optimised, _) =
                optimise(&module, &stage, &Any(costs), &options(strategy, 30)).unwrap();
            verify(&optimised, &stage).unwrap();
        }
    }
}
