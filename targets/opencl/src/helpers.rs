//! The functions that kernels call, each emitted where one does.

/// All of them, blocks apart by empty lines.
const ALL: &str = include_str!("../support/helpers.cl");

/// The exact quotient and square root, with what they use, for tests of them by themselves. But for OpenCL's types and
/// functions on bits they are C.
pub fn floats() -> String {
    let text = needed("trainc_divide trainc_sqrt");
    // C's own types are those of its header.
    let from = text.find("#define").unwrap_or(0);
    text[from..].replace("#define INT32_MAX 2147483647", "")
}

/// What a block of the text defines.
fn defines(block: &str) -> Option<&str> {
    let line =
        block.lines().find(|line| line.starts_with("static ") || line.starts_with("#define "))?;
    let head = line.strip_prefix("#define ").unwrap_or(line);
    let name = head.split('(').next().unwrap_or(head);
    let name = name.trim_end_matches(|c: char| !c.is_alphanumeric() && c != '_');
    match line.starts_with('#') {
        true => head.split(['(', ' ']).next(),
        false => name.split(' ').next_back(),
    }
}

/// Blocks: a comment, then what it is about, functions with their empty lines.
fn blocks() -> Vec<&'static str> {
    ALL.split("\n\n").map(str::trim_end).filter(|block| !block.is_empty()).collect()
}

/// Whether a text mentions a name as a whole word.
fn mentions(text: &str, name: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// The helpers that kernels need, in their order: types always, functions that the kernels mention, and what those mention.
pub(crate) fn needed(kernels: &str) -> String {
    let blocks = blocks();
    let mut used = vec![false; blocks.len()];
    // What a block mentions stands before it.
    for at in (0..blocks.len()).rev() {
        used[at] = defines(blocks[at]).is_none_or(|name| {
            let later = (at + 1..blocks.len()).filter(|&later| used[later]);
            mentions(kernels, name) || later.into_iter().any(|later| mentions(blocks[later], name))
        });
    }
    let chosen: Vec<&str> =
        blocks.iter().zip(&used).filter(|(_, used)| **used).map(|(block, _)| *block).collect();
    chosen.join("\n\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_called_and_what_that_calls() {
        let text = needed("x = trainc_to_integer(y);");
        assert!(
            text.contains("trainc_to_integer(float") && text.contains("INT32_MIN (-2147"),
            "{text}"
        );
        assert!(text.contains("typedef char int8_t") && !text.contains("trainc_sqrt"), "{text}");
        let text = needed("trainc_remainder64");
        assert!(!text.contains("trainc_negate") && !text.contains("divide"), "{text}");
    }

    #[test]
    fn each_block_is_one_definition() {
        let names: Vec<&str> = blocks().into_iter().filter_map(defines).collect();
        assert_eq!(names.len(), blocks().len() - 1, "{names:?}");
        for (at, block) in blocks().iter().enumerate() {
            let starts = block.lines().filter(|l| l.starts_with("static ")).count();
            assert!(starts <= 1, "block {at} has {starts}:\n{block}");
        }
    }
}
