//! Algorithm files: what is not understood is refused, with what was meant; rules that apply to their own results end.

use trainc_ir::graph::{Graph, InputRole};
use trainc_ir::ops::{MatMul, ProductRole, Relu};
use trainc_ir::types::TensorType;
use trainc_ir::{OpKind, Tensor};
use trainc_opt::algorithm::optimizer::Optimizer;
use trainc_opt::algorithm::{Algorithm, BUILT_IN};
use trainc_opt::model_rules::{Ruled, apply_model_rules};
use trainc_opt::roles::Role;
use trainc_opt::training::training_graph_under;
use trainc_opt::translate::translate;

fn niti() -> &'static str {
    BUILT_IN.iter().find(|(name, _)| *name == "niti").expect("it is built in").1
}

/// What is said of NITI's file with one text in the place of another.
fn refused(from: &str, to: &str) -> String {
    assert!(niti().contains(from), "{from}");
    match Algorithm::parse("mine.toml", &niti().replacen(from, to, 1)) {
        Ok(_) => panic!("`{to}` is taken"),
        Err(e) => e.to_string(),
    }
}

fn says(from: &str, to: &str, parts: &[&str]) {
    let message = refused(from, to);
    for part in parts {
        assert!(message.contains(part), "`{to}` gives:\n{message}\nwhich lacks `{part}`");
    }
    assert!(message.contains("mine.toml"), "{message}");
}

#[test]
fn quantizers() {
    let own = r#"quantizer = "quantize_weight""#;
    let quantizer = |text: &str| format!(r#"quantizer = "{text}""#);
    says(own, &quantizer("quantize_weight{bits=4}"), &["`quantize_weight` has no attributes"]);
    says(own, &quantizer("quantize_weight 4"), &["text after the operation `quantize_weight`"]);
    says(own, &quantizer("quantize_wieght"), &["did you mean `quantize_weight`?"]);
    says(own, &quantizer("dequantize"), &["stores an FP32 parameter"]);
    says(own, &quantizer("reduce_sum{axes=[0], keep_dims=false}"), &["shape"]);
}

#[test]
fn operations_and_attributes() {
    let own = "(requantize{bits=7, rounding=half_away, low=-127} (conv2d";
    let requantize = |text: &str| format!("(requantize{text} (conv2d");
    says(own, &requantize("{bits=7, rounding=half_way, low=-127}"), &["`half_way`", "half_away"]);
    says(own, &requantize("{bits=7, rounding=half_away}"), &["the attribute `low`"]);
    says(
        own,
        &requantize("{bits=7, round=half_away, low=-127}"),
        &["no attribute `round`", "rounding"],
    );
    says(
        own,
        &requantize("{bits=7, rounding=half_away, low=-127, high=127}"),
        &["no attribute `high`"],
    );
    says(own, &requantize("{bits=seven, rounding=half_away, low=-127}"), &["`seven`"]);
    says(own, &requantize(""), &["`requantize` has attributes (bits, rounding, low)"]);
    says("(relu (narrowed ?x))", "(relu{leak=1} (lowered ?x))", &["`relu` has no attributes"]);
    says("(relu (narrowed ?x))", "(rellu (lowered ?x))", &["`rellu`", "did you mean `relu`?"]);
    says("(relu (narrowed ?x))", "(relu (lowered ?y))", &["`?y` is not bound"]);
    says("(clip ?a (narrowed ?x))", "(clip (lowered ?x))", &["`clip` has attributes (min, max)"]);
    says(
        "(clip ?a (narrowed ?x))",
        "(transpose ?a (lowered ?x))",
        &["`?a`", "`clip` and of `transpose`"],
    );
    says("(clip ?a (narrowed ?x))", "(clip ?a (lowered ?a))", &["`?a`", "and for a value"]);
    // An operation around another: only around a product, and one that is bound.
    let around = |of: &str| format!("(grouped_product{{of={of}}} (lowered ?x) (lowered ?x) 1 1)");
    let clip = "(clip ?a (narrowed ?x))";
    says(clip, &around("?a"), &["`clip` in the place of `?a`", "no product: matmul, conv2d"]);
    says(clip, &around("?b"), &["`?b` does not stand for the attributes"]);
    says(clip, &around("?x"), &["`?x` does not stand for the attributes"]);
    let unfinished = "(chunked_product{of=?a, format=e5m2} (lowered ?x) (lowered ?x))";
    says("(matmul ?a (narrowed ?x) (narrowed ?w))", unfinished, &["`chunk` of `chunked_product`"]);
    let format = "(quantize_float{format=e9m2, rounding=away, stream=0} (lowered ?x))";
    says(clip, format, &["`e9m2`", "1 to 7 exponent bits"]);
    let negative = "[backpropagation]\nloss_scale = -1";
    says("[backpropagation]", negative, &["backpropagation.loss_scale", "above 0"]);
    says(r#"otherwise = "float""#, r#"remove = ["batchnorm"]"#, &["did you mean `batch_norm`?"]);
    says(r#"learning_rate = "i32""#, r#"learning_rate = "i16""#, &["`i16`", "`f32` or `i32`"]);
}

#[test]
fn states_of_results() {
    let adaptive = niti().replacen("adaptive = { default = 0", "adaptive = { default = 1", 1);
    let says = |from: &str, to: &str, parts: &[&str]| {
        assert!(adaptive.contains(from), "{from}");
        let text = adaptive.replacen(from, to, 1);
        let message = Algorithm::parse("mine.toml", &text).unwrap_err().to_string();
        for part in parts {
            assert!(message.contains(part), "`{to}` gives:\n{message}\nwhich lacks `{part}`");
        }
    };
    let own = "(state{shift} ?result)))";
    says(own, "(state{shift} ?x)))", &["a state stands in forms, or is that of `?result`"]);
    says(own, "(state{shft} ?result)))", &["there is no state `shft`", "`shift`"]);
    let next = "next = \"next_shift\"";
    says(next, "next = \"next_shft\"", &["there is no form `next_shft`", "`next_shift`"]);
    let model = "[[model.rules]]\nname = \"m\"\nmatch = \"(relu ?x)\"\ninto = \"(add ?x ?result)\"\n\n[translation]";
    says("[translation]", model, &["`?result` stands in rules of translation alone"]);
}

#[test]
fn guards() {
    let own = r#"where = ["?a.role = error"]"#;
    let guard = |text: &str| format!(r#"where = ["{text}"]"#);
    says(own, &guard("?a.role = eror"), &["`eror`", "forward", "error", "gradient"]);
    says(own, &guard("?a.rule = error"), &["no attribute `rule`", "did you mean `role`?"]);
    says(own, &guard("?b.role = error"), &["`?b` does not stand for the attributes"]);
    says(own, &guard("?a.role = error or gradient"), &["text after the value"]);
    says(own, &guard("a.role = error"), &["is not of the form"]);
}

#[test]
fn keys() {
    says("[weight]", "[weights]", &["`weights`", "did you mean `weight`?"]);
    says("quantizer =", "quantiser =", &["`quantiser`", "did you mean `quantizer`?"]);
    says(r#""xavier_uniform""#, r#""xavier_unifrm""#, &["did you mean `xavier_uniform`?"]);
}

#[test]
fn schedules() {
    for from in ["1.0", "nan", "inf", "0.5", "-0.5"] {
        says(
            "from = 0.75",
            &format!("from = {from}"),
            &["optimizer.schedule", "ascending", "below 1"],
        );
    }
    says("from = 0.0", "from = 0.1", &["the first at 0"]);
}

/// `relu(x)` as something that holds another `relu` of a new operand, again and again.
#[test]
fn rules_that_apply_to_their_results_end() {
    let own = "(raised (relu (narrowed ?x)))";
    for endless in ["(relu (abs ?x))", "(add (relu (abs ?x)) (relu (neg ?x)))"] {
        let text = niti().replacen(own, endless, 1);
        let algorithm = Algorithm::parse("mine.toml", &text).unwrap();
        let mut graph = Graph::new("net");
        let x = graph.add_input("x", TensorType::f32([2, 3]), InputRole::Data);
        let y = graph.add1(Relu {}, &[x], "activation").unwrap();
        graph.add_output("y", y);
        let message = translate(&graph, &algorithm).unwrap_err().to_string();
        assert!(message.contains("rule `relu`"), "{message}");
    }
}

/// NITI with the bits of its activations, and a second form of one rule, as parameters.
fn with_parameters() -> String {
    let text = niti().replacen(
        "[parameters]\n",
        "[parameters]\nbits = { default = 7, min = 2, max = 7, whole = true, about = \"bits of activations\" }\n\
         leak = { default = 0 }\n",
        1,
    );
    let own = "into = \"(raised (relu (narrowed ?x)))\"";
    assert!(text.contains(own));
    let guarded = format!("{own}\nwhere = [\"$(leak) = 0\"]");
    text.replace("{bits=7,", "{bits=$(bits),").replacen(own, &guarded, 1)
}

fn relu() -> Graph {
    let mut graph = Graph::new("net");
    let x = graph.add_input("x", TensorType::f32([2, 3]), InputRole::Data);
    let y = graph.add1(Relu {}, &[x], "activation").unwrap();
    graph.add_output("y", y);
    graph
}

#[test]
fn parameters_stand_in_texts() {
    let text = with_parameters();
    let plain = Algorithm::parse("niti", niti()).unwrap();
    let own = Algorithm::parse("mine.toml", &text).unwrap();
    assert_eq!((own.rules.len(), own.spelled()), (plain.rules.len(), "niti".to_string()));
    let rules = |algorithm: &Algorithm| format!("{:?}", algorithm.rules);
    assert_eq!(rules(&own), rules(&plain));
    let changed = own.with_parameters("bits=5,leak=0").unwrap();
    let expected = Algorithm::parse("niti", &niti().replace("{bits=7,", "{bits=5,")).unwrap();
    assert_eq!((rules(&changed), changed.spelled()), (rules(&expected), "niti:bits=5".to_string()));
    // A rule whose condition does not hold is not there.
    let without = changed.with_parameters("leak=1").unwrap();
    let (_, report) = translate(&relu(), &without).unwrap();
    assert_eq!(report.floated.len(), 1);
}

#[test]
fn parameters_are_checked() {
    let text = with_parameters();
    let refused = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        Algorithm::parse("mine.toml", &text.replacen(from, to, 1)).unwrap_err().to_string()
    };
    for (from, to, parts) in [
        ("{bits=$(bits),", "{bits=$(bit),", &["did you mean `bits`?", "line"][..]),
        ("{bits=$(bits),", "{bits=$(bits / 2),", &["3.5", "line"]),
        ("$(leak) = 0", "$(leak) is 0", &["$(expression) = number", "`relu`"]),
        ("default = 7, ", "default = 8, ", &["parameters.bits", "at most 7"]),
        ("default = 0 ", "default = 0, least = 2 ", &["`least`"]),
    ] {
        let message = refused(from, to);
        for part in parts {
            assert!(message.contains(part), "`{to}` gives:\n{message}\nwhich lacks `{part}`");
        }
    }
    let set = |values: &str| {
        let own = Algorithm::parse("mine.toml", &text).unwrap();
        own.with_parameters(values).unwrap_err().to_string()
    };
    let message = set("bit=4");
    let allowed = "bits=7 (a whole number of at least 2 and at most 7, bits of activations)";
    assert!(message.contains("did you mean `bits`?") && message.contains(allowed), "{message}");
    assert!(set("bits=8").contains("at most 7, not 8"));
}

#[test]
fn forms_are_chosen_by_parameters() {
    let ui8 = BUILT_IN.iter().find(|(name, _)| *name == "ui8").unwrap().1;
    let form = "rate = \"1\"";
    let choice = "rate = [{ where = [\"$(half) = 1\"], is = \"$(1 / 2)\" }, { is = \"1\" }]";
    let text = ui8.replacen(form, choice, 1).replacen(
        "\n[translation]\n",
        "\n[parameters]\nhalf = { default = 0 }\n\n[translation]\n",
        1,
    );
    let forms = |algorithm: &Algorithm| format!("{:?}", algorithm.forms);
    let plain = Algorithm::parse("ui8", ui8).unwrap();
    let own = Algorithm::parse("mine.toml", &text).unwrap();
    assert_eq!(forms(&own), forms(&plain));
    let halved = Algorithm::parse("ui8", &ui8.replacen(form, "rate = \"0.5\"", 1)).unwrap();
    assert_eq!(forms(&own.with_parameters("half=1").unwrap()), forms(&halved));
    let none = text.replacen("{ is = \"1\" }", "", 1);
    let message = Algorithm::parse("mine.toml", &none).unwrap_err().to_string();
    assert!(message.contains("translation.forms.rate") && message.contains("where"), "{message}");
}

/// A rule of the model is one operation, and what it puts in place is made of operations and numbers.
#[test]
fn rules_of_the_model() {
    let fp32 = BUILT_IN.iter().find(|(name, _)| *name == "fp32").unwrap().1;
    let with = |from: &str, into: &str| {
        let rule = format!(
            "[[model.rules]]\nname = \"own\"\nmatch = \"{from}\"\ninto = \"{into}\"\n\n[optimizer]"
        );
        Algorithm::parse("mine.toml", &fp32.replacen("[optimizer]", &rule, 1))
    };
    let own = with("(relu ?x)", "(mul (relu ?x) (relu ?x))").unwrap();
    let Ruled { graph, applied, .. } = apply_model_rules(&relu(), &own.model_rules, 0).unwrap();
    assert_eq!(applied, [("own".to_string(), "activation".to_string())]);
    let kinds: Vec<&str> = graph.nodes().iter().map(|n| n.op.kind().name()).collect();
    assert_eq!(kinds, ["relu", "mul"], "equal parts are one");
    assert_eq!(graph.nodes()[1].name, "activation");
    for (from, into, part) in [
        ("(relu (relu ?x))", "?x", "matches one operation"),
        ("?x", "(relu ?x)", "matches one operation"),
        ("(relu ?x)", "(raised (relu ?x))", "operations, numbers"),
        ("(relu ?x)", "(clip ?a ?x)", "?a"),
    ] {
        let message = with(from, into).unwrap_err().to_string();
        assert!(message.contains(part) && message.contains("`own`"), "{message}");
    }
    let untyped = with("(relu ?x)", "(reduce_max{axes=[7], keep_dims=false} ?x)").unwrap();
    let message = apply_model_rules(&relu(), &untyped.model_rules, 0).unwrap_err().to_string();
    assert!(message.contains("rule `own` at `activation`"), "{message}");
}

/// A model `y = w x` with a weight that trains.
fn product() -> Graph {
    let mut graph = Graph::new("net");
    let x = graph.add_input("x", TensorType::f32([2, 3]), InputRole::Data);
    let w = graph.add_parameter("w", Tensor::f32([3, 4], vec![0.5; 12]), true);
    let op = MatMul { transpose_a: false, transpose_b: false, role: ProductRole::Forward };
    let y = graph.add1(op, &[x, w], "y").unwrap();
    graph.add_output("y", y);
    graph
}

/// A rule of the model may add parameters, of an operand's shape or of the result's, and stop others from training.
#[test]
fn rules_of_the_model_add_parameters() {
    let fp32 = BUILT_IN.iter().find(|(name, _)| *name == "fp32").unwrap().1;
    let with = |into: &str, keys: &str| {
        let rule = format!(
            "[[model.rules]]\nname = \"own\"\nmatch = \"(matmul ?a ?x ?w)\"\ninto = \"{into}\"\n{keys}\n\n[optimizer]"
        );
        Algorithm::parse("mine.toml", &fp32.replacen("[optimizer]", &rule, 1))
    };
    let into = "(add (matmul ?a ?x (mul ?w ?scores)) ?shift)";
    let scores = "{ name = \"scores\", of = \"?w\", initial = { uniform = 0.5 } }";
    let shift =
        "{ name = \"shift\", of = \"result\", single = [0], initial = 2.0, trains = false }";
    let keys = format!("parameters = [{scores}, {shift}]\nfreezes = [\"?w\"]");
    let own = with(into, &keys).unwrap();
    let Ruled { graph, frozen, .. } = apply_model_rules(&product(), &own.model_rules, 7).unwrap();
    assert_eq!(frozen, ["w"]);
    let found: Vec<_> = graph
        .parameters()
        .iter()
        .map(|p| {
            let name = graph.value(p.value).name.as_str();
            (name, graph.ty(p.value).shape.dims().to_vec(), p.trainable)
        })
        .collect();
    assert_eq!(found, [("w.scores", vec![3, 4], true), ("y.shift", vec![1, 4], false)]);
    let first = |graph: &Graph, i: usize| graph.parameters()[i].initial.as_f32().to_vec();
    let drawn = first(&graph, 0);
    assert!(drawn.iter().all(|x| x.abs() < 0.5) && drawn.iter().any(|x| x.abs() > 0.1));
    assert_eq!(first(&graph, 1), [2.0; 4]);
    let again = |seed| apply_model_rules(&product(), &own.model_rules, seed).unwrap().graph;
    assert_eq!(first(&again(7), 0), drawn);
    assert_ne!(first(&again(8), 0), drawn);

    let one = |text: &str| format!("parameters = [{text}]");
    for (into, keys, part) in [
        ("(mul ?b (matmul ?a ?x ?w))", String::new(), "`?b` is not bound"),
        ("(matmul ?a ?x ?w)", one("{ name = \"w\", of = \"?w\" }"), "`?w` has a meaning already"),
        ("(matmul ?a ?x ?w)", one("{ name = \"s\", of = \"?v\" }"), "`?v` is no value in `match`"),
        ("(matmul ?a ?x ?w)", one("{ name = \"s\", of = \"w\" }"), "as `?w`"),
        ("(matmul ?a ?x ?w)", "freezes = [\"?y\"]".into(), "`?y` is no value in `match`"),
    ] {
        let message = with(into, &keys).unwrap_err().to_string();
        assert!(message.contains(part) && message.contains("`own`"), "{message}");
    }
    let beyond = with(into, &keys.replace("[0]", "[2]")).unwrap();
    let message = apply_model_rules(&product(), &beyond.model_rules, 0).unwrap_err().to_string();
    assert!(message.contains("rule `own` at `y`") && message.contains("no axis 2"), "{message}");
    let input = with(into, &keys.replace("[\"?w\"]", "[\"?x\"]")).unwrap();
    // An input cannot be frozen, so the rule is not for this product.
    let ruled = apply_model_rules(&product(), &input.model_rules, 0).unwrap();
    assert!(ruled.applied.is_empty() && ruled.frozen.is_empty());

    let ui8 = BUILT_IN.iter().find(|(name, _)| *name == "ui8").unwrap().1;
    let wrong =
        ui8.replacen("name = \"matmul\"", &format!("name = \"matmul\"\n{}", one(scores)), 1);
    let message = Algorithm::parse("mine.toml", &wrong).unwrap_err().to_string();
    assert!(message.contains("rules of the model alone"), "{message}");
}

/// A formula may take one result of an operation with several; which one must be said.
#[test]
fn formulas_take_results_of_operations() {
    let of = |divisor: &str| {
        let text = format!(
            "name = \"own\"\ntitle = \"own\"\n[optimizer]\nschedule = [{{ from = 0.0, value = 0.1 }}]\n[optimizer.update]\nw = \"(sub ?w (mul ?learning_rate (div ?g {divisor})))\"\n"
        );
        let own = Algorithm::parse("mine.toml", &text).unwrap();
        training_graph_under(&product(), None, &own)
    };
    let extremes = "(extremes{kept=[], mean=false} ?g)";
    let graph = of(&format!("(maximum (neg (result{{0}} {extremes})) (result{{1}} {extremes}))"));
    let graph = graph.unwrap();
    let found: Vec<_> = graph.nodes().iter().filter(|n| n.op.kind() == OpKind::Extremes).collect();
    assert_eq!(found.len(), 1, "both results are of one");
    let last = graph.nodes().last().unwrap();
    assert_eq!(last.op.kind(), OpKind::Formula);
    assert!(found[0].outputs.iter().all(|v| last.inputs.contains(v)));
    for wrong in [extremes.to_string(), format!("(result{{2}} {extremes})")] {
        let message = of(&wrong).unwrap_err().to_string();
        assert!(
            message.contains("`extremes` has 2 result(s)") && message.contains("`w`"),
            "{message}"
        );
    }
    let message = Algorithm::parse(
        "mine.toml",
        &niti().replacen("(sgd_update ?w ?g ?learning_rate)", "(result{0} ?g)", 1),
    );
    let message = message.unwrap_err().to_string();
    assert!(message.contains("whose result it is"), "{message}");
}

/// An optimizer's parameter may have a value of its own for weights of a layer, which goes over a role's.
#[test]
fn values_by_layer() {
    let mut sgd = Optimizer::built_in("sgd").unwrap();
    sgd.set("weight_decay=0.1,weight_decay.weight=0.2,weight_decay.last=0.3").unwrap();
    let of = |role, layers: &[&'static str]| sgd.value("weight_decay", role, layers, None);
    assert_eq!(of(Some(Role::Weight), &["last"]), Some(0.3));
    assert_eq!(of(Some(Role::Weight), &["first", "last"]), Some(0.3));
    assert_eq!(of(Some(Role::Weight), &["inner"]), Some(0.2));
    assert_eq!(of(Some(Role::Bias), &[]), Some(0.1));
    assert!(sgd.described().contains("0.3 in the last layer"), "{}", sgd.described());
    let message = sgd.set("weight_decay.frist=1").unwrap_err();
    assert!(message.contains("frist") && message.contains("first, inner, last"), "{message}");
}

/// What a file leaves to its base, what it has of its own, and bases that are none.
#[test]
fn files_with_a_base() {
    let named = "name = \"mine\"\ntitle = \"t\"\n";
    let read = |text: &str| Algorithm::parse("mine.toml", &format!("{text}\n{named}"));
    let own = read("base = \"sbm:fw=4,range=0\"").expect("it is one");
    let sbm = Algorithm::built_in("sbm").expect("built in").with_parameters("fw=4,range=0");
    let sbm = sbm.expect("its parameters");
    assert_eq!((own.name.as_str(), own.rules.len()), ("mine", sbm.rules.len()));
    assert_eq!(format!("{:?}", own.rules), format!("{:?}", sbm.rules));
    // Values of the base are the file's defaults; a parameter of its own stands beside them.
    assert_eq!(own.parameters.spelled(), "");
    let more = "base = \"sbm\"\n[parameters]\nextra = { default = 2 }";
    let own = Algorithm::parse("mine.toml", &format!("{named}{more}")).expect("it is one");
    let values: Vec<(&str, f64)> = own.parameters.values().collect();
    assert!(values.contains(&("extra", 2.0)) && values.contains(&("fw", 8.0)), "{values:?}");
    let said = |text: &str| read(text).expect_err("refused").to_string();
    for (text, part) in [
        ("base = \"sbn\"", "did you mean `sbm`?"),
        ("base = \"pfq\"", "has a base itself"),
        ("base = \"sbm:bits=4\"", "there is no parameter `bits`"),
        ("base = \"sbm:fw=9\"", "at most 8, not 9"),
        ("base = \"niti:w=1\"", "no parameter"),
        ("base = 7", "the name of a built-in algorithm"),
    ] {
        let message = said(text);
        assert!(message.contains(part) && message.contains("mine.toml"), "{text}: {message}");
    }
    // Stages that follow the loss: what is out of bounds names its key.
    let staged = |keys: &str| {
        said(&format!(
            "base = \"sbm\"\nstages = {{ others = [{{ name = \"low\", parameters = {{ fw = 4 }} }}], {keys} }}"
        ))
    };
    let indicator = |keys: &str| staged(&format!("indicator = {{ {keys} }}"));
    for (message, part) in [
        (indicator("order = [2, 0], threshold = 0.1"), "stages.indicator.order"),
        (indicator("order = [1, 0], threshold = 0.1, epochs = 1"), "2 to 64"),
        (indicator("order = [1, 0], threshold = -0.1"), "a number from 0 on"),
        (indicator("order = [1, 0], threshold = 0.1, average = 0"), "at least one epoch"),
        (
            staged(
                "schedule = [{ from = 0.0, value = 1 }], indicator = { order = [1, 0], threshold = 0.1 }",
            ),
            "not both",
        ),
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
}

/// States of blocks, and widths that are chosen: what is wrong with a file is said with its place.
#[test]
fn widths_of_blocks() {
    let dynasty = BUILT_IN.iter().find(|(name, _)| *name == "dynasty").expect("built in").1;
    for (from, to, parts) in [
        ("state = \"width\"", "state = \"wide\"", ["widths.state", "`wide` is no state of blocks"]),
        ("of = \"block\"", "", ["widths.state", "no state of blocks without `next`"]),
        ("of = \"block\"", "of = \"block\"\nnext = \"planes\"", ["widths.state", "without `next`"]),
        ("of = \"block\"", "of = \"row\"", ["unknown variant", "`block`"]),
        ("initial = [4]", "initial = [4, 4]", ["width", "one number, which each block has"]),
        (
            "budget = \"$(bits)\"",
            "budget = \"$(bits + 5)\"",
            ["widths.budget", "expected 0 to 8, here 9"],
        ),
        ("budget = \"$(bits)\"", "budget = \"all\"", ["widths.budget", "here `all`"]),
        ("kept = 0.5", "kept = 1.5", ["widths.kept", "expected 0 to 1, here 1.5"]),
        ("rounds = 3", "rounds = 0", ["widths.rounds", "expected 1 to 64, here 0"]),
    ] {
        assert!(dynasty.contains(from), "{from}");
        let error = Algorithm::parse("own.toml", &dynasty.replacen(from, to, 1));
        let error = error.expect_err(to).to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{to}: {error}");
    }
    let three = Algorithm::built_in("dynasty").and_then(|own| own.with_parameters("bits=3"));
    let widths = three.expect("built in").widths.expect("it chooses widths");
    assert_eq!(widths.choice(&[2.0]).budget.get(), 3.0);
}
