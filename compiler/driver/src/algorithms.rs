//! Algorithms by name or file.

use std::path::Path;

pub use trainc_opt::algorithm::optimizer::{OPTIMIZERS, Optimizer};
use trainc_opt::algorithm::{Algorithm, BUILT_IN, Recipe};
pub use trainc_opt::coverage::state_of_weights;

use crate::error::{Context, InFile, Result};
use crate::hash::Fingerprint;

/// Whether an algorithm's name is the path of a TOML file: it ends in `.toml`, or has `/` or `\`.
pub fn is_path(name: &str) -> bool {
    name.ends_with(".toml") || name.contains(['/', '\\'])
}

/// The algorithm of that built-in name, or in the TOML file at that path ([`is_path`]).
///
/// # Errors
/// If there is none of that name, or the file cannot be read or is not an algorithm.
pub fn load(name: &str) -> Result<Algorithm> {
    if !is_path(name) {
        return Ok(Algorithm::built_in(name)?);
    }
    let path = Path::new(name);
    let text = std::fs::read_to_string(path)
        .map_err(|e| InFile::new(path, format!("cannot read: {e}")))?;
    Algorithm::parse(name, &text)
        .map_err(|e| InFile { file: name.to_string(), message: e.to_string(), node: None })
        .context("the algorithm file")
}

/// Fingerprint of an algorithm's text, and of the optimizer and the recipe that were chosen for it.
pub fn hash(algorithm: &Algorithm) -> String {
    let chosen = algorithm.chosen.as_deref().unwrap_or_default();
    let recipe = match algorithm.recipe == Recipe::default() {
        true => String::new(),
        false => format!("{:?}", algorithm.recipe),
    };
    let hash = Fingerprint::new().add(algorithm.text.as_bytes());
    hash.add(chosen.as_bytes()).add(recipe.as_bytes()).text()
}

/// Every built-in algorithm, in the order of listings.
///
/// # Errors
/// If a built-in file does not parse: a bug.
pub fn built_in() -> Result<Vec<Algorithm>> {
    BUILT_IN.iter().map(|(name, _)| Ok(Algorithm::built_in(name)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_files() {
        assert_eq!(load("niti").unwrap().name, "niti");
        let unknown = load("nitti").unwrap_err().to_string();
        assert!(unknown.contains("nitti") && unknown.contains("niti"), "{unknown}");
        let missing = load("no/such.toml").unwrap_err().to_string();
        assert!(missing.contains("no/such.toml"), "{missing}");
        assert_eq!(built_in().unwrap().len(), BUILT_IN.len());
    }
}
