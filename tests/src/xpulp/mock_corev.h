/* Builtins of CORE-V compilers as their specification defines them, for compilers that lack them. */
#include <stdint.h>

#define MOCK static inline __attribute__((unused))
static inline int32_t mock_s(uint32_t a, int i) { return (int8_t)(a >> 8 * i); }
static inline int32_t mock_u(uint32_t a, int i) { return (uint8_t)(a >> 8 * i); }
#define DOT(f, g) (f(a, 0) * g(b, 0) + f(a, 1) * g(b, 1) + f(a, 2) * g(b, 2) + f(a, 3) * g(b, 3))
MOCK uint32_t __builtin_riscv_cv_simd_dotup_b(uint32_t a, uint32_t b) { return (uint32_t)DOT(mock_u, mock_u); }
MOCK int32_t __builtin_riscv_cv_simd_dotusp_b(uint32_t a, uint32_t b) { return DOT(mock_u, mock_s); }
MOCK int32_t __builtin_riscv_cv_simd_dotsp_b(uint32_t a, uint32_t b) { return DOT(mock_s, mock_s); }
MOCK uint32_t __builtin_riscv_cv_simd_sdotup_b(uint32_t a, uint32_t b, uint32_t c) { return c + (uint32_t)DOT(mock_u, mock_u); }
MOCK int32_t __builtin_riscv_cv_simd_sdotusp_b(uint32_t a, uint32_t b, int32_t c) { return (int32_t)((uint32_t)c + (uint32_t)DOT(mock_u, mock_s)); }
MOCK int32_t __builtin_riscv_cv_simd_sdotsp_b(uint32_t a, uint32_t b, int32_t c) { return (int32_t)((uint32_t)c + (uint32_t)DOT(mock_s, mock_s)); }
MOCK int32_t __builtin_riscv_cv_simd_sdotsp_h(uint32_t a, uint32_t b, int32_t c)
{
    return (int32_t)((uint32_t)c + (uint32_t)((int16_t)a * (int16_t)b) + (uint32_t)((int16_t)(a >> 16) * (int16_t)(b >> 16)));
}
#define LANES(name, value) \
    MOCK uint32_t __builtin_riscv_cv_simd_##name##_b(uint32_t a, uint32_t b) \
    { \
        uint32_t r = 0; \
        for (int i = 0; i < 4; i++) { \
            r |= (uint32_t)((value) & 0xff) << 8 * i; \
        } \
        return r; \
    }
LANES(add, mock_u(a, i) + mock_u(b, i))
LANES(sub, mock_u(a, i) - mock_u(b, i))
LANES(min, mock_s(a, i) < mock_s(b, i) ? mock_u(a, i) : mock_u(b, i))
LANES(minu, mock_u(a, i) < mock_u(b, i) ? mock_u(a, i) : mock_u(b, i))
LANES(max, mock_s(a, i) > mock_s(b, i) ? mock_u(a, i) : mock_u(b, i))
LANES(maxu, mock_u(a, i) > mock_u(b, i) ? mock_u(a, i) : mock_u(b, i))
LANES(srl, mock_u(a, i) >> (mock_u(b, i) & 7))
LANES(sra, mock_s(a, i) >> (mock_u(b, i) & 7))
LANES(sll, mock_u(a, i) << (mock_u(b, i) & 7))
LANES(shuffle, mock_u(a, mock_u(b, i) & 3))
MOCK uint32_t __builtin_riscv_cv_simd_shuffle2_b(uint32_t a, uint32_t b, uint32_t d)
{
    uint32_t r = 0;
    for (int i = 0; i < 4; i++) {
        r |= (uint32_t)mock_u(mock_u(b, i) & 4 ? a : d, mock_u(b, i) & 3) << 8 * i;
    }
    return r;
}
MOCK uint32_t __builtin_riscv_cv_simd_packlo_h(uint32_t a, uint32_t b) { return a << 16 | (uint16_t)b; }
MOCK uint32_t __builtin_riscv_cv_simd_packlo_b(uint32_t a, uint32_t b, uint32_t d) { return (d & 0xffff0000) | (a & 0xff) << 8 | (b & 0xff); }
MOCK uint32_t __builtin_riscv_cv_simd_packhi_b(uint32_t a, uint32_t b, uint32_t d) { return (d & 0xffff) | a << 24 | (b & 0xff) << 16; }
MOCK int32_t __builtin_riscv_cv_alu_min(int32_t a, int32_t b) { return a < b ? a : b; }
MOCK int32_t __builtin_riscv_cv_alu_max(int32_t a, int32_t b) { return a > b ? a : b; }
MOCK uint32_t __builtin_riscv_cv_alu_minu(uint32_t a, uint32_t b) { return a < b ? a : b; }
MOCK uint32_t __builtin_riscv_cv_alu_maxu(uint32_t a, uint32_t b) { return a > b ? a : b; }
MOCK int32_t __builtin_riscv_cv_mac_mac(int32_t a, int32_t b, int32_t c) { return (int32_t)((uint32_t)c + (uint32_t)a * (uint32_t)b); }
MOCK int32_t __builtin_riscv_cv_mac_msu(int32_t a, int32_t b, int32_t c) { return (int32_t)((uint32_t)c - (uint32_t)a * (uint32_t)b); }
