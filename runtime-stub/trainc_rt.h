/* What emitted kernels need: exact scalar arithmetic, and checkpoints.
 *
 * C99, freestanding, no global state. Assumed and checked here: two's complement with arithmetic
 * right shifts, little-endian, IEEE binary32 evaluated as such. Compile without contraction of
 * floating-point products and sums (GCC and Clang: -ffp-contract=off) and in the default rounding
 * mode.
 */
#ifndef TRAINC_RT_H
#define TRAINC_RT_H

#include <float.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __FAST_MATH__
#error "-ffast-math changes the results of training"
#endif
#if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16
#error "float expressions must be evaluated in float (on 32-bit x86: -msse2 -mfpmath=sse)"
#endif
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the data of a model is little-endian"
#endif
#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

/* Memory of that alignment, a power of two: TRAINC_ALIGNED(16) static unsigned char a[64]; */
#if defined(__GNUC__) || defined(__clang__)
#define TRAINC_ALIGNED(bytes) __attribute__((aligned(bytes)))
#elif defined(__cplusplus)
#define TRAINC_ALIGNED(bytes) alignas(bytes)
#else
#define TRAINC_ALIGNED(bytes) _Alignas(bytes)
#endif

/* Runs rounds begin..end of a loop whose rounds may run in any order. */
typedef void (*trainc_body)(void *context, int32_t begin, int32_t end);

/* Hooks: -DTRAINC_HOOKS='"hooks.h"' names a header that may define the macros below. It is C that
 * any emitted source includes; it may declare functions, it should not define any but static
 * inline ones.
 *
 * TRAINC_ENTERED(arena, state, entry): starts the body of each entry, whose number is
 * <MODEL>_<ENTRY>_ENTRY; it may declare variables that the next macro uses.
 *
 * TRAINC_LAUNCHED(arena, state, launch, node): follows each kernel of an entry, in which launch
 * counts from 0; node is the model's name for it. For profiles and traces.
 *
 * TRAINC_PARALLEL_FOR(context, count, body): calls body(context, begin, end) so that the ranges
 * make up 0..count, each number in one of them, and returns when all calls have. They may run at
 * the same time and in any order: the results are the same bits. body is a trainc_body, context a
 * void *, count an int32_t above 0.
 *
 * TRAINC_CYCLES(): with -DTRAINC_PROFILE, the present count of a clock as a uint64_t; see
 * trainc_profile. */
#ifdef TRAINC_HOOKS
#include TRAINC_HOOKS
#endif
#ifdef TRAINC_PROFILE
#ifndef TRAINC_CYCLES
#error "a profile needs TRAINC_CYCLES() from the header that TRAINC_HOOKS names"
#endif
#if defined(TRAINC_ENTERED) || defined(TRAINC_LAUNCHED)
#error "a profile defines TRAINC_ENTERED and TRAINC_LAUNCHED itself"
#endif
#define TRAINC_ENTERED(arena, state, entry) \
    const uint32_t trainc_entry = (entry); \
    uint64_t trainc_started = TRAINC_CYCLES()
#define TRAINC_LAUNCHED(arena, state, launch, node) \
    do { \
        trainc_profile(arena, trainc_entry, launch, TRAINC_CYCLES() - trainc_started); \
        trainc_started = TRAINC_CYCLES(); \
    } while (0)
#endif
#ifndef TRAINC_ENTERED
#define TRAINC_ENTERED(arena, state, entry) ((void)0)
#endif
#ifndef TRAINC_LAUNCHED
#define TRAINC_LAUNCHED(arena, state, launch, node) ((void)0)
#endif
/* Of two numbers, that for work which is divided, or that for one core. */
#ifdef TRAINC_PARALLEL_FOR
#define TRAINC_DIVIDED(parts, whole) (parts)
#else
#define TRAINC_DIVIDED(parts, whole) (whole)
#define TRAINC_PARALLEL_FOR(context, count, body) body((context), 0, (count))
#endif

typedef char trainc_assert_shift[(-3 >> 1) == -2 ? 1 : -1];
typedef char trainc_assert_wrap[(int32_t)UINT32_C(0xfffffffe) == -2 ? 1 : -1];
typedef char trainc_assert_float[FLT_RADIX == 2 && FLT_MANT_DIG == 24 ? 1 : -1];

#ifdef __cplusplus
extern "C" {
#endif

#ifdef TRAINC_PROFILE
/* Yours to define: a kernel took that many cycles. entry is <MODEL>_<ENTRY>_ENTRY, launch is below
 * <MODEL>_<ENTRY>_LAUNCHES. Add them up in an array of your own; the arena tells apart calls that
 * run at the same time. */
void trainc_profile(void *arena, uint32_t entry, uint32_t launch, uint64_t cycles);
#endif

/* Integers that wrap around. */

static inline int32_t trainc_add32(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

static inline int32_t trainc_subtract32(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a - (uint32_t)b);
}

static inline int32_t trainc_multiply32(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a * (uint32_t)b);
}

static inline int32_t trainc_negate32(int32_t a)
{
    return (int32_t)(0 - (uint32_t)a);
}

/* Toward zero; b is not 0. */
static inline int32_t trainc_divide32(int32_t a, int32_t b)
{
    return b == -1 ? trainc_negate32(a) : a / b;
}

/* Sign of a; b is not 0. */
static inline int32_t trainc_remainder32(int32_t a, int32_t b)
{
    return b == -1 ? 0 : a % b;
}

static inline int32_t trainc_shift_left32(int32_t a, int64_t amount)
{
    return (int32_t)((uint32_t)a << amount);
}

static inline int32_t trainc_shift_right_unsigned32(int32_t a, int64_t amount)
{
    return (int32_t)((uint32_t)a >> amount);
}

static inline int64_t trainc_add64(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static inline int64_t trainc_subtract64(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static inline int64_t trainc_multiply64(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

static inline int64_t trainc_negate64(int64_t a)
{
    return (int64_t)(0 - (uint64_t)a);
}

static inline int64_t trainc_divide64(int64_t a, int64_t b)
{
    return b == -1 ? trainc_negate64(a) : a / b;
}

static inline int64_t trainc_remainder64(int64_t a, int64_t b)
{
    return b == -1 ? 0 : a % b;
}

static inline int64_t trainc_shift_left64(int64_t a, int64_t amount)
{
    return (int64_t)((uint64_t)a << amount);
}

static inline int64_t trainc_shift_right_unsigned64(int64_t a, int64_t amount)
{
    return (int64_t)((uint64_t)a >> amount);
}

static inline int32_t trainc_minimum32(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static inline int32_t trainc_maximum32(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static inline int64_t trainc_minimum64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t trainc_maximum64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Zeros above the highest bit that is set; 32 for 0. */
static inline int32_t trainc_leading_zeros(int32_t a)
{
    uint32_t bits = (uint32_t)a;
    int32_t zeros = 0;
    if (bits == 0) {
        return 32;
    }
    for (int32_t width = 16; width > 0; width /= 2) {
        if (bits >> (32 - width) == 0) {
            zeros += width;
            bits <<= width;
        }
    }
    return zeros;
}

/* 32 uniform bits for an element of a stream: Philox4x32-10 (Salmon et al. 2011), whose key is the
 * seed, `run` being its halves and the step. */
static inline int32_t trainc_draw(const int32_t *run, uint32_t stream, int32_t element)
{
    uint32_t c0 = (uint32_t)element >> 2, c1 = (uint32_t)run[2], c2 = stream, c3 = 0;
    uint32_t k0 = (uint32_t)run[0], k1 = (uint32_t)run[1];
    for (int32_t round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)c0 * UINT32_C(0xd2511f53);
        const uint64_t p1 = (uint64_t)c2 * UINT32_C(0xcd9e8d57);
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += UINT32_C(0x9e3779b9);
        k1 += UINT32_C(0xbb67ae85);
    }
    const int32_t lane = element & 3;
    return (int32_t)(lane == 0 ? c0 : lane == 1 ? c1 : lane == 2 ? c2 : c3);
}

/* IEEE binary32. */

static inline int32_t trainc_bits(float x)
{
    union {
        float value;
        int32_t bits;
    } both;
    both.value = x;
    return both.bits;
}

static inline float trainc_float(int32_t bits)
{
    union {
        float value;
        int32_t bits;
    } both;
    both.bits = bits;
    return both.value;
}

/* The second operand where neither is less. */
static inline float trainc_minimum(float a, float b)
{
    return a < b ? a : b;
}

static inline float trainc_maximum(float a, float b)
{
    return a > b ? a : b;
}

static inline float trainc_absolute(float x)
{
    return trainc_float(trainc_bits(x) & INT32_MAX);
}

/* Toward zero, saturating; 0 for NaN. */
static inline int32_t trainc_to_integer(float x)
{
    if (x >= 2147483648.0f) {
        return INT32_MAX;
    }
    if (x <= -2147483648.0f) {
        return INT32_MIN;
    }
    return x != x ? 0 : (int32_t)x;
}

/* To integral values: ties to even, down, up; and the square root. */
float trainc_round(float x);
float trainc_floor(float x);
float trainc_ceil(float x);
float trainc_sqrt(float x);

/* A checkpoint is a header of 32 bytes and the state as it lies in memory:
 * "TRNC", version (u32), hash of the model (u64), step (u64), bytes of state (u32), CRC-32 of all
 * else (u32).
 */
#define TRAINC_CHECKPOINT_HEADER 32
#define TRAINC_CHECKPOINT_VERSION 1

enum trainc_status {
    TRAINC_OK = 0,
    /* Fewer or more bytes than a checkpoint of this model has. */
    TRAINC_WRONG_SIZE = 1,
    /* Not a checkpoint, or of another version. */
    TRAINC_WRONG_FORMAT = 2,
    /* A checkpoint of another model, or of the same compiled otherwise. */
    TRAINC_WRONG_MODEL = 3,
    /* The bytes are not those that were saved. */
    TRAINC_DAMAGED = 4
};

/* Writes TRAINC_CHECKPOINT_HEADER + bytes bytes. */
void trainc_save(void *checkpoint, const void *state, uint32_t bytes, uint64_t model,
    uint64_t step);

/* Sets state and *step, or leaves both as they are and says why. */
enum trainc_status trainc_load(void *state, uint64_t *step, const void *checkpoint, size_t size,
    uint32_t bytes, uint64_t model);

/* Memory: dst = src, not overlapping; dst = src, overlapping or not; all bytes of dst = value.
 *
 * With -DTRAINC_PROVIDE_MEMORY_FUNCTIONS the runtime also defines memcpy, memmove and memset, which
 * compilers call of their own accord: for a machine without any library. */
void trainc_copy(void *dst, const void *src, size_t bytes);
void trainc_move(void *dst, const void *src, size_t bytes);
void trainc_set(void *dst, unsigned char value, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
