//! `main.c`: an example of an artifact's whole interface.

use std::fmt::Write as _;

use trainc_ir::graph::InputRole;
use trainc_ir::program::{Program, StageNotes};
use trainc_ir::schedule::Per;
use trainc_ir::target::ArtifactFile;
use trainc_ir::{Element, Scale};

use crate::evaluate::{Evaluation, elements_macro};
use crate::indicator::LossIndicator;
use crate::interface::{Function, Interface, Parameter, Passing};
use crate::loops::element_type;
use crate::program::entry_macro;
use crate::schedule::Schedule;

/// Name of the example's source.
pub(crate) const NAME: &str = "main.c";
const TEMPLATE: &str = include_str!("example.c.txt");
const INFERENCE: &str = include_str!("inference.c.txt");
const BARE: &str = include_str!("bare.c.txt");
const BARE_INFERENCE: &str = include_str!("bare_inference.c.txt");
/// How many steps the training has, which the schedule divides.
const COUNT: &str = "    uint32_t total = 0;
    start(&from);
    while (next_batch(&from, @PREFIX@_BATCH) == @PREFIX@_BATCH) {
        total++;
    }
    total *= (uint32_t)(epochs > 0 ? epochs : 0);
";

/// A hosted C program that trains, evaluates, saves and loads, with documented data; one that infers for a program that
/// does nothing else.
///
/// # Errors
/// If the program is not one that classifies one float input.
pub fn example(program: &Program) -> Result<ArtifactFile, String> {
    filled(program, true)
}

/// As [`example`], for a machine without an operating system: it includes the artifact alone, and leaves what it found in
/// memory.
///
/// # Errors
/// As [`example`].
pub fn bare_example(program: &Program) -> Result<ArtifactFile, String> {
    filled(program, false)
}

fn filled(program: &Program, hosted: bool) -> Result<ArtifactFile, String> {
    let interface = Interface::of(program)?;
    if let [infer] = &interface.functions[..]
        && infer.entry == "infer"
    {
        return inference(&interface, infer, hosted);
    }
    let evaluation = Evaluation::of(&interface)
        .ok_or("an example needs inference with one result [batch, classes], and labels")?;
    let (training, infer) = (evaluation.training, evaluation.infer);
    let (input, of_inference) = (input(training)?, input(infer)?);
    let (step, other) = (&input.ty.shape, &of_inference.ty.shape);
    let batches = (Some(&evaluation.training_batch), Some(&evaluation.batch));
    if step.get(1..) != other.get(1..) || (step.first(), other.first()) != batches {
        return Err("an example needs training and inference on the same kind of example".into());
    }
    let input_elements = elements_macro(&interface, training, input);
    let mut names = Names::default();
    let [step, test] = [(training, "state"), (infer, "weights")].map(|(function, state)| {
        let mut call = vec!["arena".to_string(), state.to_string()];
        if function.random {
            call.extend(["SEED".to_string(), if state == "state" { "step" } else { "0" }.into()]);
        }
        (function, call)
    });
    let mut counts = false;
    for parameter in training.parameters.iter().filter(|p| p.role.is_scheduled()) {
        let schedule = scheduled(program, &interface, parameter)?;
        let place = match schedule.per {
            Per::Step => "step, total",
            Per::Epoch => "(uint32_t)(epoch - 1), (uint32_t)epochs",
        };
        counts |= schedule.per == Per::Step;
        let value = format!("{}({place})", schedule.symbol);
        names.scheduled.push((parameter.original.clone(), value));
    }
    let step_call = names.call(&interface, step.0, step.1, false)?;
    let step_call = format!("{}({step_call});", training.symbol);
    let step_call = match &program.notes.stages {
        None => step_call,
        Some(stages) => {
            let choice = Choice { program, interface: &interface, stages, own: &step_call };
            let (text, per) = choice.of_step(&mut names)?;
            counts |= per == Some(Per::Step);
            text
        }
    };
    let test_call = names.call(&interface, test.0, test.1, true)?;
    let mut end = String::new();
    if let Some(function) = interface.functions.iter().find(|f| f.entry == "epoch_end") {
        let mut call = vec!["arena".to_string(), "state".to_string()];
        if function.random {
            call.extend(["SEED".to_string(), "step".to_string()]);
        }
        for parameter in &function.parameters {
            let place = |per| match per {
                Per::Step => "step - 1, total",
                Per::Epoch => "(uint32_t)(epoch - 1), (uint32_t)epochs",
            };
            let schedule = scheduled(program, &interface, parameter)?;
            counts |= schedule.per == Per::Step;
            call.push(format!("{}({})", schedule.symbol, place(schedule.per)));
        }
        end = format!("        {}({});\n", function.symbol, call.join(", "));
    }
    let indicator = LossIndicator::of(program, &interface);
    let is_loss = |p: &&Parameter| {
        p.passing == Passing::Write
            && p.ty.count() == 1
            && p.ty.element == Element::F32
            && p.ty.scale == Scale::None
    };
    let loss = training.parameters.iter().find(is_loss);
    let result = loss.map(|loss| names.result(&interface, training, loss));
    let (start, add, print) = match (result, hosted) {
        (Some(loss), true) => (
            "        double loss_sum = 0;\n",
            format!("            loss_sum += (double){loss}[0];\n"),
            "printf(\"epoch %ld: mean loss %.4f\\n\", epoch, loss_sum / (double)(step - first))",
        ),
        (None, true) => ("", String::new(), "printf(\"epoch %ld\\n\", epoch)"),
        // Nothing that divides, for machines whose compiler calls a library for that.
        (Some(loss), false) => (
            "        float loss_sum = 0;\n",
            format!("            loss_sum += {loss}[0];\n"),
            "        example_results.losses[epoch - 1] = loss_sum;\n",
        ),
        (None, false) => ("", String::new(), ""),
    };
    let mut kept = String::new();
    if let Some(indicator) = &indicator {
        let loss = match (loss, hosted) {
            (None, _) => return Err("an example needs a loss, which the stages follow".into()),
            (Some(_), true) => "(float)(loss_sum / (double)(step - first))",
            (Some(_), false) => "loss_sum",
        };
        kept = format!("    {} indicator = {};\n", indicator.ty, indicator.start());
        let _ = writeln!(end, "        {}_take(&indicator, {loss});", indicator.ty);
    }
    let text = if hosted { TEMPLATE } else { BARE };
    let text = text
        .replace("@COUNT@", if counts { COUNT } else { "" })
        .replace("@prefix@", &interface.prefix)
        .replace("@PREFIX@", &interface.macros())
        .replace("@INPUT_ELEMENTS@", &input_elements)
        .replace("@RESULTS@", &names.declarations)
        .replace("@TRAIN@", &entry_macro(&interface, training))
        .replace("@train@", &training.symbol)
        .replace("@EVALUATE@", &format!("{}({test_call})", evaluation.symbol))
        .replace("@EPOCH_END@", &end)
        .replace("@INDICATOR@", &kept)
        .replace("@LOSS_START@", start)
        .replace("@LOSS_ADD@", &add)
        .replace("@LOSS_PRINT@", print)
        .replace("@STEP@;", &step_call);
    Ok(ArtifactFile { name: NAME.into(), contents: text.into_bytes() })
}

/// The choice of a training step by the stage.
struct Choice<'c> {
    program: &'c Program,
    interface: &'c Interface,
    stages: &'c StageNotes,
    /// The call of stage 0.
    own: &'c str,
}

impl Choice<'_> {
    /// The statement, and what its schedule counts, if it has one.
    fn of_step(&self, names: &mut Names) -> Result<(String, Option<Per>), String> {
        let schedule = Schedule::of_stages(self.program, self.interface);
        let indicator = LossIndicator::of(self.program, self.interface);
        let stage = match (&schedule, indicator) {
            (_, Some(indicator)) => format!("{}(&indicator)", indicator.stage),
            (Some(schedule), None) => {
                let place = match schedule.per {
                    Per::Step => "step, total",
                    Per::Epoch => "(uint32_t)(epoch - 1), (uint32_t)epochs",
                };
                format!("{}({place})", schedule.symbol)
            }
            (None, None) => return Err("an example needs what says which stage it is".into()),
        };
        let mut text = format!("switch ({stage}) {{\n");
        for (number, name) in self.stages.functions.iter().enumerate().skip(1) {
            let function = self.interface.functions.iter().find(|f| f.entry == *name);
            let function = function.ok_or_else(|| format!("there is no entry `{name}`"))?;
            let mut call = vec!["arena".to_string(), "state".to_string()];
            if function.random {
                call.extend(["SEED".to_string(), "step".to_string()]);
            }
            let call = names.call(self.interface, function, call, false)?;
            let symbol = &function.symbol;
            text += &format!(
                "            case {number}:\n                {symbol}({call});\n                break;\n"
            );
        }
        let own = self.own;
        text += &format!(
            "            default:\n                {own}\n                break;\n            }}"
        );
        Ok((text, schedule.map(|schedule| schedule.per)))
    }
}

/// The schedule of a parameter.
fn scheduled<'p>(
    program: &'p Program,
    interface: &Interface,
    parameter: &Parameter,
) -> Result<Schedule<'p>, String> {
    let schedule = match parameter.role {
        InputRole::LearningRate => Schedule::of(program, interface),
        _ => Schedule::named(program, interface, &parameter.original),
    };
    schedule.ok_or_else(|| format!("an example needs a schedule of `{}`", parameter.original))
}

/// The example of a program that only infers.
fn inference(
    interface: &Interface,
    infer: &Function,
    hosted: bool,
) -> Result<ArtifactFile, String> {
    let input = data(infer)?;
    let bytes = input.ty.element == Element::U8;
    let batch = input.ty.shape.first().copied().unwrap_or(1).max(1);
    let mut names = Names::default();
    let mut call = vec!["arena".to_string(), "state".to_string()];
    if infer.random {
        call.extend(["0".to_string(), "0".to_string()]);
    }
    let call = names.call(interface, infer, call, false)?;
    let mut print = String::new();
    for result in infer.parameters.iter().filter(|p| p.passing == Passing::Write) {
        let rows = result.ty.shape.first() == Some(&batch);
        if result.is_struct() || !rows || result.ty.element.bits() < 8 {
            return Err("an example needs results of plain numbers, one row an input".into());
        }
        let name = names.result(interface, infer, result);
        let columns = result.ty.count() / batch;
        print.push_str(&format!(
            "            printf(\"%zu {}:\", number);\n            \
             for (size_t j = 0; j < {columns}; j++) {{\n                \
             printf(\" %g\", (double){name}[i * {columns} + j]);\n            }}\n            \
             printf(\"\\n\");\n",
            result.name
        ));
    }
    if !hosted {
        // For who looks.
        names.declarations = names.declarations.replace("static ", "");
    }
    let text = if hosted { INFERENCE } else { BARE_INFERENCE };
    let text = text
        .replace("@prefix@", &interface.prefix)
        .replace("@PREFIX@", &interface.macros())
        .replace("@BATCH@", &batch.to_string())
        .replace("@ELEMENT@", element_type(input.ty.element))
        .replace("@MADE_UP@", match (bytes, hosted) {
            (true, _) => "(uint8_t)(i * 7 % 256)",
            (false, true) => "(float)(i * 7 % 256) / 255.0f",
            (false, false) => "(float)(i * 7 % 256) * (1.0f / 255.0f)",
        })
        .replace("@FORM@", if bytes {
            "bytes each.\n * From an array x [n, ...] of numpy: x.astype(\"u1\").tofile(\"inputs.bin\")."
        } else {
            "little-endian floats each,\n * scaled as the model expects them. From an array x [n, ...] of numpy: x.astype(\"<f4\").tofile(\"inputs.bin\")."
        })
        .replace("@SCALED@", if bytes { "inputs" } else { "inputs, scaled as the model expects them" })
        .replace("@INPUT_ELEMENTS@", &elements_macro(interface, infer, input))
        .replace("@RESULTS@", &names.declarations)
        .replace("@INFER@", &format!("{}({call})", infer.symbol))
        .replace("@PRINT@", &print);
    Ok(ArtifactFile { name: NAME.into(), contents: text.into_bytes() })
}

/// The one input of an entry.
fn input(function: &Function) -> Result<&Parameter, String> {
    let input = data(function)?;
    if input.ty.element != Element::F32 {
        return Err(format!("an example needs one float input for `{}`", function.entry));
    }
    Ok(input)
}

/// The one input of an entry, floats or bytes.
fn data(function: &Function) -> Result<&Parameter, String> {
    let is_data = |p: &&Parameter| p.passing != Passing::Write && p.role == InputRole::Data;
    let mut data = function.parameters.iter().filter(is_data);
    match (data.next(), data.next()) {
        (Some(input), None)
            if matches!(input.ty.element, Element::F32 | Element::U8) && !input.is_struct() =>
        {
            Ok(input)
        }
        _ => Err(format!("an example needs one input of floats or bytes for `{}`", function.entry)),
    }
}

/// The static variables of results.
#[derive(Debug, Default)]
struct Names {
    /// The expressions for what schedules give, by name.
    scheduled: Vec<(String, String)>,
    declarations: String,
    declared: Vec<(String, String)>,
}

impl Names {
    /// The arguments of a call, of which the first are given.
    fn call(
        &mut self,
        interface: &Interface,
        function: &Function,
        mut arguments: Vec<String>,
        evaluates: bool,
    ) -> Result<String, String> {
        let mut results = Vec::new();
        for parameter in &function.parameters {
            match (parameter.passing, parameter.role) {
                (Passing::Write, _) => results.push(self.declare(interface, function, parameter)),
                (_, InputRole::Data) => arguments.push("input".into()),
                (_, InputRole::Labels) => arguments.push("labels".into()),
                (passing, InputRole::LearningRate | InputRole::Scheduled) => {
                    let name = &parameter.original;
                    let known = self.scheduled.iter().find(|(known, _)| known == name);
                    let value = known.filter(|_| passing == Passing::Value);
                    let (_, value) = value.ok_or_else(|| {
                        format!("an example needs a schedule of `{name}`, a scalar")
                    })?;
                    arguments.push(value.clone());
                }
            }
        }
        if evaluates {
            arguments.extend(["labels".into(), "count".into()]);
        }
        arguments.extend(results);
        Ok(arguments.join(", "))
    }

    /// The variable of a result: one for results of one name and type.
    fn result(&self, interface: &Interface, function: &Function, parameter: &Parameter) -> String {
        if parameter.is_struct() {
            return format!("{}_{}", function.entry, parameter.name);
        }
        let size = elements_macro(interface, function, parameter);
        let head = format!("{}_", interface.macros());
        let name = size.strip_prefix(&head).unwrap_or(&size);
        let name = name.strip_suffix("_ELEMENTS").unwrap_or(name);
        format!("result_{}", name.to_lowercase())
    }

    fn declare(
        &mut self,
        interface: &Interface,
        function: &Function,
        parameter: &Parameter,
    ) -> String {
        let name = self.result(interface, function, parameter);
        let element = element_type(parameter.ty.element);
        let declaration = if parameter.is_struct() {
            format!("static {} {name};\n", function.struct_name(parameter))
        } else {
            let size = elements_macro(interface, function, parameter);
            format!("static {element} {name}[{size}];\n")
        };
        let new = (name.clone(), declaration.clone());
        if !self.declared.contains(&new) {
            self.declarations.push_str(&declaration);
            self.declared.push(new);
        }
        if parameter.is_struct() { format!("&{name}") } else { name }
    }
}
