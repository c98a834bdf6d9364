/* See trainc_rt.h. */
#include "trainc_rt.h"

/* 2^23: floats from here on are integral. */
#define INTEGRAL 8388608.0f

/* rounded with the sign of x, so that zeros keep theirs. */
static float signed_as(float rounded, float x)
{
    return trainc_float((trainc_bits(rounded) & INT32_MAX) | (trainc_bits(x) & INT32_MIN));
}

float trainc_round(float x)
{
    float magnitude = trainc_absolute(x);
    if (!(magnitude < INTEGRAL)) {
        return x;
    }
    /* Adding 2^23 leaves no bit for a fraction; the sum is rounded to even. */
    return signed_as((magnitude + INTEGRAL) - INTEGRAL, x);
}

float trainc_floor(float x)
{
    if (!(trainc_absolute(x) < INTEGRAL)) {
        return x;
    }
    float whole = (float)(int32_t)x;
    return whole > x ? whole - 1.0f : signed_as(whole, x);
}

float trainc_ceil(float x)
{
    return -trainc_floor(-x);
}

float trainc_sqrt(float x)
{
    uint32_t bits = (uint32_t)trainc_bits(x);
    if (x != x || bits << 1 == 0 || bits == UINT32_C(0x7f800000)) {
        return x;
    }
    if (bits >> 31 != 0) {
        return (x - x) / (x - x);
    }
    /* x = mantissa * 2^exponent, the mantissa of 24 or 25 bits, the exponent odd. */
    int32_t exponent = (int32_t)(bits >> 23) - 150;
    uint32_t mantissa = bits & UINT32_C(0x7fffff);
    if (exponent == -150) {
        int32_t zeros = trainc_leading_zeros((int32_t)mantissa) - 8;
        mantissa <<= zeros;
        exponent = -149 - zeros;
    } else {
        mantissa |= UINT32_C(0x800000);
    }
    if (exponent % 2 == 0) {
        mantissa <<= 1;
        exponent -= 1;
    }
    /* The root of mantissa * 2^25, bit by bit: 25 bits, the last below the result's. What is left
     * of that is kept by the bit that is next, so that 32 bits hold it. */
    uint32_t root = 0;
    uint32_t rest = mantissa << 1;
    for (uint32_t bit = UINT32_C(1) << 24; bit != 0; bit >>= 1) {
        const uint32_t least = 2 * root + bit;
        if (rest >= least) {
            rest -= least;
            root += bit;
        }
        rest <<= 1;
    }
    /* A root is never halfway between two floats. */
    uint32_t rounded = (root + 1) >> 1;
    int32_t power = (exponent - 25) / 2 + 1 + 149;
    return trainc_float((int32_t)(((uint32_t)power << 23) + rounded));
}

/* Compilers recognise the loops below and would make calls of memcpy, memmove and memset of them:
 * here they would call themselves. */
#if defined(__clang__)
#define MEMORY_FUNCTION __attribute__((no_builtin("memcpy", "memmove", "memset")))
#elif defined(__GNUC__)
#define MEMORY_FUNCTION __attribute__((optimize("no-tree-loop-distribute-patterns")))
#else
#define MEMORY_FUNCTION
#endif

/* Words may stand for any elements; where a compiler has no way to say so, only bytes do. */
#ifdef __GNUC__
typedef uint32_t __attribute__((may_alias)) word;
#else
typedef unsigned char word;
#endif

/* Whether both are the addresses of words. */
static int are_words(const void *a, const void *b)
{
    return (((uintptr_t)a | (uintptr_t)b) & (sizeof(word) - 1)) == 0;
}

MEMORY_FUNCTION void trainc_copy(void *dst, const void *src, size_t bytes)
{
    size_t i = 0;
    if (are_words(dst, src)) {
        for (; bytes - i >= sizeof(word); i += sizeof(word)) {
            *(word *)(void *)((unsigned char *)dst + i) =
                *(const word *)(const void *)((const unsigned char *)src + i);
        }
    }
    for (; i < bytes; i++) {
        ((unsigned char *)dst)[i] = ((const unsigned char *)src)[i];
    }
}

MEMORY_FUNCTION void trainc_move(void *dst, const void *src, size_t bytes)
{
    if ((uintptr_t)dst - (uintptr_t)src >= bytes) {
        /* What is read has not been written: copying goes upwards. */
        trainc_copy(dst, src, bytes);
        return;
    }
    size_t i = bytes;
    for (; i > 0 && !(are_words((unsigned char *)dst + i, (const unsigned char *)src + i)
        && i >= sizeof(word)); i--) {
        ((unsigned char *)dst)[i - 1] = ((const unsigned char *)src)[i - 1];
    }
    for (; i >= sizeof(word); i -= sizeof(word)) {
        *(word *)(void *)((unsigned char *)dst + i - sizeof(word)) =
            *(const word *)(const void *)((const unsigned char *)src + i - sizeof(word));
    }
    for (; i > 0; i--) {
        ((unsigned char *)dst)[i - 1] = ((const unsigned char *)src)[i - 1];
    }
}

MEMORY_FUNCTION void trainc_set(void *dst, unsigned char value, size_t bytes)
{
    size_t i = 0;
    if (are_words(dst, dst)) {
        const word words = (word)(value * UINT32_C(0x01010101));
        for (; bytes - i >= sizeof(word); i += sizeof(word)) {
            *(word *)(void *)((unsigned char *)dst + i) = words;
        }
    }
    for (; i < bytes; i++) {
        ((unsigned char *)dst)[i] = value;
    }
}

#ifdef TRAINC_PROVIDE_MEMORY_FUNCTIONS
void *memcpy(void *dst, const void *src, size_t bytes);
void *memmove(void *dst, const void *src, size_t bytes);
void *memset(void *dst, int value, size_t bytes);

MEMORY_FUNCTION void *memcpy(void *dst, const void *src, size_t bytes)
{
    trainc_copy(dst, src, bytes);
    return dst;
}

MEMORY_FUNCTION void *memmove(void *dst, const void *src, size_t bytes)
{
    trainc_move(dst, src, bytes);
    return dst;
}

MEMORY_FUNCTION void *memset(void *dst, int value, size_t bytes)
{
    trainc_set(dst, (unsigned char)value, bytes);
    return dst;
}
#endif

/* CRC-32 (IEEE 802.3, reflected), continued from crc. */
static uint32_t checksum(uint32_t crc, const unsigned char *data, size_t bytes)
{
    static const uint32_t table[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158,
        0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4,
        0xa00ae278, 0xbdbdf21c,
    };
    crc = ~crc;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= data[i];
        crc = (crc >> 4) ^ table[crc & 15];
        crc = (crc >> 4) ^ table[crc & 15];
    }
    return ~crc;
}

static void put(unsigned char *to, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        to[i] = (unsigned char)(value >> (8 * i));
    }
}

static uint64_t get(const unsigned char *from, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) {
        value |= (uint64_t)from[i] << (8 * i);
    }
    return value;
}

/* Offsets in the header. */
enum { VERSION = 4, MODEL = 8, STEP = 16, BYTES = 24, CHECKSUM = 28 };

static const unsigned char magic[4] = { 'T', 'R', 'N', 'C' };

static uint32_t checkpoint_checksum(const unsigned char *checkpoint, uint32_t bytes)
{
    uint32_t crc = checksum(0, checkpoint, CHECKSUM);
    return checksum(crc, checkpoint + TRAINC_CHECKPOINT_HEADER, bytes);
}

void trainc_save(void *checkpoint, const void *state, uint32_t bytes, uint64_t model,
    uint64_t step)
{
    unsigned char *to = (unsigned char *)checkpoint;
    trainc_copy(to, magic, sizeof magic);
    put(to + VERSION, TRAINC_CHECKPOINT_VERSION, 4);
    put(to + MODEL, model, 8);
    put(to + STEP, step, 8);
    put(to + BYTES, bytes, 4);
    trainc_copy(to + TRAINC_CHECKPOINT_HEADER, state, bytes);
    put(to + CHECKSUM, checkpoint_checksum(to, bytes), 4);
}

enum trainc_status trainc_load(void *state, uint64_t *step, const void *checkpoint, size_t size,
    uint32_t bytes, uint64_t model)
{
    const unsigned char *from = (const unsigned char *)checkpoint;
    if (size < TRAINC_CHECKPOINT_HEADER) {
        return TRAINC_WRONG_SIZE;
    }
    for (size_t i = 0; i < sizeof magic; i++) {
        if (from[i] != magic[i]) {
            return TRAINC_WRONG_FORMAT;
        }
    }
    if (get(from + VERSION, 4) != TRAINC_CHECKPOINT_VERSION) {
        return TRAINC_WRONG_FORMAT;
    }
    if (get(from + MODEL, 8) != model) {
        return TRAINC_WRONG_MODEL;
    }
    if (get(from + BYTES, 4) != bytes || size - TRAINC_CHECKPOINT_HEADER != bytes) {
        return TRAINC_WRONG_SIZE;
    }
    if (get(from + CHECKSUM, 4) != checkpoint_checksum(from, bytes)) {
        return TRAINC_DAMAGED;
    }
    trainc_copy(state, from + TRAINC_CHECKPOINT_HEADER, bytes);
    *step = get(from + STEP, 8);
    return TRAINC_OK;
}
