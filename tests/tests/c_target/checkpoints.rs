//! Checkpoints.

use trainc_ir::target::Target;

use crate::support::{SANITIZED, cc, execute, folder, program, write, write_all};

/// What is saved loads again; anything else is refused and changes nothing.
#[test]
fn checkpoints() {
    let digits = program("digits", "niti", 1);
    let other = program("digits", "fp32", 1);
    let folder = folder("checkpoints");
    write_all(&folder, &trainc_c::C.emit(&digits).expect("emitted"));
    // Another model's hash, by its save function.
    let files = trainc_c::C.emit(&other).expect("emitted");
    let source = files.iter().find(|f| f.name == "digits.c").expect("the source");
    let source = String::from_utf8(source.contents.clone()).expect("text");
    let hash = source.split("UINT64_C(").nth(1).and_then(|t| t.split(')').next()).expect("a hash");
    write(
        &folder,
        "main.c",
        format!(
            r#"
#include <stdio.h>
#include <string.h>
#include "digits.h"
#define BYTES DIGITS_CHECKPOINT_BYTES
static _Alignas(16) unsigned char state[DIGITS_STATE_BYTES], first[DIGITS_STATE_BYTES];
static unsigned char checkpoint[BYTES + 1], kept[BYTES];
static int refused(const void *bytes, size_t size, enum trainc_status expected)
{{
    uint64_t step = 77;
    memset(state, 0x5a, sizeof state);
    enum trainc_status status = digits_load(state, &step, bytes, size);
    for (size_t i = 0; i < sizeof state; i++) {{
        if (state[i] != 0x5a) {{
            return 0;
        }}
    }}
    return status == expected && step == 77;
}}
#define CHECK(x) do {{ if (!(x)) {{ printf("line %d: " #x "\n", __LINE__); return 1; }} }} while (0)
int main(void)
{{
    uint64_t step = 0;
    digits_init(first);
    for (size_t i = 0; i < sizeof first; i += 7) {{
        first[i] ^= (unsigned char)i;
    }}
    digits_save(first, UINT64_C(0x123456789a), checkpoint);
    memcpy(kept, checkpoint, BYTES);
    CHECK(digits_load(state, &step, checkpoint, BYTES) == TRAINC_OK);
    CHECK(memcmp(state, first, sizeof state) == 0 && step == UINT64_C(0x123456789a));
    /* The CRC is the common one: that of zlib. */
    fwrite(checkpoint, 1, BYTES, stdout);
    for (size_t size = 0; size < BYTES; size += size < 64 ? 1 : 997) {{
        enum trainc_status why = TRAINC_WRONG_SIZE;
        CHECK(refused(checkpoint, size, why));
    }}
    CHECK(refused(checkpoint, BYTES + 1, TRAINC_WRONG_SIZE));
    for (size_t at = 0; at < BYTES; at += at < 64 ? 1 : 101) {{
        for (int bit = 0; bit < 8; bit++) {{
            checkpoint[at] = (unsigned char)(kept[at] ^ (1 << bit));
            enum trainc_status why = at < 8 ? TRAINC_WRONG_FORMAT : at < 16 ? TRAINC_WRONG_MODEL
                : at >= 24 && at < 28 ? TRAINC_WRONG_SIZE : TRAINC_DAMAGED;
            CHECK(refused(checkpoint, BYTES, why));
        }}
        checkpoint[at] = kept[at];
    }}
    trainc_save(checkpoint, first, DIGITS_STATE_BYTES, UINT64_C({hash}), 1);
    CHECK(refused(checkpoint, BYTES, TRAINC_WRONG_MODEL));
    CHECK(digits_load(state, &step, kept, BYTES) == TRAINC_OK);
    return 0;
}}
"#
        ),
    );
    let mut flags = vec!["-std=c11", "-Wall", "-Wextra", "-Werror"];
    flags.extend(SANITIZED);
    flags.extend(["main.c", "digits.c", "digits_data.c", "trainc_rt.c", "-o", "checkpoints"]);
    cc(&folder, &flags);
    let checkpoint = execute(&folder, "checkpoints", &[]);
    assert_eq!(checkpoint.len(), 32 + digits.memory.state_bytes);
    let mut crc = flate2::Crc::new();
    crc.update(&checkpoint[..28]);
    crc.update(&checkpoint[32..]);
    assert_eq!(checkpoint[28..32], crc.sum().to_le_bytes());
    assert_eq!(checkpoint[..8], *b"TRNC\x01\0\0\0");
}
