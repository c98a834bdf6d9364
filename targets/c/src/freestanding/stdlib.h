/* The end of a program, where there is no C library. */
#ifndef TRAINC_EMULATION_STDLIB_H
#define TRAINC_EMULATION_STDLIB_H

__attribute__((noreturn)) void exit(int status);

#endif
