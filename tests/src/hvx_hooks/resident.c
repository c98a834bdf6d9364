/* Uses of packed constants, from standard input: a number and its bytes. Writes whether each was there, and
 * dies if its bytes were others. */
#include <stdint.h>
#include <stdio.h>

#include "trainc_hvx_hooks.h"

int main(void)
{
    static const char parts[64];
    static uint8_t own[1 << 16];
    unsigned part, bytes;
    while (scanf("%u %u", &part, &bytes) == 2) {
        uint8_t *place = own;
        const int there = trainc_hvx_kept(part % 3, parts + part, bytes, &place);
        if (((uintptr_t)place & 127) != 0 && place != own) {
            return 2;
        }
        for (unsigned i = 0; i < bytes; i++) {
            const uint8_t byte = (uint8_t)(part * 31 + i);
            if (there && place[i] != byte) {
                return 3;
            }
            place[i] = byte;
        }
        putchar(there ? '1' : '0');
    }
    return 0;
}
