//! The registry of targets: one line each.

use trainc_ir::target::Target;

use crate::error::{Context, Result};

/// Every target that this build has, in the order of listings.
pub static TARGETS: &[&dyn Target] = &[
    #[cfg(feature = "host")]
    &trainc_host::HOST,
    &trainc_c::C,
    &trainc_neon::NEON,
    &trainc_neon::DOTPROD,
    &trainc_neon::I8MM,
    &trainc_neon::DISPATCH,
    &trainc_neon::ARMV7,
    &trainc_opencl::OPENCL,
    #[cfg(feature = "hvx")]
    &trainc_hvx::HVX,
    #[cfg(feature = "hvx")]
    &trainc_hvx::V62,
    #[cfg(feature = "hvx")]
    &trainc_hvx::V68,
    #[cfg(feature = "hvx")]
    &trainc_hvx::V73,
    #[cfg(feature = "hvx")]
    &trainc_pair::NEON_HVX,
    #[cfg(feature = "xpulpv2")]
    &trainc_xpulpv2::XPULPV2,
];

/// The target of that name.
///
/// # Errors
/// If there is none; the message lists those there are.
pub fn find(name: &str) -> Result<&'static dyn Target> {
    TARGETS.iter().copied().find(|t| t.description().name == name).with_context(|| {
        let names: Vec<&str> = TARGETS.iter().map(|t| t.description().name).collect();
        let hint = match name {
            "host" => " (`host` needs the cargo feature `host`)",
            _ if name.starts_with("hvx") => " (Hexagon needs the cargo feature `hvx`)",
            "xpulpv2" => " (`xpulpv2` needs the cargo feature `xpulpv2`)",
            _ => "",
        };
        format!("there is no target `{name}`; there are {}{hint}", names.join(", "))
    })
}

/// The C compiler's flags for a target's sources (GCC, Clang); `None` if it emits no C.
pub fn compiler_flags(name: &str) -> Option<Vec<&'static str>> {
    TARGETS.iter().find(|t| t.description().name == name)?.compiler_flags()
}

/// The libraries that a target's artifacts are linked with.
pub fn libraries(name: &str) -> &'static [&'static str] {
    TARGETS.iter().find(|t| t.description().name == name).map_or(&[], |t| t.libraries())
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
