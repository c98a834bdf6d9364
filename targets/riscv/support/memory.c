/* What a compiler expects of a C library even of a freestanding program. */
#include <stddef.h>
#include <stdint.h>

/* The loops below must not become calls of themselves. */
#pragma GCC optimize("no-tree-loop-distribute-patterns")

void *memcpy(void *restrict to, const void *restrict from, size_t count)
{
    unsigned char *t = to;
    const unsigned char *f = from;
    if ((((uintptr_t)t | (uintptr_t)f) & 3) == 0)
        for (; count >= 4; count -= 4, t += 4, f += 4)
            *(uint32_t __attribute__((may_alias)) *)t = *(const uint32_t __attribute__((may_alias)) *)f;
    while (count--)
        *t++ = *f++;
    return to;
}

void *memmove(void *to, const void *from, size_t count)
{
    unsigned char *t = to;
    const unsigned char *f = from;
    if (t <= f)
        return memcpy(to, from, count);
    while (count--)
        t[count] = f[count];
    return to;
}

void *memset(void *to, int value, size_t count)
{
    unsigned char *t = to;
    for (; count && ((uintptr_t)t & 3); count--)
        *t++ = (unsigned char)value;
    for (; count >= 4; count -= 4, t += 4)
        *(uint32_t __attribute__((may_alias)) *)t = (unsigned char)value * 0x01010101u;
    while (count--)
        *t++ = (unsigned char)value;
    return to;
}

int memcmp(const void *first, const void *second, size_t count)
{
    const unsigned char *a = first, *b = second;
    for (; count; count--, a++, b++)
        if (*a != *b)
            return *a < *b ? -1 : 1;
    return 0;
}
