//! Random loop kernels: their numbers, how one alone runs again, and that those meant for vectors run as vectors.

use trainc_ir::{Op, TensorType};
use trainc_tests::cases::Case;
use trainc_tests::kernels::kernel;
use trainc_tests::random_loops::random_loops;

use super::targets;

const KERNELS: usize = 600;

/// A variable of the environment: the number of the only kernel that runs.
const ONE_KERNEL: &str = "TRAINC_KERNEL";

/// The kernels.
pub(crate) fn all() -> Vec<Case> {
    match std::env::var(ONE_KERNEL) {
        Ok(number) => vec![random_loops(number.parse().expect("a number"))],
        Err(_) => (0..KERNELS).map(random_loops).collect(),
    }
}

/// What a case is; a loop kernel in C, and how it runs alone.
pub(crate) fn shown(case: &Case) -> String {
    let Op::Loops(loops) = &case.op else { return case.what.clone() };
    let text = trainc_c::function("kernel", &loops.kernel).unwrap_or_else(|error| error);
    let alone = case.what.strip_prefix("random ").map(|n| format!(" ({ONE_KERNEL}={n})"));
    format!("{}{}:\n{text}", case.what, alone.unwrap_or_default())
}

/// Targets that say which loops stay scalar leave few of the walks.
#[test]
fn walks_are_vectors() {
    for target in targets() {
        let (mut walks, mut notes) = (0, Vec::new());
        for case in (0..KERNELS).step_by(6).map(random_loops) {
            let Op::Loops(loops) = &case.op else { continue };
            if !loops.kernel.locals.iter().any(|(name, _)| name == "walk") {
                continue;
            }
            let types: Vec<&TensorType> = case.inputs.iter().map(|x| x.ty()).collect();
            let kernel = kernel(target, "kernel", &case.op, &types);
            let said = kernel.selection.scalar_loops();
            let note = said.into_iter().find(|note| note.starts_with("`walk`"));
            // Machines whose vectors flush small floats to zero have none.
            if !note.as_ref().is_some_and(|note| note.ends_with("vectors compute no floats")) {
                walks += 1;
                notes.extend(note);
            }
        }
        let (name, scalar) = (target.description().name, notes.len());
        let notes = notes.join("\n");
        assert!(3 * scalar < 2 * walks, "{name}: {scalar} of {walks} walks stay scalar:\n{notes}");
    }
}
