/* The few functions of a C library that a test program needs, on the system calls of Linux, which
 * qemu-hexagon emulates. A device has a library of its own. Compile with -fno-builtin. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { READ = 63, WRITE = 64, EXIT_GROUP = 94 };

struct trainc_stream {
    int file;
};

static struct trainc_stream files[3] = { { 0 }, { 1 }, { 2 } };
FILE *const stdin = &files[0];
FILE *const stdout = &files[1];
FILE *const stderr = &files[2];

/* Output waits here. */
static unsigned char waiting[1 << 16];
static size_t length;

static long call(long number, long a, long b, long c)
{
    register long r6 __asm__("r6") = number;
    register long r0 __asm__("r0") = a;
    register long r1 __asm__("r1") = b;
    register long r2 __asm__("r2") = c;
    __asm__ volatile("trap0(#1)" : "+r"(r0) : "r"(r6), "r"(r1), "r"(r2) : "memory");
    return r0;
}

static int write_all(int file, const unsigned char *from, size_t bytes)
{
    while (bytes > 0) {
        long done = call(WRITE, file, (long)(uintptr_t)from, (long)bytes);
        if (done <= 0) {
            return -1;
        }
        from += done;
        bytes -= (size_t)done;
    }
    return 0;
}

int fflush(FILE *stream)
{
    size_t bytes = length;
    (void)stream;
    length = 0;
    return write_all(1, waiting, bytes);
}

size_t fread(void *to, size_t size, size_t count, FILE *stream)
{
    unsigned char *at = (unsigned char *)to;
    size_t left = size * count;
    fflush(stdout);
    while (left > 0) {
        long done = call(READ, stream->file, (long)(uintptr_t)at, (long)left);
        if (done <= 0) {
            return 0;
        }
        at += done;
        left -= (size_t)done;
    }
    return count;
}

size_t fwrite(const void *from, size_t size, size_t count, FILE *stream)
{
    const unsigned char *at = (const unsigned char *)from;
    size_t bytes = size * count;
    if (stream->file != 1 || bytes > sizeof waiting) {
        fflush(stdout);
        return write_all(stream->file, at, bytes) == 0 ? count : 0;
    }
    if (length + bytes > sizeof waiting && fflush(stdout) != 0) {
        return 0;
    }
    memcpy(waiting + length, at, bytes);
    length += bytes;
    return count;
}

int putchar(int byte)
{
    unsigned char one = (unsigned char)byte;
    return fwrite(&one, 1, 1, stdout) == 1 ? byte : -1;
}

/* The format as it is. */
int fprintf(FILE *stream, const char *format, ...)
{
    size_t bytes = 0;
    while (format[bytes] != '\0') {
        bytes++;
    }
    return fwrite(format, 1, bytes, stream) == bytes ? (int)bytes : -1;
}

void exit(int status)
{
    fflush(stdout);
    for (;;) {
        call(EXIT_GROUP, status, 0, 0);
    }
}

void *memcpy(void *to, const void *from, size_t bytes)
{
    unsigned char *a = (unsigned char *)to;
    const unsigned char *b = (const unsigned char *)from;
    for (size_t i = 0; i < bytes; i++) {
        a[i] = b[i];
    }
    return to;
}

void *memset(void *to, int value, size_t bytes)
{
    unsigned char *a = (unsigned char *)to;
    for (size_t i = 0; i < bytes; i++) {
        a[i] = (unsigned char)value;
    }
    return to;
}

int main(void);

__attribute__((used)) static void start(void)
{
    exit(main());
}

__asm__(".text\n.globl _start\n.p2align 4\n_start:\n{ r29 = and(r29,#-128) }\ncall start\n");
