//! Algorithms whose values stay FP32 and whose products alone are integer; patterns of any number of operands; guards on layers.

use trainc_ir::graph::{Graph, InputRole, ValueId};
use trainc_ir::ops::properties::Property;
use trainc_ir::ops::{Concat, MatMul, ProductRole, Relu, StepRounding};
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

fn built_in(name: &str) -> &'static str {
    BUILT_IN.iter().find(|(known, _)| *known == name).unwrap().1
}

/// Forms of weights, of errors and of other values are told apart, and made once for each value.
#[test]
fn forms_by_role_and_side() {
    let weights = "[weight.forms]\n\
                   codes = \"(quantize_steps{element=i8, exponent=0, base=0, low=-7, high=7, rounding=half_even, stream=0} ?x (form{step} ?x))\"\n\n\
                   [optimizer]\n";
    let text = built_in("ui8").replacen("[optimizer]\n", weights, 1);
    let module = module(&text, &layers(3)).unwrap();
    let mut found = [0; 3];
    for node in module.nodes() {
        let Op::QuantizeSteps(op) = &node.op else { continue };
        let weight = module.parameters().iter().any(|p| p.value == node.inputs[0]);
        let stochastic = op.rounding == StepRounding::Stochastic;
        assert_eq!(op.high, if weight { 7 } else { 127 }, "{}", node.name);
        found[if weight { 0 } else { 1 + usize::from(stochastic) }] += 1;
    }
    // Three weights, three activations, three errors, each with both its products.
    assert_eq!(found, [3, 3, 3]);
    // Only what is rounded stochastically has a stream.
    let mut streams: Vec<u32> = module.nodes().iter().filter_map(|n| n.op.stream()).collect();
    streams.sort_unstable();
    assert_eq!(streams, [0, 1, 2]);
}

#[test]
fn forms_are_checked() {
    let own = built_in("ui8");
    for (from, to, words) in [
        ("(conv2d ?a (form{codes} ?x)", "(conv2d ?a (form{cods} ?x)", "did you mean `codes`?"),
        ("rate = \"1\"", "rate = \"(form{rate} ?x)\"", "holds itself"),
        ("rate = \"1\"", "rate = \"(add ?x ?y)\"", "of ?x alone"),
        ("rate = \"1\"", "rate = \"(form{stop} ?x)\"", "did you mean `step`?"),
        ("rate = \"1\"", "rate = \"(form{step} (neg ?x))\"", "`(form{step} ?x)`"),
        ("rate = \"1\"", "rate = \"(ad ?x 1)\"", "unknown operation `ad`"),
    ] {
        assert!(own.contains(from), "{from}");
        let message =
            Algorithm::parse("mine.toml", &own.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(message.contains(words) && message.contains("mine.toml, line "), "{message}");
    }
}

/// Products that a file lists may be FP32 where a rule makes one, and nowhere else.
#[test]
fn listed_products_may_be_float() {
    let sbm = built_in("sbm");
    let float =
        |module: &Graph| products(module).iter().filter(|pair| pair[0] == Element::F32).count();
    assert_eq!(float(&module(sbm, &layers(2)).unwrap()), 2);
    let refused = sbm.replace("float_operations = [\"matmul\", ", "float_operations = [");
    assert_ne!(refused, sbm);
    let message = module(&refused, &layers(2)).unwrap_err();
    assert!(message.contains("matmul"), "{message}");
}
