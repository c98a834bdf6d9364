/* Types of C99's <stdint.h>. */
typedef char int8_t;
typedef uchar uint8_t;
typedef short int16_t;
typedef ushort uint16_t;
typedef int int32_t;
typedef uint uint32_t;
typedef long int64_t;
typedef ulong uint64_t;

#define INT64_C(value) value##L

#define INT32_MIN (-2147483647 - 1)

#define INT32_MAX 2147483647

#define INT64_MIN (-INT64_C(9223372036854775807) - 1)

/* Integers that wrap around. */
static int32_t trainc_add32(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a + (uint32_t)b);
}

static int32_t trainc_subtract32(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a - (uint32_t)b);
}

static int32_t trainc_multiply32(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a * (uint32_t)b);
}

static int32_t trainc_negate32(int32_t a)
{
    return (int32_t)(0 - (uint32_t)a);
}

/* Toward zero; b is not 0. */
static int32_t trainc_divide32(int32_t a, int32_t b)
{
    return b == -1 ? trainc_negate32(a) : a / b;
}

/* Sign of a; b is not 0. */
static int32_t trainc_remainder32(int32_t a, int32_t b)
{
    return b == -1 ? 0 : a % b;
}

static int32_t trainc_shift_left32(int32_t a, int64_t amount)
{
    return (int32_t)((uint32_t)a << amount);
}

static int32_t trainc_shift_right_unsigned32(int32_t a, int64_t amount)
{
    return (int32_t)((uint32_t)a >> amount);
}

static int64_t trainc_add64(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t trainc_subtract64(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static int64_t trainc_multiply64(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

static int64_t trainc_negate64(int64_t a)
{
    return (int64_t)(0 - (uint64_t)a);
}

/* Toward zero; b is not 0. */
static int64_t trainc_divide64(int64_t a, int64_t b)
{
    return b == -1 ? trainc_negate64(a) : a / b;
}

/* Sign of a; b is not 0. */
static int64_t trainc_remainder64(int64_t a, int64_t b)
{
    return b == -1 ? 0 : a % b;
}

static int64_t trainc_shift_left64(int64_t a, int64_t amount)
{
    return (int64_t)((uint64_t)a << amount);
}

static int64_t trainc_shift_right_unsigned64(int64_t a, int64_t amount)
{
    return (int64_t)((uint64_t)a >> amount);
}

static int32_t trainc_minimum32(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static int32_t trainc_maximum32(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static int64_t trainc_minimum64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t trainc_maximum64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Zeros above the highest bit that is set; 32 for 0. */
static int32_t trainc_leading_zeros(int32_t a)
{
    return (int32_t)clz((uint32_t)a);
}

/* The bits of an IEEE binary32, and back. */
static int32_t trainc_bits(float x)
{
    return as_int(x);
}

static float trainc_float(int32_t bits)
{
    return as_float(bits);
}

/* The second operand where neither is less. */
static float trainc_minimum(float a, float b)
{
    return a < b ? a : b;
}

/* The second operand where neither is more. */
static float trainc_maximum(float a, float b)
{
    return a > b ? a : b;
}

static float trainc_absolute(float x)
{
    return as_float(as_int(x) & INT32_MAX);
}

/* Toward zero, saturating; 0 for NaN. */
static int32_t trainc_to_integer(float x)
{
    if (x >= 2147483648.0f) {
        return INT32_MAX;
    }
    if (x <= -2147483648.0f) {
        return INT32_MIN;
    }
    return x != x ? 0 : (int32_t)x;
}

/* To integral values: ties to even, down, up. These of OpenCL are exact. */
static float trainc_round(float x)
{
    return rint(x);
}

static float trainc_floor(float x)
{
    return floor(x);
}

static float trainc_ceil(float x)
{
    return ceil(x);
}

/* The quotient, to nearest with ties to even: OpenCL's own may be off by 2.5 units in the last place. */
static float trainc_divide(float a, float b)
{
#ifdef TRAINC_ROUNDED_DIVISION
    return a / b;
#else
    const uint32_t infinity = 0x7f800000u;
    const uint32_t sign = (as_uint(a) ^ as_uint(b)) & 0x80000000u;
    uint32_t x = as_uint(a) & INT32_MAX;
    uint32_t y = as_uint(b) & INT32_MAX;
    if (x > infinity || y > infinity || (x == y && (x == 0 || x == infinity))) {
        return as_float(0x7fc00000u);
    }
    if (x == infinity || y == 0) {
        return as_float(sign | infinity);
    }
    if (x == 0 || y == infinity) {
        return as_float(sign);
    }
    /* Mantissas of 24 bits, x not below y, and the quotient's exponent. */
    int32_t x_exponent = (int32_t)(x >> 23);
    int32_t y_exponent = (int32_t)(y >> 23);
    x &= 0x7fffff;
    y &= 0x7fffff;
    if (x_exponent == 0) {
        x_exponent = 9 - (int32_t)clz(x);
        x <<= 1 - x_exponent;
    } else {
        x |= 0x800000;
    }
    if (y_exponent == 0) {
        y_exponent = 9 - (int32_t)clz(y);
        y <<= 1 - y_exponent;
    } else {
        y |= 0x800000;
    }
    int32_t exponent = x_exponent - y_exponent + 127;
    if (x < y) {
        x <<= 1;
        exponent -= 1;
    }
    if (exponent > 254) {
        return as_float(sign | infinity);
    }
    /* 26 bits: two more than the result has, the last also says whether anything follows. */
    const uint64_t dividend = (uint64_t)x << 25;
    uint32_t quotient = (uint32_t)(dividend / y);
    quotient |= dividend % y != 0;
    if (exponent < 1) {
        const int32_t lost = exponent < -24 ? 26 : 1 - exponent;
        quotient = quotient >> lost | ((quotient & ((1u << lost) - 1)) != 0);
        exponent = 0;
    } else {
        exponent -= 1;
    }
    const uint32_t rest = quotient & 3;
    quotient >>= 2;
    quotient += rest > 2 || (rest == 2 && (quotient & 1) != 0);
    return as_float(sign | (((uint32_t)exponent << 23) + quotient));
#endif
}

/* The square root, to nearest: OpenCL's own may be off by 3 units in the last place. */
static float trainc_sqrt(float x)
{
#ifdef TRAINC_ROUNDED_DIVISION
    return sqrt(x);
#else
    uint32_t bits = as_uint(x);
    if (x != x || bits << 1 == 0 || bits == 0x7f800000u) {
        return x;
    }
    if (bits >> 31 != 0) {
        return as_float(0x7fc00000u);
    }
    /* x = mantissa * 2^exponent, the mantissa of 24 or 25 bits, the exponent odd. */
    int32_t exponent = (int32_t)(bits >> 23) - 150;
    uint32_t mantissa = bits & 0x7fffff;
    if (exponent == -150) {
        const int32_t zeros = (int32_t)clz(mantissa) - 8;
        mantissa <<= zeros;
        exponent = -149 - zeros;
    } else {
        mantissa |= 0x800000;
    }
    if (exponent % 2 == 0) {
        mantissa <<= 1;
        exponent -= 1;
    }
    /* The root of mantissa * 2^25, bit by bit: 25 bits, the last below the result's. */
    uint64_t rest = (uint64_t)mantissa << 25;
    uint64_t root = 0;
    for (uint64_t bit = 1UL << 48; bit != 0; bit >>= 2) {
        if (rest >= root + bit) {
            rest -= root + bit;
            root = (root >> 1) + bit;
        } else {
            root >>= 1;
        }
    }
    /* A root is never halfway between two floats. */
    const uint32_t rounded = (uint32_t)((root + 1) >> 1);
    const int32_t power = (exponent - 25) / 2 + 1 + 149;
    return as_float(((uint32_t)power << 23) + rounded);
#endif
}
