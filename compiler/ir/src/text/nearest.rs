//! The word that was meant: for errors about words that are not known.

/// The candidate that is fewest edits (insertions, deletions, replacements) from `word`, if those are few for its length;
/// the first of several.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = (word.chars().count() / 3).clamp(1, 4);
    let found = candidates.into_iter().map(|candidate| (edits(word, candidate), candidate));
    found.filter(|(edits, _)| *edits <= most).min_by_key(|(edits, _)| *edits).map(|(_, word)| word)
}

/// `; did you mean ...?` of [`nearest`], or nothing.
pub fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, candidates).map_or_else(String::new, |word| format!("; did you mean `{word}`?"))
}

/// Levenshtein's distance.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, n) in
            [("", "abc", 3), ("kitten", "sitting", 3), ("relu", "relu", 0), ("abc", "", 3)]
        {
            assert_eq!(edits(a, b), n, "{a} {b}");
        }
    }

    #[test]
    fn only_what_is_near() {
        let words = ["conv2d", "relu", "requantize"];
        assert_eq!(nearest("requantise", words), Some("requantize"));
        assert_eq!(nearest("conv2", words), Some("conv2d"));
        assert_eq!(nearest("pool", words), None);
        assert_eq!(did_you_mean("rellu", words), "; did you mean `relu`?");
    }
}
