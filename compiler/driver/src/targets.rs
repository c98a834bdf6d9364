//! The registry of targets: one line each.

use trainc_ir::target::Target;

/// Every target that this build has, in the order of listings.
pub static TARGETS: &[&dyn Target] = &[
    #[cfg(feature = "host")]
    &trainc_host::HOST,
    &trainc_c::C,
    &trainc_neon::NEON,
    &trainc_neon::DOTPROD,
    &trainc_neon::I8MM,
    &trainc_neon::ARMV7,
];

/// The target of that name.
///
/// # Errors
/// If there is none; the message lists those there are.
pub fn find(name: &str) -> anyhow::Result<&'static dyn Target> {
    TARGETS.iter().copied().find(|t| t.description().name == name).ok_or_else(|| {
        let names: Vec<&str> = TARGETS.iter().map(|t| t.description().name).collect();
        anyhow::anyhow!("there is no target `{name}`; there are {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for target in TARGETS {
            let name = target.description().name;
            assert_eq!(TARGETS.iter().filter(|t| t.description().name == name).count(), 1);
            assert_eq!(find(name).unwrap().description(), target.description());
        }
        let error = find("abacus").err().unwrap().to_string();
        assert!(error.contains("abacus") && error.contains("c"), "{error}");
    }
}
