//! The schedule of step sizes as a table, and the function that gives a step's size.

use std::fmt::Write as _;

use trainc_ir::graph::InputRole;
use trainc_ir::program::Program;
use trainc_ir::{Element, Scale};

use crate::fraction::Fraction;
use crate::interface::Interface;
use crate::layout::Lines;

/// The step sizes of a program that trains by one scalar step size.
#[derive(Debug)]
pub(crate) struct Schedule<'p> {
    /// `PREFIX_learning_rate`.
    pub(crate) symbol: String,
    macros: String,
    /// Whether step sizes are integers (i32); else they are f32.
    integer: bool,
    points: &'p [(f64, f64)],
}

impl<'p> Schedule<'p> {
    /// The schedule of a program's notes; `None` if it has none, takes no step size, or has a function of that name, or if
    /// what it gives are not fractions.
    pub(crate) fn of(program: &'p Program, interface: &Interface) -> Option<Schedule<'p>> {
        let symbol = format!("{}_learning_rate", interface.prefix);
        let mut all = interface.functions.iter().flat_map(|f| &f.parameters);
        let rate = all.find(|p| p.role == InputRole::LearningRate)?;
        let plain = rate.ty.count() == 1 && rate.ty.scale == Scale::None;
        let integer = rate.ty.element == Element::I32;
        let known = integer || rate.ty.element == Element::F32;
        let taken = interface.functions.iter().any(|f| f.symbol == symbol);
        let points = &program.notes.schedule[..];
        let fractions = points.iter().all(|(from, _)| (0.0..=1.0).contains(from));
        (plain && known && !taken && !points.is_empty() && fractions).then(|| Schedule {
            symbol,
            macros: interface.macros(),
            integer,
            points,
        })
    }

    /// A step size as C writes it.
    fn c_size(&self, size: f64) -> String {
        if self.integer { format!("{}", size as i32) } else { format!("{:?}f", size as f32) }
    }

    /// The table and the function, for the header.
    pub(crate) fn header(&self, out: &mut Lines) {
        let macros = &self.macros;
        let table: Vec<String> = self
            .points
            .iter()
            .map(|&(from, size)| format!("{{ {from:?}, {} }}", self.c_size(size)))
            .collect();
        out.line("");
        out.comment(&[
            "The schedule of step sizes: from which fraction of the training on, and the size."
                .into(),
        ]);
        out.line(&format!("#define {macros}_SCHEDULE_POINTS {}", table.len()));
        out.line(&format!("#define {macros}_SCHEDULE {{ {} }}", table.join(", ")));
        out.line("");
        out.comment(&[
            "The schedule's size for a step (from 0) of a training of so many steps: exact, by integers"
                .into(),
            "that neither wrap nor divide.".into(),
        ]);
        let element = if self.integer { "int32_t" } else { "float" };
        out.open_function(&format!(
            "static inline {element} {}(uint32_t step, uint32_t steps)",
            self.symbol
        ));
        match self.points {
            [(_, size)] => {
                out.line("(void)step;");
                out.line("(void)steps;");
                out.line(&format!("return {};", self.c_size(*size)));
            }
            points => {
                out.line("const uint64_t all = steps > 0 ? steps : 1;");
                for &(from, size) in points.iter().skip(1).rev() {
                    let Fraction { numerator, denominator } = Fraction::reached(from);
                    let reached = format!("(uint64_t)step * {denominator}u >= all * {numerator}u");
                    out.open(&format!("if ({reached}) {{"));
                    out.line(&format!("return {};", self.c_size(size)));
                    out.close("}");
                }
                out.line(&format!("return {};", self.c_size(points[0].1)));
            }
        }
        out.close("}");
    }

    /// `SCHEDULE` and `learning_rate`, for the Rust module.
    pub(crate) fn rust(&self, out: &mut String) {
        let ty = if self.integer { "i32" } else { "f32" };
        let value = |size: f64| match self.integer {
            true => format!("{}", size as i32),
            false => format!("{:?}", size as f32),
        };
        let points: Vec<String> = self
            .points
            .iter()
            .map(|&(from, size)| format!("({from:?}, {})", value(size)))
            .collect();
        let mut body = String::new();
        match self.points {
            [_] => body.push_str("    let _ = (step, steps);\n"),
            points => {
                body.push_str(
                    "    let (step, all) = (u64::from(step), u64::from(steps.max(1)));\n",
                );
                for (index, &(from, _)) in points.iter().enumerate().skip(1).rev() {
                    let Fraction { numerator, denominator } = Fraction::reached(from);
                    let _ = write!(
                        body,
                        "    if step * {denominator} >= all * {numerator} {{\n        \
                         return SCHEDULE[{index}].1;\n    }}\n"
                    );
                }
            }
        }
        let _ = write!(
            out,
            "/// Step sizes: from which fraction of the training on, and the size.\n\
             pub const SCHEDULE: [(f64, {ty}); {}] = [{}];\n\n\
             /// The size of [`SCHEDULE`] for a step (from 0) of a training of so many steps: exact, by integers that\n\
             /// neither wrap nor divide.\n\
             pub fn learning_rate(step: u32, steps: u32) -> {ty} {{\n{body}    SCHEDULE[0].1\n}}\n\n",
            points.len(),
            points.join(", "),
        );
    }
}
