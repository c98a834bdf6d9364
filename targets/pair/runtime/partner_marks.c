/* A mark of the DSP's side: the emulator's packet counter, register C20, less the packets of marks. Without a
 * library. */
#include <stdint.h>

enum { WRITE = 64 };

void trainc_count_mark(unsigned int label);

static uint32_t of_marks;

static uint32_t packets(void)
{
    register uint32_t count __asm__("r0");
    /* r0 = c20, which assemblers have no name for. */
    __asm__ volatile(".word 0x6a14c000" : "=r"(count));
    return count;
}

static long call(long number, long a, long b, long c)
{
    register long r6 __asm__("r6") = number;
    register long r0 __asm__("r0") = a;
    register long r1 __asm__("r1") = b;
    register long r2 __asm__("r2") = c;
    __asm__ volatile("trap0(#1)" : "+r"(r0) : "r"(r6), "r"(r1), "r"(r2) : "memory");
    return r0;
}

static char *decimal(char *end, uint32_t number)
{
    do {
        *--end = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    return end;
}

/* Puts a word in front. */
static char *word(char *from, const char *text)
{
    const char *end = text;
    while (*end != '\0') {
        end++;
    }
    while (end != text) {
        *--from = *--end;
    }
    return from;
}

void trainc_count_mark(unsigned int label)
{
    const uint32_t at = packets();
    char text[64];
    char *const end = text + sizeof text;
    char *from = end;
    *--from = '\n';
    from = decimal(from, at - of_marks);
    *--from = ' ';
    from = word(decimal(from, label), "trainc-mark-there ");
    (void)call(WRITE, 2, (long)(uintptr_t)from, (long)(end - from));
    of_marks += packets() - at;
}
