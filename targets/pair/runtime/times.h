/* Times of launches, for trainc measure: a clock of nanoseconds on either side. */
#ifndef TRAINC_TIMES_H
#define TRAINC_TIMES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C"
#endif
uint64_t trainc_clock(void);

#define TRAINC_CYCLES() trainc_clock()

#endif
