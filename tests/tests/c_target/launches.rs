//! What entries pass to kernels.

use trainc_ir::target::Target;
use trainc_tests::programs::program;

use crate::support::text;

/// The C of an entry, and of the kernels before it.
fn parts(target: &dyn Target, model: &str, algorithm: &str) -> (String, String) {
    let files = target.emit(&program(model, algorithm, 2, target)).expect("the program is emitted");
    let source = text(&files, &format!("{model}.c"));
    let entry = source.find("/* Entry `train_step`").expect("an entry");
    let (kernels, entry) = source.split_at(entry);
    let end = entry.find("\n}\n").expect("its end");
    (kernels.to_string(), entry[..end].to_string())
}

/// Launches pass one pointer for elements and exponent, on every target of C.
#[test]
fn exponents_are_found_behind_elements() {
    let targets: [&dyn Target; 4] =
        [&trainc_c::C, &trainc_neon::NEON, &trainc_neon::DOTPROD, &trainc_xpulpv2::XPULPV2];
    for target in targets {
        let name = target.description().name;
        let (kernels, entry) = parts(target, "lenet5", "niti");
        let passed = ["_exponent,", "_exponent)", "_exponent ="];
        assert!(!passed.iter().any(|text| entry.contains(text)), "{name}: {entry}");
        // Of [2, 120] bytes.
        let found = "const int32_t *const x0_exponent = (const int32_t *)(const void *)(x0 + 240);";
        assert!(kernels.contains(found), "{name}");
    }
}

/// Uniform bits are drawn by a function, not step by step.
#[test]
fn uniform_bits_are_drawn_by_a_function() {
    let (kernels, _) = parts(&trainc_c::C, "lenet5", "niti");
    let draws = kernels.matches("trainc_draw(run, ").count();
    assert!(draws > 0, "{kernels}");
    let multiplier = trainc_ir::random::PHILOX_M0.to_string();
    assert!(!kernels.contains(&multiplier), "{kernels}");
}
