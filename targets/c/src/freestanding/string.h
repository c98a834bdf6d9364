/* Memory, where there is no C library. */
#ifndef TRAINC_EMULATION_STRING_H
#define TRAINC_EMULATION_STRING_H

#include <stddef.h>

void *memcpy(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);

#endif
