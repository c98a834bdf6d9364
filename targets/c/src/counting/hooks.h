/* Counting under an emulator: marks around calls of entries and, unless TRAINC_UNMARKED, when an
 * entry begins and after each launch. */
#ifndef TRAINC_COUNTING_HOOKS_H
#define TRAINC_COUNTING_HOOKS_H

#ifdef __cplusplus
extern "C"
#endif
void trainc_count_mark(unsigned int label);

#define TRAINC_COUNTED(label) trainc_count_mark(label)
#ifndef TRAINC_UNMARKED
#define TRAINC_ENTERED(arena, state, entry) trainc_count_mark(0x80000000u | (unsigned int)(entry))
#define TRAINC_LAUNCHED(arena, state, launch, node) trainc_count_mark(launch)
#endif

#endif
