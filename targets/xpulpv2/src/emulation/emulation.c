/* A C library of a few functions for programs without an operating system, whose host is asked by
 * `ecall` with a number in a7: read (63), write (64) and exit (93), as Linux numbers and defines
 * them. */
#include <stdint.h>

#include "stdio.h"
#include "stdlib.h"
#include "string.h"

/* Loops below must not become calls of the functions that they are in. */
#pragma GCC optimize("no-tree-loop-distribute-patterns")

struct trainc_stream {
    int32_t descriptor;
};

static FILE streams[3] = { { 0 }, { 1 }, { 2 } };
FILE *const stdin = &streams[0], *const stdout = &streams[1], *const stderr = &streams[2];

enum { READ = 63, WRITE = 64, EXIT = 93, HELD = 1 << 16 };

static int32_t host(int32_t number, int32_t first, const void *second, size_t third)
{
    register int32_t a0 __asm__("a0") = first;
    register const void *a1 __asm__("a1") = second;
    register size_t a2 __asm__("a2") = third;
    register int32_t a7 __asm__("a7") = number;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a2), "r"(a7) : "memory");
    return a0;
}

size_t fread(void *to, size_t size, size_t count, FILE *stream)
{
    const size_t bytes = size * count;
    size_t done = 0;
    while (done < bytes) {
        const int32_t some = host(READ, stream->descriptor, (char *)to + done, bytes - done);
        if (some <= 0) {
            break;
        }
        done += (size_t)some;
    }
    return size == 0 ? 0 : done / size;
}

/* What was written to standard output and not handed on. */
static unsigned char held[HELD];
static size_t holds;

static int hand_on(int32_t descriptor, const unsigned char *from, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        const int32_t some = host(WRITE, descriptor, from + done, bytes - done);
        if (some <= 0) {
            return -1;
        }
        done += (size_t)some;
    }
    return 0;
}

int fflush(FILE *stream)
{
    (void)stream;
    const size_t bytes = holds;
    holds = 0;
    return hand_on(stdout->descriptor, held, bytes);
}

size_t fwrite(const void *from, size_t size, size_t count, FILE *stream)
{
    const size_t bytes = size * count;
    if (stream != stdout) {
        return hand_on(stream->descriptor, from, bytes) == 0 ? count : 0;
    }
    if (holds + bytes > HELD && fflush(stdout) != 0) {
        return 0;
    }
    if (bytes > HELD) {
        return hand_on(stdout->descriptor, from, bytes) == 0 ? count : 0;
    }
    memcpy(held + holds, from, bytes);
    holds += bytes;
    return count;
}

int putchar(int byte)
{
    const unsigned char one = (unsigned char)byte;
    return fwrite(&one, 1, 1, stdout) == 1 ? byte : -1;
}

int fprintf(FILE *stream, const char *format, ...)
{
    size_t bytes = 0;
    while (format[bytes] != 0) {
        bytes++;
    }
    return fwrite(format, 1, bytes, stream) == bytes ? (int)bytes : -1;
}

void exit(int status)
{
    fflush(stdout);
    for (;;) {
        host(EXIT, status, 0, 0);
    }
}

/* Start-up calls this with the stack in place. */
int main(void);
void trainc_start(void);

void trainc_start(void)
{
    exit(main());
}

void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
    unsigned char *t = to;
    const unsigned char *f = from;
    while (bytes-- > 0) {
        *t++ = *f++;
    }
    return to;
}

void *memmove(void *to, const void *from, size_t bytes)
{
    unsigned char *t = to;
    const unsigned char *f = from;
    if (t <= f) {
        return memcpy(to, from, bytes);
    }
    while (bytes-- > 0) {
        t[bytes] = f[bytes];
    }
    return to;
}

void *memset(void *to, int value, size_t bytes)
{
    unsigned char *t = to;
    while (bytes-- > 0) {
        *t++ = (unsigned char)value;
    }
    return to;
}
