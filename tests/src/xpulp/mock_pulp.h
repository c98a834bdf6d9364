/* The PULP compiler's builtins as its documentation defines them, for compilers that lack them. */
#include <stdint.h>

typedef signed char mock_v4s __attribute__((vector_size(4)));
typedef unsigned char mock_v4u __attribute__((vector_size(4)));
typedef short mock_v2s __attribute__((vector_size(4)));

#define MOCK static inline __attribute__((unused))
#define DOT(a, b) (a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3])
MOCK unsigned __builtin_pulp_dotup4(mock_v4u a, mock_v4u b) { return (unsigned)DOT(a, b); }
MOCK int __builtin_pulp_dotusp4(mock_v4u a, mock_v4s b) { return DOT(a, b); }
MOCK int __builtin_pulp_dotsp4(mock_v4s a, mock_v4s b) { return DOT(a, b); }
MOCK unsigned __builtin_pulp_sdotup4(mock_v4u a, mock_v4u b, unsigned c) { return c + (unsigned)DOT(a, b); }
MOCK int __builtin_pulp_sdotusp4(mock_v4u a, mock_v4s b, int c) { return (int)((unsigned)c + (unsigned)DOT(a, b)); }
MOCK int __builtin_pulp_sdotsp4(mock_v4s a, mock_v4s b, int c) { return (int)((unsigned)c + (unsigned)DOT(a, b)); }
MOCK int __builtin_pulp_sdotsp2(mock_v2s a, mock_v2s b, int c)
{
    return (int)((unsigned)c + (unsigned)(a[0] * b[0]) + (unsigned)(a[1] * b[1]));
}
#define LANES(name, type, order) \
    MOCK type name(type a, type b) \
    { \
        for (int i = 0; i < 4; i++) { \
            a[i] = a[i] order b[i] ? a[i] : b[i]; \
        } \
        return a; \
    }
LANES(__builtin_pulp_min4, mock_v4s, <)
LANES(__builtin_pulp_minu4, mock_v4u, <)
LANES(__builtin_pulp_max4, mock_v4s, >)
LANES(__builtin_pulp_maxu4, mock_v4u, >)
MOCK mock_v4s __builtin_pulp_shuffleb(mock_v4s a, mock_v4s b)
{
    mock_v4s r = a;
    for (int i = 0; i < 4; i++) {
        r[i] = a[b[i] & 3];
    }
    return r;
}
MOCK mock_v4s __builtin_pulp_shuffle4b(mock_v4s a, mock_v4s b, mock_v4s c)
{
    mock_v4s r = a;
    for (int i = 0; i < 4; i++) {
        r[i] = c[i] & 4 ? b[c[i] & 3] : a[c[i] & 3];
    }
    return r;
}
MOCK mock_v2s __builtin_pulp_pack2(short a, short b) { return (mock_v2s){ a, b }; }
MOCK int __builtin_pulp_minsi(int a, int b) { return a < b ? a : b; }
MOCK int __builtin_pulp_maxsi(int a, int b) { return a > b ? a : b; }
MOCK unsigned __builtin_pulp_minusi(unsigned a, unsigned b) { return a < b ? a : b; }
MOCK unsigned __builtin_pulp_maxusi(unsigned a, unsigned b) { return a > b ? a : b; }
MOCK int __builtin_pulp_clip(int a, int low, int high) { return a < low ? low : a > high ? high : a; }
MOCK int __builtin_pulp_clipu(int a, int low, int high) { return a < low ? low : a > high ? high : a; }
MOCK int __builtin_pulp_clip_r(int a, int high) { return a < -high - 1 ? -high - 1 : a > high ? high : a; }
MOCK int __builtin_pulp_clipu_r(int a, int high) { return a < 0 ? 0 : a > high ? high : a; }
MOCK int __builtin_pulp_mac(int a, int b, int c) { return (int)((unsigned)c + (unsigned)a * (unsigned)b); }
MOCK int __builtin_pulp_msu(int a, int b, int c) { return (int)((unsigned)c - (unsigned)a * (unsigned)b); }
MOCK int __builtin_pulp_bextract(int a, int size, int offset)
{
    return (int)((unsigned)a << (32 - size - offset)) >> (32 - size);
}
MOCK unsigned __builtin_pulp_bextractu(unsigned a, int size, int offset)
{
    return a << (32 - size - offset) >> (32 - size);
}
MOCK int __builtin_pulp_binsert(int d, int kept, int a, int mask, int offset)
{
    return (d & kept) | ((int)((unsigned)a << offset) & mask);
}
