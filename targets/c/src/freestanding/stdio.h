/* Standard streams, where there is no C library: the functions stand beside. */
#ifndef TRAINC_EMULATION_STDIO_H
#define TRAINC_EMULATION_STDIO_H

#include <stddef.h>

typedef struct trainc_stream FILE;
extern FILE *const stdin, *const stdout, *const stderr;

size_t fread(void *to, size_t size, size_t count, FILE *stream);
size_t fwrite(const void *from, size_t size, size_t count, FILE *stream);
int fprintf(FILE *stream, const char *format, ...);
int putchar(int byte);
int fflush(FILE *stream);

#endif
