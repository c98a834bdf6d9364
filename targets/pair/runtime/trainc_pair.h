/* Two devices that share memory: what the functions of an artifact say of the other device. */
#ifndef TRAINC_PAIR_H
#define TRAINC_PAIR_H

#include <stdint.h>

/* A segment of no launches: what it takes is what going to the other device and back takes. */
#define TRAINC_PAIR_NOTHING UINT32_C(0xffffffff)

enum trainc_pair_status {
    /* All ran. */
    TRAINC_PAIR_OK = 0,
    /* Nobody connected the other device. */
    TRAINC_PAIR_UNCONNECTED = 1,
    /* It ended, or could not be reached. */
    TRAINC_PAIR_LOST = 2,
    /* It did not answer in time. */
    TRAINC_PAIR_LATE = 3,
    /* It was built of another program. */
    TRAINC_PAIR_REFUSED = 4
};

#endif
