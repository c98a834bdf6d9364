/* Elementwise functions by their tables: the entry of each code, by tbl of AArch64, which looks up 64 bytes. */
#ifndef TRAINC_NEON_LOOKUP_H
#define TRAINC_NEON_LOOKUP_H

#include "trainc_neon.h"

#ifdef __aarch64__
/* results[i] = the table's entry of codes[i], of which the first is that of zero, or (of signed codes) of -128.
 * results may be codes. */
TRAINC_SINGLE void trainc_lookups(const uint8_t *table, const uint8_t *codes, int32_t count,
    int32_t signed_codes, uint8_t *results)
{
    /* By the byte that a code is, negative ones come last. */
    const uint8_t *const low = signed_codes ? table + 128 : table;
    const uint8_t *const high = signed_codes ? table : table + 128;
    const uint8x16x4_t t0 = vld1q_u8_x4(low), t1 = vld1q_u8_x4(low + 64);
    const uint8x16x4_t t2 = vld1q_u8_x4(high), t3 = vld1q_u8_x4(high + 64);
    const uint8x16_t quarter = vdupq_n_u8(64);
    /* Codes beyond a quarter are zero of the first and what they are of the others. */
#define TRAINC_LOOKUP(result, of)              \
    {                                          \
        uint8x16_t at = of;                    \
        result = vqtbl4q_u8(t0, at);           \
        at = vsubq_u8(at, quarter);            \
        result = vqtbx4q_u8(result, t1, at);   \
        at = vsubq_u8(at, quarter);            \
        result = vqtbx4q_u8(result, t2, at);   \
        at = vsubq_u8(at, quarter);            \
        result = vqtbx4q_u8(result, t3, at);   \
    }
    for (; count >= 64; count -= 64) {
        uint8x16_t q0, q1, q2, q3;
        TRAINC_LOOKUP(q0, vld1q_u8(codes))
        TRAINC_LOOKUP(q1, vld1q_u8(codes + 16))
        vst1q_u8(results, q0);
        vst1q_u8(results + 16, q1);
        TRAINC_LOOKUP(q2, vld1q_u8(codes + 32))
        TRAINC_LOOKUP(q3, vld1q_u8(codes + 48))
        vst1q_u8(results + 32, q2);
        vst1q_u8(results + 48, q3);
        codes += 64;
        results += 64;
        TRAINC_OPAQUE(codes);
        TRAINC_OPAQUE(results);
    }
    for (; count >= 16; count -= 16) {
        uint8x16_t q;
        TRAINC_LOOKUP(q, vld1q_u8(codes))
        vst1q_u8(results, q);
        codes += 16;
        results += 16;
    }
#undef TRAINC_LOOKUP
    const int32_t other = signed_codes ? 128 : 0;
    for (; count > 0; count--) {
        *results++ = table[*codes++ ^ other];
    }
}
#endif

#endif
