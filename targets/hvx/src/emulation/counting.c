/* A mark: the emulator's packet counter, register C20, less the packets of marks. */
#include <stdint.h>
#include <stdio.h>

void trainc_count_mark(unsigned int label);
uint32_t trainc_count_packets(void);
void trainc_count_less(uint32_t packets);

static uint32_t of_marks;

uint32_t trainc_count_packets(void)
{
    register uint32_t count __asm__("r0");
    /* r0 = c20, which assemblers have no name for. */
    __asm__ volatile(".word 0x6a14c000" : "=r"(count));
    return count;
}

void trainc_count_less(uint32_t packets)
{
    of_marks += packets;
}

static char *decimal(char *end, uint32_t number)
{
    do {
        *--end = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    return end;
}

void trainc_count_mark(unsigned int label)
{
    const uint32_t at = trainc_count_packets();
    char text[48];
    char *const end = text + sizeof text;
    char *from = end;
    *--from = '\n';
    from = decimal(from, at - of_marks);
    *--from = ' ';
    from = decimal(from, label);
    for (const char *word = " kram-cniart"; *word != '\0'; word++) {
        *--from = *word;
    }
    fwrite(from, 1, (size_t)(end - from), stderr);
    of_marks += trainc_count_packets() - at;
}
