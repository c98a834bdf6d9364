//! The indicator of the loss that says which training step runs: what it keeps, and its functions, in C and Rust.

use std::fmt::Write as _;

use trainc_ir::indicator::Indicator;
use trainc_ir::program::{Program, StageChoice};

use crate::interface::Interface;
use crate::layout::Lines;
use crate::schedule::Schedule;

/// The indicator of a program whose stages follow the loss.
#[derive(Debug)]
pub(crate) struct LossIndicator<'p> {
    own: &'p Indicator,
    /// `PREFIX_indicator`.
    pub(crate) ty: String,
    /// `PREFIX_stage`.
    pub(crate) stage: String,
    macros: String,
    /// What the numbers of stages mean.
    subject: String,
}

impl<'p> LossIndicator<'p> {
    /// That of a program's notes; `None` if it has none, or an entry's function has its name.
    pub(crate) fn of(program: &'p Program, interface: &Interface) -> Option<LossIndicator<'p>> {
        let StageChoice::Indicator(own) = &program.notes.stages.as_ref()?.choice else {
            return None;
        };
        let [ty, stage] = ["indicator", "stage"].map(|name| format!("{}_{name}", interface.prefix));
        let taken = |name: &String| interface.functions.iter().any(|f| f.symbol == *name);
        let fits = own.check(usize::MAX).is_ok() && !taken(&ty) && !taken(&stage);
        fits.then(|| LossIndicator {
            own,
            ty,
            stage,
            macros: interface.macros(),
            subject: Schedule::stages(program, interface),
        })
    }

    /// What it starts with, in C.
    pub(crate) fn start(&self) -> String {
        format!("{}_INDICATOR", self.macros)
    }

    fn numbers(&self) -> String {
        self.own.order.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
    }

    /// The type and the functions, for the header.
    pub(crate) fn header(&self, out: &mut Lines) {
        let Indicator { order, epochs, threshold, decay, decays, .. } = self.own;
        let (ty, stage, average, last) = (&self.ty, &self.stage, self.own.average, order.len() - 1);
        out.line("");
        out.comment(&[
            format!("The {}.", self.subject),
            "They follow the loss: what is kept of it, to be saved beside a checkpoint.".into(),
        ]);
        out.open("typedef struct {");
        out.comment(&["The last losses of the present stage, oldest first, and how many.".into()]);
        out.line(&format!("float losses[{epochs}];"));
        out.line("uint32_t count;");
        out.comment(&["Epochs so far; the sum of the first losses.".into()]);
        out.line("uint32_t epochs;");
        out.line("float sum;");
        out.comment(&[
            "How near losses are when the next stage begins; how many have ended.".into()
        ]);
        out.line("float threshold;");
        out.line("uint32_t position;");
        out.close(&format!("}} {ty};"));
        out.line("");
        out.comment(&["Before the first epoch.".into()]);
        out.line(&format!(
            "#define {} {{ {{ 0.0f }}, 0, 0, 0.0f, {threshold:?}f, 0 }}",
            self.start()
        ));
        out.line("");
        out.comment(&["The stage that the training is in.".into()]);
        out.open_function(&format!("static inline int32_t {stage}(const {ty} *indicator)"));
        out.line(&format!(
            "static const int32_t order[{}] = {{ {} }};",
            order.len(),
            self.numbers()
        ));
        out.line(&format!(
            "return order[indicator->position < {last} ? indicator->position : {last}];"
        ));
        out.close("}");
        out.line("");
        out.comment(&[
            "Takes the mean loss of an epoch (or the sums of steps' losses, if all epochs are as long):".into(),
            format!("{epochs} that are near to the newest begin the next stage."),
        ]);
        out.open_function(&format!("static inline void {ty}_take({ty} *indicator, float loss)"));
        out.open(&format!("if (indicator->epochs < {average}) {{"));
        out.line("indicator->epochs++;");
        out.line("indicator->sum += loss;");
        out.close("}");
        out.open(&format!("if (indicator->count == {epochs}) {{"));
        out.open(&format!("for (uint32_t i = 1; i < {epochs}; i++) {{"));
        out.line("indicator->losses[i - 1] = indicator->losses[i];");
        out.close("}");
        out.line("indicator->count--;");
        out.close("}");
        out.line("indicator->losses[indicator->count++] = loss;");
        out.line(&format!(
            "uint32_t near = indicator->count == {epochs} && indicator->position < {last};"
        ));
        out.line("const float bound = indicator->threshold * indicator->sum;");
        out.open("for (uint32_t i = 0; near && i < indicator->count; i++) {");
        out.line("const float other = indicator->losses[i];");
        out.line("const float apart = other > loss ? other - loss : loss - other;");
        out.line("near = apart * (float)indicator->epochs <= bound;");
        out.close("}");
        out.open("if (near) {");
        out.line("indicator->position++;");
        out.line("indicator->count = 0;");
        out.open(&format!("if (indicator->position <= {decays}) {{"));
        out.line(&format!("indicator->threshold *= {decay:?}f;"));
        out.close("}");
        out.close("}");
        out.close("}");
    }

    /// The type and its functions, for the Rust module.
    pub(crate) fn rust(&self, out: &mut String) {
        let Indicator { order, epochs, threshold, decay, decays, .. } = self.own;
        let (average, last, stages) = (self.own.average, order.len() - 1, self.numbers());
        let _ = write!(
            out,
            "/// The {}.\n\
             /// They follow the loss: what is kept of it, to be saved beside a checkpoint.\n\
             #[derive(Clone, Copy, PartialEq, Debug)]\n\
             pub struct Indicator {{\n    \
             /// The last losses of the present stage, oldest first.\n    pub losses: [f32; {epochs}],\n    \
             /// How many these are.\n    pub count: u32,\n    \
             /// Epochs so far, as far as their losses are summed.\n    pub epochs: u32,\n    \
             /// The sum of these losses.\n    pub sum: f32,\n    \
             /// How near losses are when the next stage begins.\n    pub threshold: f32,\n    \
             /// Stages that have ended.\n    pub position: u32,\n}}\n\n\
             impl Indicator {{\n    \
             /// Before the first epoch.\n    \
             pub const START: Indicator = Indicator {{\n        losses: [0.0; {epochs}],\n        count: 0,\n        \
             epochs: 0,\n        sum: 0.0,\n        threshold: {threshold:?},\n        position: 0,\n    }};\n\n    \
             /// The stage that the training is in.\n    \
             pub fn stage(&self) -> i32 {{\n        [{stages}][(self.position as usize).min({last})]\n    }}\n\n    \
             /// Takes the mean loss of an epoch: {epochs} that are near to the newest begin the next stage.\n    \
             pub fn take(&mut self, loss: f32) {{\n        \
             if self.epochs < {average} {{\n            self.epochs += 1;\n            self.sum += loss;\n        }}\n        \
             if self.count == {epochs} {{\n            self.losses.copy_within(1.., 0);\n            self.count -= 1;\n        }}\n        \
             self.losses[self.count as usize] = loss;\n        self.count += 1;\n        \
             let bound = self.threshold * self.sum;\n        let mut near = self.count == {epochs} && self.position < {last};\n        \
             for other in self.losses {{\n            let apart = if other > loss {{ other - loss }} else {{ loss - other }};\n            \
             near &= apart * self.epochs as f32 <= bound;\n        }}\n        \
             if near {{\n            self.position += 1;\n            self.count = 0;\n            \
             if self.position <= {decays} {{\n                self.threshold *= {decay:?};\n            }}\n        }}\n    }}\n}}\n\n",
            self.subject,
        );
    }
}
