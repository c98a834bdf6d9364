/* Each function of trainc_xpulp.h on extreme and random operands: words of results. */
#include "trainc_xpulp.h"

#ifdef __riscv
#include "host.h"
#define PUT(place, bytes) host_write(place, bytes)
#else
#include <stdio.h>
#define PUT(place, bytes) fwrite(place, 1, bytes, stdout)
#endif

enum { EXTREMES = 12, ROUNDS = EXTREMES * EXTREMES + 2000 };

static const uint32_t extremes[EXTREMES] = { 0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0x80808080,
    0x7f7f7f7f, 0x01010101, 0x80007fff, 0x0000ff80, 0xff7f0180, 0x00ff00ff };

static uint32_t next(void)
{
    static uint32_t at = 2463534242u;
    at ^= at << 13;
    at ^= at >> 17;
    at ^= at << 5;
    return at;
}

static uint32_t results[ROUNDS];

#define EACH(name, value) \
    for (int32_t i = 0; i < ROUNDS; i++) { \
        const uint32_t a = i < EXTREMES * EXTREMES ? extremes[i / EXTREMES] : next(); \
        const uint32_t b = i < EXTREMES * EXTREMES ? extremes[i % EXTREMES] : next(); \
        const uint32_t d = i < EXTREMES * EXTREMES ? extremes[(i * 7) % EXTREMES] : next(); \
        (void)a; \
        (void)b; \
        (void)d; \
        results[i] = value; \
    } \
    PUT(results, sizeof results);
#define TWO(name) EACH(name, trainc_xpulp_##name(a, b))
#define THREE(name) EACH(name, trainc_xpulp_##name(d, a, b))

int main(void)
{
    TWO(dotup_b)
    TWO(dotusp_b)
    TWO(dotsp_b)
    THREE(sdotup_b)
    THREE(sdotusp_b)
    THREE(sdotsp_b)
    THREE(sdotsp_h)
    TWO(add_b)
    TWO(sub_b)
    TWO(min_b)
    TWO(minu_b)
    TWO(max_b)
    TWO(maxu_b)
    EACH(srl_b, trainc_xpulp_srl_b(a, b & 0x07070707))
    EACH(sra_b, trainc_xpulp_sra_b(a, b & 0x07070707))
    EACH(sll_b, trainc_xpulp_sll_b(a, b & 0x07070707))
    EACH(shuffle_b, trainc_xpulp_shuffle_b(a, b & 0x03030303))
    EACH(shuffle2_b, trainc_xpulp_shuffle2_b(d, a, b & 0x07070707))
    TWO(pack_h)
    THREE(packlo_b)
    THREE(packhi_b)
    TWO(min)
    TWO(minu)
    TWO(max)
    TWO(maxu)
    EACH(clipr, trainc_xpulp_clipr(a, b & 0x7fffffff))
    EACH(clipur, trainc_xpulp_clipur(a, b & 0x7fffffff))
    THREE(mac)
    THREE(msu)
    EACH(abs, trainc_xpulp_abs(a))
    EACH(highest, (uint32_t)trainc_xpulp_highest(a))
    EACH(room, (uint32_t)trainc_xpulp_room(a))
    EACH(extract 1 at 0, trainc_xpulp_extract(a, 1, 0))
    EACH(extract 4 at 28, trainc_xpulp_extract(a, 4, 28))
    EACH(extract 32 at 0, trainc_xpulp_extract(a, 32, 0))
    EACH(extractu 2 at 7, trainc_xpulp_extractu(a, 2, 7))
    EACH(extractu 31 at 1, trainc_xpulp_extractu(a, 31, 1))
    EACH(extractu 32 at 0, trainc_xpulp_extractu(a, 32, 0))
    EACH(insert 1 at 31, trainc_xpulp_insert(d, a, 1, 31))
    EACH(insert 4 at 12, trainc_xpulp_insert(d, a, 4, 12))
    EACH(insert 32 at 0, trainc_xpulp_insert(d, a, 32, 0))
    EACH(clip 1, trainc_xpulp_clip(a, 1))
    EACH(clip 8, trainc_xpulp_clip(a, 8))
    EACH(clip 31, trainc_xpulp_clip(a, 31))
    EACH(clipu 1, trainc_xpulp_clipu(a, 1))
    EACH(clipu 9, trainc_xpulp_clipu(a, 9))
    EACH(clipu 31, trainc_xpulp_clipu(a, 31))
    return 0;
}
