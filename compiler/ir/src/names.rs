//! Names in emitted files: the one place that makes a model's names safe to write.
//!
//! A model's file names its tensors and nodes with any text: keywords, control characters, what ends a comment. Whatever
//! of it goes into an emitted file (C, assembly, Rust, CMake, Markdown, IDL, JSON) goes through one of these functions,
//! each of which says where its result may stand.

use std::collections::BTreeSet;

/// Longest name of an artifact: a file's name has room for more, an identifier of old linkers has not.
const LONGEST_PREFIX: usize = 64;

/// What tells a model's name from one that means something else.
const OF_A_MODEL: &str = "_model";

/// Words of C and C++ that cannot name anything in a header of both.
const KEYWORDS: &str = "\
    alignas alignof and and_eq asm atomic_cancel atomic_commit atomic_noexcept auto bitand bitor bool break case \
    catch char char16_t char32_t char8_t class co_await co_return co_yield compl concept const const_cast \
    consteval constexpr constinit continue contract_assert decltype default delete do double dynamic_cast else \
    enum explicit export extern false float for friend goto if inline int long mutable namespace new noexcept \
    not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires restrict \
    return short signed sizeof static static_assert static_cast struct switch synchronized template this \
    thread_local throw true try typedef typeid typename typeof typeof_unqual union unsigned using virtual void \
    volatile wchar_t while xor xor_eq";

/// Types, and macros without arguments, of the C library's headers and of compilers; the rules of [`of_the_library`] have
/// those that form a family.
const LIBRARY: &str = "\
    BIG_ENDIAN BUFSIZ BYTE_ORDER CHAR_BIT DECIMAL_DIG EXIT_FAILURE EXIT_SUCCESS FD_SETSIZE FILE HUGE_VAL \
    HUGE_VALF HUGE_VALL INFINITY LITTLE_ENDIAN L_ctermid L_cuserid L_tmpnam MATH_ERREXCEPT MATH_ERRNO MAX_CANON \
    MAX_INPUT NAN NFDBITS NULL PDP_ENDIAN PIPE_BUF PTHREAD_DESTRUCTOR_ITERATIONS P_tmpdir SEEK_CUR SEEK_END \
    SEEK_SET WCONTINUED WEXITED WNOHANG WNOWAIT WSTOPPED WUNTRACED assert errno i386 linux main math_errhandling \
    max_align_t nullptr_t offsetof ptrdiff_t size_t ssize_t stderr stdin stdout unix";

/// Words that Rust reserves, in lower case.
const RUST_KEYWORDS: &str = "\
    abstract as async await become box break const continue crate do dyn else enum extern false final fn for gen \
    if impl in let loop macro match mod move mut override priv pub ref return self static struct super trait \
    true try type typeof unsafe unsized use virtual where while yield";

/// Stems of files that an artifact's own would hide (headers of libraries, `main.c` of the example), and names that a file
/// cannot have everywhere.
const FILES: &str = "\
    alloca arm_acle arm_neon arm_sve assert aux complex con ctype endian errno features fenv float \
    hexagon_protos hexagon_types hvx_hexagon_protos inttypes iso646 limits locale main malloc math memory nul \
    prn pthread qurt remote setjmp signal stdalign stdarg stdatomic stdbit stdbool stdckdint stddef stdint stdio \
    stdlib stdnoreturn string strings tgmath threads time uchar unistd wchar wctype";

/// Names that a build gives to other targets and libraries: CMake's own, and those that a linker is asked for.
const LIBRARIES: &str = "\
    all all_build c clean dl edit_cache gcc gcc_s help install m package package_source preinstall pthread \
    rebuild_cache rt run_tests stdc test util zero_check";

fn is_one(words: &str, name: &str) -> bool {
    words.split(' ').any(|word| word == name)
}

/// Whether a name of the C library, a compiler or the runtime of emitted code belongs to one of these families:
/// `int8_t`, `UINT32_MAX`, `FLT_DIG`, `EOF` and `ENOMEM`, `M_PI`, `PRIu8`, `trainc_copy`.
fn of_the_library(name: &str) -> bool {
    let upper =
        |text: &str| text.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    let begins = |families: &[&str]| families.iter().any(|family| name.starts_with(family));
    let integer = name.strip_prefix('u').unwrap_or(name);
    (integer.starts_with("int") && name.ends_with("_t"))
        || name.eq_ignore_ascii_case("trainc")
        || begins(&["trainc_", "TRAINC_"])
        || (upper(name)
            && (begins(&["FLT_", "DBL_", "LDBL_", "M_", "FP_", "INT", "UINT"])
                || (name.starts_with('E') && name.len() > 1)
                || ["_MAX", "_MIN"].iter().any(|end| name.ends_with(end))))
        || (begins(&["PRI", "SCN"]) && name[3..].starts_with(['d', 'i', 'o', 'u', 'x', 'X']))
}

/// Whether an identifier means something in C, in C++, in their libraries, or in the runtime of emitted code.
fn is_reserved(name: &str) -> bool {
    is_one(KEYWORDS, name) || is_one(LIBRARY, name) || of_the_library(name)
}

/// An identifier that reads like `text`: ASCII letters, digits and single underscores, with a letter first, and of no
/// meaning in C, C++ or their libraries. It keeps as little as it must, so different texts may give the same identifier;
/// [`unique`] tells them apart.
///
/// For names in C, C++ and IDL, and for symbols.
pub fn identifier(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            result.push(c);
        } else if !result.is_empty() && !result.ends_with('_') {
            result.push('_');
        }
    }
    result.truncate(result.trim_end_matches('_').len());
    if !result.starts_with(|c: char| c.is_ascii_alphabetic()) {
        result.insert(0, 'v');
    }
    if is_reserved(&result) {
        result.push('_');
    }
    result
}

/// [`identifier`], or the same with a number where that is not free.
pub fn free(text: &str, is_free: impl Fn(&str) -> bool) -> String {
    let name = identifier(text);
    if is_free(&name) {
        return name;
    }
    let stem = name.trim_end_matches('_');
    let mut numbered = (2u64..).map(|n| identifier(&format!("{stem}_{n}")));
    numbered.find(|n| is_free(n)).unwrap_or(name)
}

/// [`identifier`], or the same with a number where that is taken.
pub fn unique(text: &str, taken: &BTreeSet<String>) -> String {
    free(text, |name| !taken.contains(name))
}

/// A name as a Rust identifier in snake case.
pub fn snake(name: &str) -> String {
    let mut name = identifier(name).to_ascii_lowercase();
    while name.contains("__") {
        name = name.replace("__", "_");
    }
    if is_one(RUST_KEYWORDS, &name) {
        name.push('_');
    }
    name
}

/// What every symbol, macro and file of an artifact starts with: a program's name as an identifier in lower case.
pub fn prefix(program: &str) -> String {
    let lower = program.to_ascii_lowercase();
    let mut name = identifier(&lower);
    name.truncate(name.trim_end_matches('_').len());
    name.truncate(LONGEST_PREFIX);
    name.truncate(name.trim_end_matches('_').len());
    let device = |kind: &str| name.strip_prefix(kind).is_some_and(|n| n.parse::<u8>().is_ok());
    let taken = is_reserved(&name)
        || is_one(FILES, &name)
        || is_one(RUST_KEYWORDS, &name)
        || device("com")
        || device("lpt");
    // Of the runtime's own names none ends so.
    if taken && !name.ends_with(OF_A_MODEL) {
        name.truncate(LONGEST_PREFIX - OF_A_MODEL.len());
        name.push_str(OF_A_MODEL);
    }
    name
}

/// Checks a name that a user gives to an artifact: it must be its own [`prefix`].
///
/// # Errors
/// What such a name is, and the nearest one.
pub fn check(name: &str) -> Result<(), String> {
    let nearest = prefix(name);
    if nearest == name {
        return Ok(());
    }
    Err(format!(
        "`{}` cannot name an artifact, its files and its symbols: a name has letters from a to z, digits and single \
         underscores, at most {LONGEST_PREFIX}, a letter first, and means nothing in C, C++, Rust or their libraries; \
         `{nearest}` is one",
        shown(name)
    ))
}

/// The name of an artifact's library, which a linker and CMake must not take for one of their own.
pub fn library(prefix: &str) -> String {
    match is_one(LIBRARIES, prefix) {
        true => format!("{prefix}{OF_A_MODEL}"),
        false => prefix.to_string(),
    }
}

/// A name for readers: letters, digits and the punctuation of node names; everything else becomes `_`.
///
/// For comments and quoted strings of every emitted language, and for Markdown between backquotes: nothing of it ends or
/// begins a comment, escapes, joins lines, or is more than text to a preprocessor, an assembler or a format string.
pub fn shown(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:+,=()[]".contains(c);
    name.chars().map(|c| if plain(c) { c } else { '_' }).collect()
}

/// Words of our own with [`shown`] names in them, as a comment of C and of languages like it: the last guard, which
/// changes nothing that is in order.
pub fn comment(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    line.replace('\\', "/").replace("??/", "__/").replace("*/", "*_").replace("/*", "/_")
}

/// A JSON text in ASCII: what is not becomes an escape, so that every string keeps its value and no reader another order
/// of characters.
pub fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() && c != '\u{7f}' {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    }
    out
}

/// A file's name that reads like `text`: letters, digits, `_`, `-` and single points.
pub fn file(text: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let mut name = String::new();
    for c in text.chars() {
        match c {
            '.' if !name.is_empty() && !name.ends_with('.') => name.push('.'),
            c if keep(c) => name.push(c),
            _ => name.push('_'),
        }
    }
    name.truncate(2 * LONGEST_PREFIX);
    if name.is_empty() { "model".into() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every character that means something somewhere, and what some mean together.
    const HOSTILE: &[&str] = &[
        "*/",
        "/*",
        "//",
        "\\\n",
        "\\",
        "\n",
        "\r",
        "\0",
        "\t",
        "\u{b}",
        "\u{7f}",
        "\u{85}",
        "\u{2028}",
        "\u{202e}",
        "\u{feff}",
        "??/",
        "??/\n",
        "??'",
        "?",
        "\"",
        "'",
        "`",
        "```",
        "#",
        ";",
        "%s",
        "%n",
        "$",
        "${x}",
        "@",
        "@PREFIX@",
        "{",
        "}",
        "<",
        ">",
        "<!--",
        "|",
        "&",
        "^",
        "~",
        "!",
        "\u{e9}",
        "\u{1f600}",
        " ",
        "\t#include",
        "*",
        "/",
        "}}",
        "{{",
    ];

    #[test]
    fn identifiers() {
        for (text, expected) in [
            ("conv1", "conv1"),
            ("/features/0/Conv_output_0", "features_0_Conv_output_0"),
            ("conv1.weight", "conv1_weight"),
            ("a//b::c", "a_b_c"),
            ("trailing/", "trailing"),
            ("12", "v12"),
            ("", "v"),
            ("\u{fc}ber", "ber"),
            ("float", "float_"),
            ("class", "class_"),
            ("NULL", "NULL_"),
            ("INT32_MAX", "INT32_MAX_"),
            ("int8_t", "int8_t_"),
            ("trainc_copy", "trainc_copy_"),
            ("__reserved", "reserved"),
            // Of no meaning, so left as they are.
            ("X", "X"),
            ("E", "E"),
            ("INPUT", "INPUT"),
            ("input_t", "input_t"),
            ("print", "print"),
        ] {
            assert_eq!(identifier(text), expected, "{text}");
        }
    }

    #[test]
    fn nothing_passes_that_is_more_than_text() {
        for a in HOSTILE {
            for b in HOSTILE {
                let text = format!("x{a}{b}y");
                let safe = |c: char| c.is_ascii_alphanumeric() || c == '_';
                assert!(identifier(&text).chars().all(safe), "{text:?}");
                assert!(prefix(&text).chars().all(safe), "{text:?}");
                let shown = shown(&text);
                let bad = |c: char| !(c.is_ascii_graphic()) || "*\\?\"'`#;%$@{}<>|&^~!".contains(c);
                assert!(!shown.contains(bad), "{text:?}: {shown}");
                assert_eq!(comment(&shown), shown);
                let comment = comment(&text);
                for end in ["*/", "/*", "\\", "??/", "\n", "\r"] {
                    assert!(!comment.contains(end), "{text:?}: {comment:?}");
                }
                assert!(json(&text).is_ascii());
                assert!(!file(&text).contains(['/', '\\', '\n']) && !file(&text).contains(".."));
            }
        }
    }

    #[test]
    fn equal_identifiers_get_numbers() {
        let mut taken = BTreeSet::new();
        let mut take = |text: &str| {
            let name = unique(text, &taken);
            assert!(taken.insert(name.clone()), "{name}");
            name
        };
        assert_eq!(take("a/b"), "a_b");
        assert_eq!(take("a.b"), "a_b_2");
        assert_eq!(take("NULL"), "NULL_");
        assert_eq!(take("NULL/"), "NULL_2");
        assert_eq!(take("M/PI"), "M_PI_");
        // A macro, too.
        assert_eq!(take("M_PI"), "M_PI_2_");
    }

    #[test]
    fn prefixes_of_files_and_symbols() {
        for (text, expected) in [
            ("LeNet-5", "lenet_5"),
            ("main", "main_model"),
            ("trainc", "trainc_model"),
            ("trainc_rt", "trainc_rt_model"),
            ("stdint", "stdint_model"),
            // As a plan names its program.
            ("float_", "float_model"),
            ("com1", "com1_model"),
            ("crate", "crate_model"),
            ("compute", "compute"),
            ("trainc_model", "trainc_model"),
        ] {
            assert_eq!(prefix(text), expected, "{text}");
            assert_eq!(prefix(&prefix(text)), prefix(text), "{text}");
        }
        assert_eq!(prefix(&"n".repeat(300)).len(), LONGEST_PREFIX);
        assert_eq!((library("test"), library("lenet")), ("test_model".into(), "lenet".into()));
    }

    #[test]
    fn a_user_s_name() {
        for good in ["lenet", "net_2", "a"] {
            assert_eq!(check(good), Ok(()));
        }
        for (bad, near) in [
            ("LeNet", "lenet"),
            ("my net", "my_net"),
            ("2nd", "v2nd"),
            ("", "v"),
            ("../x", "x"),
            ("while", "while_model"),
            ("a__b", "a_b"),
            ("net\n", "net"),
        ] {
            let error = check(bad).expect_err(bad);
            assert!(error.contains(&format!("`{near}` is one")), "{error}");
            assert_eq!(check(near), Ok(()), "{near}");
        }
    }

    #[test]
    fn rust_and_json() {
        assert_eq!(snake("learning_rate"), "learning_rate");
        assert_eq!(snake("X1"), "x1");
        for word in ["type", "Self", "match", "crate"] {
            assert_eq!(snake(word), format!("{}_", word.to_ascii_lowercase()));
        }
        assert_eq!(json("\"\u{e9}\u{1f600}\u{7f}\""), "\"\\u00e9\\ud83d\\ude00\\u007f\"");
    }
}
