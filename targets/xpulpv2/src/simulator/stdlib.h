/* The end of a program in the simulator; see streams.c. */
#ifndef TRAINC_EMULATION_STDLIB_H
#define TRAINC_EMULATION_STDLIB_H

__attribute__((noreturn)) void exit(int status);

#endif
