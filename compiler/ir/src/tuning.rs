//! What of an artifact may be chosen on the device that runs it: how each kernel is launched. Results are the same whatever is.

use std::fmt;

/// A way to launch a kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// The kernel's variant by number, 0 for itself, and its name.
    pub variant: usize,
    /// What the variant is called; empty for the kernel itself.
    pub name: String,
    /// Work items of a group along each dimension; `None` leaves it to the driver.
    pub group: Option<[u32; 3]>,
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let between = if self.name.is_empty() { "" } else { " " };
        write!(f, "{}{between}", self.name)?;
        match self.group {
            None => write!(f, "driver"),
            Some([x, y, z]) => write!(f, "{x}x{y}x{z}"),
        }
    }
}

/// A kernel with the ways to launch it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tunable {
    /// The kernel's name in the source.
    pub kernel: String,
    /// The ways; the first is taken unless another is chosen. A kernel that is not launched by itself has none.
    pub candidates: Vec<Candidate>,
}

/// All kernels of an artifact, and how a choice is written and tried.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tuning {
    /// The kernels in the order of the artifact's table.
    pub tunables: Vec<Tunable>,
    /// The artifact's file that holds the choice.
    pub file: String,
    /// A flag for the compiler of the artifact's sources where choices are tried: the program then takes one a call from the
    /// file that [`Tuning::PLAN`] names and writes times to the one that [`Tuning::TIMES`] names.
    pub flag: &'static str,
    /// Sources beside the program that do so, by name and contents.
    pub support: Vec<(String, String)>,
}

impl Tuning {
    /// Variable of the environment with the file of the choices to try: for each call a line for each kernel, of the variant's
    /// number and the group's work items, all 0 for the driver's. Without it kernels are launched as the artifact says.
    pub const PLAN: &str = "TRAINC_TUNING_PLAN";
    /// Variable of the environment with the file of times: a line with the device's name, then one a call of nanoseconds, of the
    /// whole call, of each kernel and, behind `|`, of each launch that ran (`NUMBER:NANOSECONDS`). A choice that the device
    /// refuses takes `-`.
    pub const TIMES: &str = "TRAINC_TUNING_TIMES";

    /// A line for each kernel: a choice by positions among the candidates.
    pub fn lines(&self, choice: &[usize]) -> Vec<String> {
        let line = |(tunable, at): (&Tunable, &usize)| {
            let chosen = tunable.candidates.get(*at);
            let [x, y, z] = chosen.and_then(|c| c.group).unwrap_or_default();
            format!("{} {x} {y} {z}", chosen.map_or(0, |c| c.variant))
        };
        self.tunables.iter().zip(choice).map(line).collect()
    }

    /// The contents of the artifact's file for a choice by positions among the candidates; `device` is where it was made.
    pub fn contents(&self, choice: &[usize], device: Option<&str>) -> String {
        let by = match device {
            Some(device) => {
                format!("Chosen by trainc tune on: {}.", crate::names::comment(device))
            }
            None => "As the driver likes; `trainc tune` tries what the device likes.".to_string(),
        };
        let mut text = format!(
            "/* How each kernel is launched: the number of a variant of it, and the work items of a group along each dimension (0: the\n   \
             driver's choice). Results are the same whatever stands here.\n   {by} */\n"
        );
        for (tunable, line) in self.tunables.iter().zip(self.lines(choice)) {
            let numbers: Vec<&str> = line.split(' ').collect();
            let [variant, x, y, z] = numbers[..] else { continue };
            text.push_str(&format!(
                "{{ {variant}, {{ {x}, {y}, {z} }} }}, /* {} */\n",
                tunable.kernel
            ));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_as_lines() {
        let own = Candidate { variant: 0, name: String::new(), group: None };
        let other = Candidate { variant: 1, name: "tiled".into(), group: Some([4, 16, 1]) };
        assert_eq!((own.to_string(), other.to_string()), ("driver".into(), "tiled 4x16x1".into()));
        let tunables = vec![
            Tunable { kernel: "product".into(), candidates: vec![own, other] },
            Tunable { kernel: "product_tiled".into(), candidates: vec![] },
        ];
        let tuning = Tuning { tunables, file: "x.h".into(), flag: "", support: vec![] };
        assert_eq!(tuning.lines(&[1, 0]), ["1 4 16 1", "0 0 0 0"]);
        let text = tuning.contents(&[0, 0], Some("a */ b"));
        assert!(text.contains("{ 0, { 0, 0, 0 } }, /* product */\n"), "{text}");
        assert!(text.contains("on: a *_ b. */"), "{text}");
    }
}
