//! What the input of an artifact is and how stored data become it, the classes, and what is frozen.

use std::fmt::Write as _;

use trainc_ir::graph::InputRole;
use trainc_ir::names::shown;
use trainc_ir::program::{InputNotes, Program};
use trainc_ir::{Element, Scale};

use crate::evaluate::Evaluation;
use crate::indicator::LossIndicator;
use crate::interface::{Interface, Parameter, Passing};
use crate::layout::Lines;
use crate::schedule::Schedule;

/// The one float image of a program that takes no other data.
#[derive(Debug)]
pub(crate) struct Input<'p> {
    parameter: &'p Parameter,
    /// Batch, channels, rows, columns.
    shape: [usize; 4],
    notes: Option<&'p InputNotes>,
}

impl<'p> Input<'p> {
    /// The input of a program's first entry.
    pub(crate) fn of(program: &'p Program, interface: &'p Interface) -> Option<Input<'p>> {
        let is_data = |p: &&Parameter| p.passing == Passing::Read && p.role == InputRole::Data;
        let mut data = interface.functions.first()?.parameters.iter().filter(is_data);
        let (parameter, None) = (data.next()?, data.next()) else { return None };
        let ty = &parameter.ty;
        let shape: [usize; 4] = ty.shape[..].try_into().ok()?;
        let notes = program.notes.input.as_ref().filter(|n| n.channels.len() == shape[1]);
        (ty.element == Element::F32 && ty.scale == Scale::None).then_some(Input {
            parameter,
            shape,
            notes,
        })
    }

    /// The macros of the header.
    pub(crate) fn header(&self, macros: &str, out: &mut Lines) {
        let [batch, channels, rows, columns] = self.shape;
        let mut text = format!(
            "`{}` is float [{batch}][{channels}][{rows}][{columns}]: batch, channels, rows, columns (NCHW).",
            self.parameter.name
        );
        if self.notes.is_some() {
            text.push_str(
                " An element is (stored / divisor - mean) / deviation with those of its channel, in double and then \
                 rounded to float, where stored is a pixel or what else the data hold.",
            );
        }
        out.line("");
        out.comment(&[text]);
        for (name, value) in [("CHANNELS", channels), ("HEIGHT", rows), ("WIDTH", columns)] {
            out.line(&format!("#define {macros}_INPUT_{name} {value}"));
        }
        if let Some(notes) = self.notes {
            let list = |pick: fn(&(f64, f64)) -> f64| {
                let all: Vec<String> =
                    notes.channels.iter().map(|c| format!("{:?}", pick(c))).collect();
                all.join(", ")
            };
            out.line(&format!("#define {macros}_INPUT_DIVISOR {:?}", notes.divisor));
            out.line(&format!("#define {macros}_INPUT_MEAN {{ {} }}", list(|c| c.0)));
            out.line(&format!("#define {macros}_INPUT_DEVIATION {{ {} }}", list(|c| c.1)));
        }
    }

    /// The constants of the Rust module.
    pub(crate) fn rust(&self, out: &mut String) {
        let Some(notes) = self.notes else { return };
        let list = |pick: fn(&(f64, f64)) -> f64| {
            let all: Vec<String> =
                notes.channels.iter().map(|c| format!("{:?}", pick(c))).collect();
            all.join(", ")
        };
        let channels = notes.channels.len();
        let _ = write!(
            out,
            "/// An element of the input is `(stored / INPUT_DIVISOR - mean) / deviation` with those of its channel, in\n\
             /// f64 and then rounded to f32.\npub const INPUT_DIVISOR: f64 = {:?};\n\
             /// Mean of each channel.\npub const INPUT_MEAN: [f64; {channels}] = [{}];\n\
             /// Deviation of each channel.\npub const INPUT_DEVIATION: [f64; {channels}] = [{}];\n\n",
            notes.divisor,
            list(|c| c.0),
            list(|c| c.1),
        );
    }
}

/// What a header says of the input, the classes and the step sizes, and which parameters are constants.
pub fn header_notes(program: &Program, interface: &Interface) -> String {
    let mut out = Lines::default();
    if let Some(line) = frozen(program) {
        out.line("");
        out.comment(&[line]);
    }
    notes(&mut out, program, interface);
    out.finish()
}

/// The input, the classes and the step sizes, for the header.
pub(crate) fn notes(out: &mut Lines, program: &Program, interface: &Interface) {
    let macros = interface.macros();
    if let Some(input) = Input::of(program, interface) {
        input.header(&macros, out);
    }
    let classes = Evaluation::of(interface).map(|evaluation| evaluation.classes);
    if let Some(names) = classes.and_then(|classes| class_names(program, classes)) {
        out.line("");
        out.comment(&["Names of the classes.".into()]);
        out.line(&format!("#define {macros}_CLASS_NAMES {{ {} }}", names.join(", ")));
    }
    for schedule in Schedule::all(program, interface) {
        schedule.header(out);
    }
    if let Some(indicator) = LossIndicator::of(program, interface) {
        indicator.header(out);
    }
}

/// The names of the classes as string literals of C and Rust; `None` if they are not known.
pub(crate) fn class_names(program: &Program, classes: usize) -> Option<Vec<String>> {
    let names = &program.notes.classes;
    (!names.is_empty() && names.len() <= classes)
        .then(|| names.iter().map(|name| format!("\"{}\"", shown(name))).collect())
}

/// A line that says which parameters are constants; `None` if none is frozen.
pub(crate) fn frozen(program: &Program) -> Option<String> {
    let names: Vec<String> = program.notes.frozen.iter().map(|name| shown(name)).collect();
    (!names.is_empty()).then(|| format!("Constants, which do not train: {}.", names.join(", ")))
}
