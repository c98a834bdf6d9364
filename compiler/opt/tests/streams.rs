//! Each stochastic operation of a step draws from a stream of its own.

use std::collections::BTreeSet;

use trainc_ir::graph::{Graph, InputRole};
use trainc_ir::ops::{Dropout, MatMul, ProductRole};
use trainc_ir::types::TensorType;
use trainc_ir::{Op, Tensor};
use trainc_opt::algorithm::Algorithm;
use trainc_opt::training::training_graph_under;
use trainc_opt::translate::translate;

/// A network whose own dropout draws from stream 0, as the algorithms' files say of theirs.
#[test]
fn algorithms_leave_the_streams_of_dropouts() {
    let mut g = Graph::new("dropout");
    let mut y = g.add_input("x", TensorType::f32([2, 4]), InputRole::Data);
    for name in ["first", "second"] {
        let w = g.add_parameter(format!("{name}.weight"), Tensor::f32([4, 4], vec![0.3; 16]), true);
        let role = ProductRole::Forward;
        let product = MatMul { transpose_a: false, transpose_b: true, role };
        y = g.add1(product, &[y, w], name).unwrap();
        let stream = if name == "first" { 0 } else { 3 };
        y = g.add1(Dropout { ratio: 0.5.into(), stream }, &[y], format!("{name}.dropout")).unwrap();
    }
    g.add_output("scores", y);
    for name in ["niti", "niti-finetune"] {
        let algorithm = Algorithm::built_in(name).unwrap();
        let training = training_graph_under(&g, None, &algorithm).unwrap();
        let (module, _) = translate(&training, &algorithm).unwrap();
        let mut own = BTreeSet::new();
        for node in module.nodes() {
            let Some(stream) = node.op.stream() else { continue };
            match &node.op {
                Op::Dropout(_) => assert!([0, 3].contains(&stream), "{name}: {}", node.op),
                op => assert!(![0, 3].contains(&stream) && own.insert(stream), "{name}: {op}"),
            }
        }
        assert!(!own.is_empty(), "{name} rounds stochastically");
    }
}
