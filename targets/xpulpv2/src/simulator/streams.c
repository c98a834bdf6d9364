/* A C library's streams for programs without an operating system; see host.h. */
#include <stdint.h>

#include "host.h"
#include "stdio.h"
#include "stdlib.h"

struct trainc_stream {
    int32_t descriptor;
};

static FILE streams[3] = { { 0 }, { 1 }, { 2 } };
FILE *const stdin = &streams[0], *const stdout = &streams[1], *const stderr = &streams[2];

size_t fread(void *to, size_t size, size_t count, FILE *stream)
{
    (void)stream;
    const size_t bytes = size * count;
    size_t done = 0;
    while (done < bytes) {
        const int32_t some = host_read((char *)to + done, bytes - done);
        if (some <= 0) {
            break;
        }
        done += (size_t)some;
    }
    return size == 0 ? 0 : done / size;
}

size_t fwrite(const void *from, size_t size, size_t count, FILE *stream)
{
    const int32_t written = host_call(64, stream->descriptor, from, size * count);
    return written == (int32_t)(size * count) ? count : 0;
}

int fflush(FILE *stream)
{
    (void)stream;
    return 0;
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
    for (;;) {
        host_exit(status);
    }
}
