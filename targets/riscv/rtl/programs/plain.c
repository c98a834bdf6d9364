/* Plain C as a compiler writes it: a convolution with requantisation in 64 bits, divisions, a sort with calls through
 * pointers, copies at odd addresses. */
#include <stddef.h>
#include "host.h"

void *memcpy(void *, const void *, size_t);
void *memmove(void *, const void *, size_t);

static int8_t image[12][12][8], filters[8][3][3][8];
static int32_t results[10][10][8];
static uint32_t numbers[200];

static uint32_t state = 7;
static uint32_t draw(void) { return state = state * 1664525u + 1013904223u; }

static int ascending(uint32_t a, uint32_t b) { return a < b; }
static int by_remainder(uint32_t a, uint32_t b) { return a % 1009 < b % 1009; }

static void sort(uint32_t *values, int count, int (*before)(uint32_t, uint32_t))
{
    for (int i = 1; i < count; i++)
        for (int j = i; j > 0 && before(values[j], values[j - 1]); j--) {
            const uint32_t kept = values[j];
            values[j] = values[j - 1];
            values[j - 1] = kept;
        }
}

int main(void)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < sizeof image; i++)
        ((int8_t *)image)[i] = (int8_t)(draw() >> 24);
    for (size_t i = 0; i < sizeof filters; i++)
        ((int8_t *)filters)[i] = (int8_t)(draw() >> 24);
    host_mark(1);
    for (int y = 0; y < 10; y++)
        for (int x = 0; x < 10; x++)
            for (int k = 0; k < 8; k++) {
                int32_t sum = 0;
                for (int v = 0; v < 3; v++)
                    for (int u = 0; u < 3; u++)
                        for (int c = 0; c < 8; c++)
                            sum += image[y + v][x + u][c] * filters[k][v][u][c];
                const int64_t scaled = ((int64_t)sum * 1518500250 + (1ll << 37)) >> 38;
                results[y][x][k] = scaled > 127 ? 127 : scaled < -128 ? -128 : (int32_t)scaled;
            }
    host_mark(2);
    for (int i = 0; i < 200; i++)
        numbers[i] = draw() / (i + 1) + draw() % 12345;
    sort(numbers, 200, ascending);
    sort(numbers, 200, by_remainder);
    host_mark(3);
    for (int i = 0; i < 40; i++)
        memmove((char *)numbers + 3 * i, (char *)results + 7 * i + 1, (size_t)(40 + i));
    for (int i = 0; i < 100; i++)
        memcpy((char *)numbers + i, (char *)results + 3 * i, 32);
    host_mark(4);
    for (int i = 0; i < 800; i++)
        hash = (hash ^ (uint32_t)(&results[0][0][0])[i]) * 16777619u;
    for (int i = 0; i < 200; i++)
        hash = (hash ^ numbers[i]) * 16777619u;
    host_write(&hash, sizeof hash);
    return (int)(hash & 63);
}
