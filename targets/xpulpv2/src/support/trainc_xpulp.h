/* Instructions of XpulpV2 as functions of 32-bit words, in four forms that give the same bits.
 *
 * The form is chosen here: builtins of the PULP compiler (__pulp__ is defined) or of a CORE-V
 * compiler (__riscv_xcvsimd); encodings of RI5CY for any GCC or Clang for RV32
 * (-DTRAINC_XPULP_INSN); otherwise portable C. -DTRAINC_XPULP_PORTABLE asks for the last.
 *
 * Bytes and halves of a word count from its lowest bits. Where a parameter is called constant, it
 * must be a constant expression.
 */
#ifndef TRAINC_XPULP_H
#define TRAINC_XPULP_H

#include <stdint.h>

#if defined(TRAINC_XPULP_PORTABLE)
#define TRAINC_XPULP_FORM(pulp, corev, insn, portable) portable
#undef TRAINC_XPULP_INSN
#elif defined(TRAINC_XPULP_INSN)
#if !defined(__riscv) || __riscv_xlen != 32
#error "TRAINC_XPULP_INSN is for compilers of RV32"
#endif
#define TRAINC_XPULP_FORM(pulp, corev, insn, portable) insn
#elif defined(__pulp__)
#define TRAINC_XPULP_BUILTINS
#define TRAINC_XPULP_FORM(pulp, corev, insn, portable) pulp
typedef signed char trainc_v4s __attribute__((vector_size(4)));
typedef unsigned char trainc_v4u __attribute__((vector_size(4)));
typedef short trainc_v2s __attribute__((vector_size(4)));
#elif defined(__riscv_xcvsimd) && defined(__riscv_xcvalu) && defined(__riscv_xcvmac)
#define TRAINC_XPULP_BUILTINS
#define TRAINC_XPULP_FORM(pulp, corev, insn, portable) corev
#else
#define TRAINC_XPULP_FORM(pulp, corev, insn, portable) portable
#endif

/* Functions of the portable form. */

static inline int32_t trainc_xpulp_s8(uint32_t a, int lane)
{
    return (int32_t)(a << (24 - 8 * lane)) >> 24;
}

static inline uint32_t trainc_xpulp_u8(uint32_t a, int lane)
{
    return (a >> (8 * lane)) & 0xff;
}

static inline int32_t trainc_xpulp_s16(uint32_t a, int lane)
{
    return (int32_t)(a << (16 - 16 * lane)) >> 16;
}

static inline uint32_t trainc_xpulp_bytes(uint32_t b0, uint32_t b1, uint32_t b2, uint32_t b3)
{
    return (b0 & 0xff) | (b1 & 0xff) << 8 | (b2 & 0xff) << 16 | b3 << 24;
}

/* f of each pair of bytes, and the sum of the products of all. */
#define TRAINC_XPULP_EACH(f) \
    trainc_xpulp_bytes((uint32_t)(f(0)), (uint32_t)(f(1)), (uint32_t)(f(2)), (uint32_t)(f(3)))
#define TRAINC_XPULP_SUM(f, g) \
    ((uint32_t)(f(a, 0) * g(b, 0)) + (uint32_t)(f(a, 1) * g(b, 1)) \
        + (uint32_t)(f(a, 2) * g(b, 2)) + (uint32_t)(f(a, 3) * g(b, 3)))
#define TRAINC_XPULP_U8(a, lane) (int32_t)trainc_xpulp_u8(a, lane)

/* An instruction of format R: rd of rs1 and rs2. */
#define TRAINC_XPULP_R(opcode, funct3, funct7) \
    do { \
        uint32_t rd; \
        __asm__(".insn r " #opcode ", " #funct3 ", " #funct7 ", %0, %1, %2" \
                : "=r"(rd) : "r"(a), "r"(b)); \
        return rd; \
    } while (0)
/* The same where rd is read, too. */
#define TRAINC_XPULP_RD(opcode, funct3, funct7) \
    do { \
        __asm__(".insn r " #opcode ", " #funct3 ", " #funct7 ", %0, %1, %2" \
                : "+r"(d) : "r"(a), "r"(b)); \
        return d; \
    } while (0)
#define TRAINC_XPULP_RETURN(type, value) return (type)(value)

/* Functions of two words, and of three: d is the old value of rd. Of each: name, PULP builtin,
 * CORE-V builtin, encoding, portable C. */
#define TRAINC_XPULP_TWO(name, pulp, corev, insn, portable) \
    static inline uint32_t trainc_xpulp_##name(uint32_t a, uint32_t b) \
    { \
        TRAINC_XPULP_FORM(TRAINC_XPULP_RETURN(uint32_t, pulp), \
            TRAINC_XPULP_RETURN(uint32_t, corev), TRAINC_XPULP_R insn, \
            TRAINC_XPULP_RETURN(uint32_t, portable)); \
    }
#define TRAINC_XPULP_THREE(name, pulp, corev, insn, portable) \
    static inline uint32_t trainc_xpulp_##name(uint32_t d, uint32_t a, uint32_t b) \
    { \
        TRAINC_XPULP_FORM(TRAINC_XPULP_RETURN(uint32_t, pulp), \
            TRAINC_XPULP_RETURN(uint32_t, corev), TRAINC_XPULP_RD insn, \
            TRAINC_XPULP_RETURN(uint32_t, portable)); \
    }

/* pv.dotup.b, pv.dotusp.b (a without sign, b with), pv.dotsp.b: the sum of four products. */
TRAINC_XPULP_TWO(dotup_b, __builtin_pulp_dotup4((trainc_v4u)a, (trainc_v4u)b),
    __builtin_riscv_cv_simd_dotup_b(a, b), (0x57, 1, 0x40),
    TRAINC_XPULP_SUM(TRAINC_XPULP_U8, TRAINC_XPULP_U8))
TRAINC_XPULP_TWO(dotusp_b, __builtin_pulp_dotusp4((trainc_v4u)a, (trainc_v4s)b),
    __builtin_riscv_cv_simd_dotusp_b(a, b), (0x57, 1, 0x44),
    TRAINC_XPULP_SUM(TRAINC_XPULP_U8, trainc_xpulp_s8))
TRAINC_XPULP_TWO(dotsp_b, __builtin_pulp_dotsp4((trainc_v4s)a, (trainc_v4s)b),
    __builtin_riscv_cv_simd_dotsp_b(a, b), (0x57, 1, 0x4c),
    TRAINC_XPULP_SUM(trainc_xpulp_s8, trainc_xpulp_s8))

/* pv.sdotup.b, pv.sdotusp.b, pv.sdotsp.b, pv.sdotsp.h: the same, added to d. */
TRAINC_XPULP_THREE(sdotup_b, __builtin_pulp_sdotup4((trainc_v4u)a, (trainc_v4u)b, d),
    __builtin_riscv_cv_simd_sdotup_b(a, b, d), (0x57, 1, 0x50),
    d + TRAINC_XPULP_SUM(TRAINC_XPULP_U8, TRAINC_XPULP_U8))
TRAINC_XPULP_THREE(sdotusp_b, __builtin_pulp_sdotusp4((trainc_v4u)a, (trainc_v4s)b, (int)d),
    __builtin_riscv_cv_simd_sdotusp_b(a, b, (int32_t)d), (0x57, 1, 0x54),
    d + TRAINC_XPULP_SUM(TRAINC_XPULP_U8, trainc_xpulp_s8))
TRAINC_XPULP_THREE(sdotsp_b, __builtin_pulp_sdotsp4((trainc_v4s)a, (trainc_v4s)b, (int)d),
    __builtin_riscv_cv_simd_sdotsp_b(a, b, (int32_t)d), (0x57, 1, 0x5c),
    d + TRAINC_XPULP_SUM(trainc_xpulp_s8, trainc_xpulp_s8))
TRAINC_XPULP_THREE(sdotsp_h, __builtin_pulp_sdotsp2((trainc_v2s)a, (trainc_v2s)b, (int)d),
    __builtin_riscv_cv_simd_sdotsp_h(a, b, (int32_t)d), (0x57, 0, 0x5c),
    d + (uint32_t)(trainc_xpulp_s16(a, 0) * trainc_xpulp_s16(b, 0))
        + (uint32_t)(trainc_xpulp_s16(a, 1) * trainc_xpulp_s16(b, 1)))

/* pv.add.b, pv.sub.b, pv.min.b, pv.minu.b, pv.max.b, pv.maxu.b: byte by byte, wrapping. */
#define TRAINC_XPULP_ADD(lane) (trainc_xpulp_u8(a, lane) + trainc_xpulp_u8(b, lane))
#define TRAINC_XPULP_SUBTRACT(lane) (trainc_xpulp_u8(a, lane) - trainc_xpulp_u8(b, lane))
#define TRAINC_XPULP_PICK(of, order, lane) \
    (of(a, lane) order of(b, lane) ? trainc_xpulp_u8(a, lane) : trainc_xpulp_u8(b, lane))
#define TRAINC_XPULP_MIN(lane) TRAINC_XPULP_PICK(trainc_xpulp_s8, <, lane)
#define TRAINC_XPULP_MINU(lane) TRAINC_XPULP_PICK(trainc_xpulp_u8, <, lane)
#define TRAINC_XPULP_MAX(lane) TRAINC_XPULP_PICK(trainc_xpulp_s8, >, lane)
#define TRAINC_XPULP_MAXU(lane) TRAINC_XPULP_PICK(trainc_xpulp_u8, >, lane)
TRAINC_XPULP_TWO(add_b, (trainc_v4s)a + (trainc_v4s)b, __builtin_riscv_cv_simd_add_b(a, b),
    (0x57, 1, 0x00), TRAINC_XPULP_EACH(TRAINC_XPULP_ADD))
TRAINC_XPULP_TWO(sub_b, (trainc_v4s)a - (trainc_v4s)b, __builtin_riscv_cv_simd_sub_b(a, b),
    (0x57, 1, 0x04), TRAINC_XPULP_EACH(TRAINC_XPULP_SUBTRACT))
TRAINC_XPULP_TWO(min_b, __builtin_pulp_min4((trainc_v4s)a, (trainc_v4s)b),
    __builtin_riscv_cv_simd_min_b(a, b), (0x57, 1, 0x10), TRAINC_XPULP_EACH(TRAINC_XPULP_MIN))
TRAINC_XPULP_TWO(minu_b, __builtin_pulp_minu4((trainc_v4u)a, (trainc_v4u)b),
    __builtin_riscv_cv_simd_minu_b(a, b), (0x57, 1, 0x14), TRAINC_XPULP_EACH(TRAINC_XPULP_MINU))
TRAINC_XPULP_TWO(max_b, __builtin_pulp_max4((trainc_v4s)a, (trainc_v4s)b),
    __builtin_riscv_cv_simd_max_b(a, b), (0x57, 1, 0x18), TRAINC_XPULP_EACH(TRAINC_XPULP_MAX))
TRAINC_XPULP_TWO(maxu_b, __builtin_pulp_maxu4((trainc_v4u)a, (trainc_v4u)b),
    __builtin_riscv_cv_simd_maxu_b(a, b), (0x57, 1, 0x1c), TRAINC_XPULP_EACH(TRAINC_XPULP_MAXU))

/* pv.srl.b, pv.sra.b, pv.sll.b: each byte of a by the byte of b below it, which is 0 to 7. */
#define TRAINC_XPULP_SRL(lane) (trainc_xpulp_u8(a, lane) >> (trainc_xpulp_u8(b, lane) & 7))
#define TRAINC_XPULP_SRA(lane) (trainc_xpulp_s8(a, lane) >> (trainc_xpulp_u8(b, lane) & 7))
#define TRAINC_XPULP_SLL(lane) (trainc_xpulp_u8(a, lane) << (trainc_xpulp_u8(b, lane) & 7))
TRAINC_XPULP_TWO(srl_b, (trainc_v4u)a >> (trainc_v4u)b, __builtin_riscv_cv_simd_srl_b(a, b),
    (0x57, 1, 0x20), TRAINC_XPULP_EACH(TRAINC_XPULP_SRL))
TRAINC_XPULP_TWO(sra_b, (trainc_v4s)a >> (trainc_v4s)b, __builtin_riscv_cv_simd_sra_b(a, b),
    (0x57, 1, 0x24), TRAINC_XPULP_EACH(TRAINC_XPULP_SRA))
TRAINC_XPULP_TWO(sll_b, (trainc_v4s)a << (trainc_v4s)b, __builtin_riscv_cv_simd_sll_b(a, b),
    (0x57, 1, 0x28), TRAINC_XPULP_EACH(TRAINC_XPULP_SLL))

/* pv.shuffle.b: bytes of a, picked by the lowest two bits of each byte of b. */
#define TRAINC_XPULP_SHUFFLE(lane) trainc_xpulp_u8(a, (int)trainc_xpulp_u8(b, lane) & 3)
TRAINC_XPULP_TWO(shuffle_b, __builtin_pulp_shuffleb((trainc_v4s)a, (trainc_v4s)b),
    __builtin_riscv_cv_simd_shuffle_b(a, b), (0x57, 1, 0x60),
    TRAINC_XPULP_EACH(TRAINC_XPULP_SHUFFLE))

/* pv.shuffle2.b: the same of the eight bytes of d, then a. */
#define TRAINC_XPULP_SHUFFLE2(lane) \
    trainc_xpulp_u8(trainc_xpulp_u8(b, lane) & 4 ? a : d, (int)trainc_xpulp_u8(b, lane) & 3)
TRAINC_XPULP_THREE(shuffle2_b,
    __builtin_pulp_shuffle4b((trainc_v4s)d, (trainc_v4s)a, (trainc_v4s)b),
    __builtin_riscv_cv_simd_shuffle2_b(a, b, d), (0x57, 1, 0x64),
    TRAINC_XPULP_EACH(TRAINC_XPULP_SHUFFLE2))

/* pv.pack.h: the lower halves of a and, lowest, b. */
TRAINC_XPULP_TWO(pack_h, __builtin_pulp_pack2((short)b, (short)a),
    __builtin_riscv_cv_simd_packlo_h(a, b), (0x57, 0, 0x68), a << 16 | (b & 0xffff))

/* pv.packlo.b, pv.packhi.b: the lowest bytes of a and, below it, b in the lower and the upper half
 * of d. */
TRAINC_XPULP_THREE(packlo_b, (d & 0xffff0000) | (a & 0xff) << 8 | (b & 0xff),
    __builtin_riscv_cv_simd_packlo_b(a, b, d), (0x57, 1, 0x70),
    (d & 0xffff0000) | (a & 0xff) << 8 | (b & 0xff))
TRAINC_XPULP_THREE(packhi_b, (d & 0xffff) | a << 24 | (b & 0xff) << 16,
    __builtin_riscv_cv_simd_packhi_b(a, b, d), (0x57, 1, 0x6c),
    (d & 0xffff) | a << 24 | (b & 0xff) << 16)

/* p.min, p.minu, p.max, p.maxu. */
TRAINC_XPULP_TWO(min, __builtin_pulp_minsi((int)a, (int)b),
    __builtin_riscv_cv_alu_min((int32_t)a, (int32_t)b), (0x33, 4, 0x02),
    (int32_t)a < (int32_t)b ? a : b)
TRAINC_XPULP_TWO(minu, __builtin_pulp_minusi(a, b), __builtin_riscv_cv_alu_minu(a, b),
    (0x33, 5, 0x02), a < b ? a : b)
TRAINC_XPULP_TWO(max, __builtin_pulp_maxsi((int)a, (int)b),
    __builtin_riscv_cv_alu_max((int32_t)a, (int32_t)b), (0x33, 6, 0x02),
    (int32_t)a > (int32_t)b ? a : b)
TRAINC_XPULP_TWO(maxu, __builtin_pulp_maxusi(a, b), __builtin_riscv_cv_alu_maxu(a, b),
    (0x33, 7, 0x02), a > b ? a : b)

/* p.clipr, p.clipur: a in -b - 1..=b and in 0..=b; b is not negative. */
TRAINC_XPULP_TWO(clipr, __builtin_pulp_clip_r((int)a, (int)b),
    (int32_t)a < ~(int32_t)b ? ~b : (int32_t)a > (int32_t)b ? b : a, (0x33, 5, 0x0a),
    (int32_t)a < ~(int32_t)b ? ~b : (int32_t)a > (int32_t)b ? b : a)
TRAINC_XPULP_TWO(clipur, __builtin_pulp_clipu_r((int)a, (int)b),
    (int32_t)a < 0 ? 0 : (int32_t)a > (int32_t)b ? b : a, (0x33, 6, 0x0a),
    (int32_t)a < 0 ? 0 : (int32_t)a > (int32_t)b ? b : a)

/* p.mac, p.msu: d + a b, d - a b. */
TRAINC_XPULP_THREE(mac, __builtin_pulp_mac((int)a, (int)b, (int)d),
    __builtin_riscv_cv_mac_mac((int32_t)a, (int32_t)b, (int32_t)d), (0x33, 0, 0x21), d + a * b)
TRAINC_XPULP_THREE(msu, __builtin_pulp_msu((int)a, (int)b, (int)d),
    __builtin_riscv_cv_mac_msu((int32_t)a, (int32_t)b, (int32_t)d), (0x33, 1, 0x21), d - a * b)

/* p.abs: |a|, which is 2^31 for -2^31. */
static inline uint32_t trainc_xpulp_abs(uint32_t a)
{
#if defined(TRAINC_XPULP_INSN)
    uint32_t rd;
    __asm__(".insn r 0x33, 0, 0x02, %0, %1, x0" : "=r"(rd) : "r"(a));
    return rd;
#else
    return a >> 31 ? 0 - a : a;
#endif
}

/* p.fl1: the place of the highest bit that is set; 32 of 0. */
static inline int32_t trainc_xpulp_highest(uint32_t a)
{
#if defined(TRAINC_XPULP_INSN)
    int32_t rd;
    __asm__(".insn r 0x33, 1, 0x08, %0, %1, x0" : "=r"(rd) : "r"(a));
    return rd;
#else
    int32_t place = 0;
    if (a == 0) {
        return 32;
    }
    for (int32_t width = 16; width > 0; width /= 2) {
        if (a >> width != 0) {
            place += width;
            a >>= width;
        }
    }
    return place;
#endif
}

/* p.clb: bits below the sign that are equal to it; 0 of 0. */
static inline int32_t trainc_xpulp_room(uint32_t a)
{
#if defined(TRAINC_XPULP_INSN)
    int32_t rd;
    __asm__(".insn r 0x33, 2, 0x08, %0, %1, x0" : "=r"(rd) : "r"(a));
    return rd;
#else
    const uint32_t differ = a >> 31 ? ~a : a;
    return a == 0 ? 0 : differ == 0 ? 31 : 30 - trainc_xpulp_highest(differ);
#endif
}

/* p.extract, p.extractu: width bits of a from bit offset on, with and without sign; p.insert: d
 * with the lowest width bits of a there. Width (from 1) and offset are constant and end by bit 31.
 * p.clip, p.clipu: a in -2^(bits - 1)..=2^(bits - 1) - 1 and in 0..=2^(bits - 1) - 1; bits is
 * constant, 1 to 31. */
#if defined(TRAINC_XPULP_INSN)
#define trainc_xpulp_extract(a, width, offset) TRAINC_XPULP_FIELD(0, a, width, offset)
#define trainc_xpulp_extractu(a, width, offset) TRAINC_XPULP_FIELD(1, a, width, offset)
#define TRAINC_XPULP_FIELD(funct3, a, width, offset) \
    __extension__({ \
        uint32_t trainc_rd; \
        __asm__(".insn r 0x33, %2, 0x60 + %3, %0, %1, x%4" : "=r"(trainc_rd) \
            : "r"((uint32_t)(a)), "i"(funct3), "i"((width) - 1), "i"(offset)); \
        trainc_rd; \
    })
#define trainc_xpulp_insert(d, a, width, offset) \
    __extension__({ \
        uint32_t trainc_rd = (d); \
        __asm__(".insn r 0x33, 2, 0x60 + %2, %0, %1, x%3" : "+r"(trainc_rd) \
            : "r"((uint32_t)(a)), "i"((width) - 1), "i"(offset)); \
        trainc_rd; \
    })
#define trainc_xpulp_clip(a, bits) TRAINC_XPULP_CLIP(1, a, bits)
#define trainc_xpulp_clipu(a, bits) TRAINC_XPULP_CLIP(2, a, bits)
#define TRAINC_XPULP_CLIP(funct3, a, bits) \
    __extension__({ \
        uint32_t trainc_rd; \
        __asm__(".insn r 0x33, %2, 0x0a, %0, %1, x%3" : "=r"(trainc_rd) \
            : "r"((uint32_t)(a)), "i"(funct3), "i"(bits)); \
        trainc_rd; \
    })
#elif defined(__pulp__) && !defined(TRAINC_XPULP_PORTABLE)
#define trainc_xpulp_extract(a, width, offset) \
    ((uint32_t)__builtin_pulp_bextract((int)(a), (width), (offset)))
#define trainc_xpulp_extractu(a, width, offset) \
    ((uint32_t)__builtin_pulp_bextractu((unsigned)(a), (width), (offset)))
#define trainc_xpulp_insert(d, a, width, offset) \
    ((uint32_t)__builtin_pulp_binsert((int)(d), \
        (int)~(((UINT32_C(2) << ((width) - 1)) - 1) << (offset)), (int)(a), \
        (int)(((UINT32_C(2) << ((width) - 1)) - 1) << (offset)), (offset)))
#define trainc_xpulp_clip(a, bits) \
    ((uint32_t)__builtin_pulp_clip((int)(a), -(1 << ((bits) - 1)), (1 << ((bits) - 1)) - 1))
#define trainc_xpulp_clipu(a, bits) \
    ((uint32_t)__builtin_pulp_clipu((int)(a), 0, (1 << ((bits) - 1)) - 1))
#else
static inline uint32_t trainc_xpulp_extract(uint32_t a, int width, int offset)
{
    return (uint32_t)((int32_t)(a << (32 - width - offset)) >> (32 - width));
}

static inline uint32_t trainc_xpulp_extractu(uint32_t a, int width, int offset)
{
    return a << (32 - width - offset) >> (32 - width);
}

static inline uint32_t trainc_xpulp_insert(uint32_t d, uint32_t a, int width, int offset)
{
    const uint32_t mask = ((UINT32_C(2) << (width - 1)) - 1) << offset;
    return (d & ~mask) | (a << offset & mask);
}

static inline uint32_t trainc_xpulp_clip(uint32_t a, int bits)
{
    return trainc_xpulp_clipr(a, (UINT32_C(1) << (bits - 1)) - 1);
}

static inline uint32_t trainc_xpulp_clipu(uint32_t a, int bits)
{
    return trainc_xpulp_clipur(a, (UINT32_C(1) << (bits - 1)) - 1);
}
#endif

/* The word at an address of any alignment, which these cores reach as a whole. Of copies that may
 * be unaligned their compilers make single bytes. */
#if defined(__riscv) && (defined(TRAINC_XPULP_INSN) || defined(TRAINC_XPULP_BUILTINS))
#define TRAINC_XPULP_UNALIGNED
#endif
static inline uint32_t trainc_xpulp_load(const void *at)
{
    uint32_t word;
#if defined(TRAINC_XPULP_UNALIGNED)
    __asm__("lw %0, %1" : "=r"(word) : "m"(*(const uint8_t(*)[4])at));
#else
    __builtin_memcpy(&word, at, sizeof word);
#endif
    return word;
}

static inline void trainc_xpulp_store(void *at, uint32_t word)
{
#if defined(TRAINC_XPULP_UNALIGNED)
    __asm__("sw %1, %0" : "=m"(*(uint8_t(*)[4])at) : "r"(word));
#else
    __builtin_memcpy(at, &word, sizeof word);
#endif
}

/* Instructions for blocks of assembler. */
#if defined(TRAINC_XPULP_INSN)
#define TRAINC_XPULP_BEGIN \
    ".balign 4\n\t.option push\n\t.option norvc\n\t.option norelax\n\t"
/* A hardware loop from the next instruction up to and with that at the label; count is the number
 * of a register. At least three instructions, at least one round. */
#define TRAINC_XPULP_LOOP(loop, count, label) \
    ".4byte 0x407b | (" #loop " << 7) | (" #count " << 15) | (((" #label "f - .) / 2) << 20)\n\t"
/* Loads and stores that move the pointer on, by a register or a number. */
#define TRAINC_XPULP_LW(rd, step, at) ".insn r 0x0b, 7, 0x10, " #rd ", " #at ", " #step "\n\t"
#define TRAINC_XPULP_LWI(rd, step, at) ".insn i 0x0b, 2, " #rd ", " #step "(" #at ")\n\t"
#define TRAINC_XPULP_LHI(rd, step, at) ".insn i 0x0b, 5, " #rd ", " #step "(" #at ")\n\t"
#define TRAINC_XPULP_LBI(rd, step, at) ".insn i 0x0b, 4, " #rd ", " #step "(" #at ")\n\t"
/* A byte with its sign. */
#define TRAINC_XPULP_LBSI(rd, step, at) ".insn i 0x0b, 0, " #rd ", " #step "(" #at ")\n\t"
/* The byte that lies so many bytes behind `at`. */
#define TRAINC_XPULP_LB_AT(rd, by, at) ".insn r 0x03, 7, 0x00, " #rd ", " #at ", " #by "\n\t"
/* The word there. */
#define TRAINC_XPULP_LW_AT(rd, by, at) ".insn r 0x03, 7, 0x10, " #rd ", " #at ", " #by "\n\t"
#define TRAINC_XPULP_SWI(rs, step, at) ".insn s 0x2b, 2, " #rs ", " #step "(" #at ")\n\t"
#define TRAINC_XPULP_SHI(rs, step, at) ".insn s 0x2b, 1, " #rs ", " #step "(" #at ")\n\t"
#define TRAINC_XPULP_SBI(rs, step, at) ".insn s 0x2b, 0, " #rs ", " #step "(" #at ")\n\t"
#define TRAINC_XPULP_SB(rs, step, at) ".insn r 0x2b, 4, 0, " #step ", " #at ", " #rs "\n\t"
#define TRAINC_XPULP_SW(rs, step, at) ".insn r 0x2b, 6, 0, " #step ", " #at ", " #rs "\n\t"
#define TRAINC_XPULP_SDOT(rd, a, b) ".insn r 0x57, 1, 0x5c, " #rd ", " #a ", " #b "\n\t"
#define TRAINC_XPULP_SDOT_H(rd, a, b) ".insn r 0x57, 0, 0x5c, " #rd ", " #a ", " #b "\n\t"
/* p.insert: a half in place of the lower one of rd. */
#define TRAINC_XPULP_INSERT_HALF(rd, a) ".insn r 0x33, 2, 0x6f, " #rd ", " #a ", x0\n\t"
/* p.mac, p.msu; p.clip to bytes; p.clipur and p.clipr with a register. */
#define TRAINC_XPULP_MAC(rd, a, b) ".insn r 0x33, 0, 0x21, " #rd ", " #a ", " #b "\n\t"
#define TRAINC_XPULP_MSU(rd, a, b) ".insn r 0x33, 1, 0x21, " #rd ", " #a ", " #b "\n\t"
#define TRAINC_XPULP_CLIP8(rd, a) ".insn r 0x33, 1, 0x0a, " #rd ", " #a ", x8\n\t"
#define TRAINC_XPULP_CLIPU(rd, a, b) ".insn r 0x33, 6, 0x0a, " #rd ", " #a ", " #b "\n\t"
#define TRAINC_XPULP_CLIPR(rd, a, b) ".insn r 0x33, 5, 0x0a, " #rd ", " #a ", " #b "\n\t"
/* p.addNr, p.adduNr, p.subNr, p.addRNr, p.adduRNr: rd = (rd +- a) >> b, the last two with half a unit
 * added before. */
#define TRAINC_XPULP_ADDU_SHIFT(rd, a, b) ".insn r 0x5b, 2, 0x60, " #rd ", " #a ", " #b "\n\t"
#define TRAINC_XPULP_SUB_SHIFT(rd, a, b) ".insn r 0x5b, 3, 0x20, " #rd ", " #a ", " #b "\n\t"
#define TRAINC_XPULP_ADD_SHIFT(rd, a, b) ".insn r 0x5b, 2, 0x20, " #rd ", " #a ", " #b "\n\t"
#define TRAINC_XPULP_ADD_ROUND(rd, a, b) ".insn r 0x5b, 6, 0x20, " #rd ", " #a ", " #b "\n\t"
#define TRAINC_XPULP_ADDU_ROUND(rd, a, b) ".insn r 0x5b, 6, 0x60, " #rd ", " #a ", " #b "\n\t"
#define TRAINC_XPULP_SCALAR(funct3, rd, a, b) \
    ".insn r 0x33, " #funct3 ", 0x02, " #rd ", " #a ", " #b "\n\t"
/* Of lanes, bytes or halves: funct3 is 0 for halves, 1 for bytes, 3 more where b's lowest lane serves all. */
#define TRAINC_XPULP_PV(funct3, funct7, rd, a, b) \
    ".insn r 0x57, " #funct3 ", " #funct7 ", " #rd ", " #a ", " #b "\n\t"
/* Bytes of four words as one; rd is none of the last two. */
#define TRAINC_XPULP_BYTES(rd, a, b, c, d) \
    TRAINC_XPULP_PV(1, 0x70, rd, b, a) TRAINC_XPULP_PV(1, 0x6c, rd, d, c)
#endif

#endif
