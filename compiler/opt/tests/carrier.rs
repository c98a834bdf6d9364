//! Algorithms whose values stay FP32 and whose products alone are integer; patterns of any number of operands; guards on layers.

use trainc_ir::graph::{Graph, InputRole, ValueId};
use trainc_ir::ops::properties::Property;
use trainc_ir::ops::{Concat, MatMul, ProductRole, Relu};
use trainc_ir::types::{Element, TensorType};
use trainc_ir::{Op, OpKind, Tensor};
use trainc_opt::algorithm::{Algorithm, BUILT_IN};
use trainc_opt::training::training_graph_under;
use trainc_opt::translate::translate;

const INT8: &str = include_str!("../../../tests/data/carrier/int8_products.toml");

/// Matrix products with activations between them.
fn layers(count: usize) -> Graph {
    let mut g = Graph::new("net");
    let mut y = g.add_input("x", TensorType::f32([2, 4]), InputRole::Data);
    for i in 0..count {
        let w = g.add_parameter(format!("w{i}"), Tensor::f32([4, 4], vec![0.25; 16]), true);
        let role = ProductRole::Forward;
        let op = MatMul { transpose_a: false, transpose_b: true, role };
        y = g.add1(op, &[y, w], format!("product{i}")).unwrap();
        y = g.add1(Relu {}, &[y], format!("relu{i}")).unwrap();
    }
    g.add_output("scores", y);
    g
}

fn module(text: &str, model: &Graph) -> Result<Graph, String> {
    let algorithm = Algorithm::parse("mine.toml", text).map_err(|e| e.to_string())?;
    let training = training_graph_under(model, None, &algorithm).unwrap();
    let (module, report) = translate(&training, &algorithm).map_err(|e| e.to_string())?;
    assert!(report.floated.is_empty(), "{:?}", report.floated);
    Ok(module)
}

/// The elements of the operands of each product.
fn products(module: &Graph) -> Vec<[Element; 2]> {
    let products = module.nodes().iter().filter(|n| n.op.kind().has(Property::Bilinear));
    products.map(|n| [0, 1].map(|i| module.ty(n.inputs[i]).element)).collect()
}

#[test]
fn products_alone_are_integer() {
    let module = module(INT8, &layers(3)).unwrap();
    // Three forward, three gradients of weights, two errors.
    assert_eq!(products(&module), vec![[Element::I8; 2]; 8]);
    assert!(module.parameters().iter().all(|p| module.ty(p.value).is_f32()));
    for node in module.nodes().iter().filter(|n| n.op.kind().has(Property::Bilinear)) {
        let users = module.nodes().iter().filter(|n| n.inputs.contains(&node.outputs[0]));
        assert!(users.clone().count() > 0);
        assert!(users.clone().all(|n| n.op.kind() == OpKind::Dequantize), "{}", node.name);
    }
}

/// A product without a rule is no FP32 product.
#[test]
fn products_without_a_rule_are_refused() {
    let text = INT8.replace(
        "(matmul ?a ?x ?w)\"\ninto",
        "(matmul ?a ?x ?w)\"\nwhere = [\"?a.role = forward\"]\ninto",
    );
    assert_ne!(text, INT8);
    let message = module(&text, &layers(2)).unwrap_err();
    assert!(message.contains("matmul") && message.contains("gradient"), "{message}");
}

#[test]
fn a_carrier_says_what_is_left() {
    let text = INT8.replace("carrier = \"f32\"", "carrier = \"f32\"\notherwise = \"float\"");
    let message = module(&text, &layers(1)).unwrap_err();
    assert!(message.contains("mine.toml, line 6") && message.contains("otherwise"), "{message}");
}

/// The first layer keeps what the rules of others do not take.
#[test]
fn layers_are_told_apart() {
    let guarded = |layer: &str| {
        let own = "?w)\"\nwhere = [\"?a.role != forward\"]\ninto";
        let all = INT8.replacen("?w)\"\ninto", own, 1);
        let rule = format!(
            "[[translation.rules]]\nname = \"guarded\"\nmatch = \"(matmul ?a ?x ?w)\"\n\
             into = \"(raised (dequantize (matmul ?a (narrowed ?x) (narrowed ?w))))\"\n\
             where = [\"?a.role = forward\", \"?w.layer = {layer}\"]\n\n[backpropagation]"
        );
        all.replacen("[backpropagation]", &rule, 1)
    };
    for (layer, missing) in [("first", "product1"), ("last", "product0"), ("inner", "product0")] {
        let message = module(&guarded(layer), &layers(3)).unwrap_err();
        assert!(message.contains(missing), "{layer}: {message}");
    }
    assert!(module(&guarded("first|inner|last"), &layers(3)).is_ok());
    assert!(module(&guarded("first|last"), &layers(2)).is_ok());
    let message = module(&guarded("frst"), &layers(1)).unwrap_err();
    assert!(message.contains("did you mean `first`?"), "{message}");
}

/// One rule joins any number of operands.
#[test]
fn one_rule_for_every_arity() {
    let niti = BUILT_IN.iter().find(|(name, _)| *name == "niti").unwrap().1;
    let algorithm = Algorithm::parse("niti", niti).unwrap().strict();
    for count in [1, 2, 7, 40] {
        let mut g = Graph::new("net");
        let x: Vec<ValueId> = (0..count)
            .map(|i| g.add_input(format!("x{i}"), TensorType::f32([2, 3]), InputRole::Data))
            .collect();
        let y = g.add1(Concat { axis: 1 }, &x, "concat").unwrap();
        g.add_output("y", y);
        let (module, _) = translate(&g, &algorithm).unwrap_or_else(|e| panic!("{count}: {e}"));
        let joined = |op: &Op| matches!(op, Op::AlignedConcat(_));
        let node = module.nodes().iter().find(|n| joined(&n.op)).expect("a concatenation");
        assert_eq!(node.inputs.len(), count);
    }
}

#[test]
fn lists_of_operands_are_checked() {
    let own = "(raised (aligned_concat ?a (narrowed ?x)...))";
    let niti = BUILT_IN.iter().find(|(name, _)| *name == "niti").unwrap().1;
    for (into, words) in [
        ("(raised (aligned_concat ?a (narrowed ?x)))", "`?x` is not bound"),
        ("(raised (aligned_concat ?a ...))", "stands behind no pattern"),
    ] {
        let message =
            Algorithm::parse("mine.toml", &niti.replace(own, into)).unwrap_err().to_string();
        assert!(message.contains(words) && message.contains("rule `concat`"), "{message}");
        assert!(message.contains("mine.toml, line "), "{message}");
    }
    let number = niti.replace("(match ?a ?x...)", "").replace("(relu ?x)", "(add ?x 1.0)");
    let message = Algorithm::parse("mine.toml", &number).unwrap_err().to_string();
    assert!(message.contains("numbers stand in `into`"), "{message}");
}
