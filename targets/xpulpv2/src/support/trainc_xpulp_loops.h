/* What loops ask of trainc_rt.h, by instructions that compilers for plain RV32 do not know: the
 * smaller and the larger of two numbers without a branch (p.min, p.max). */
#ifndef TRAINC_XPULP_LOOPS_H
#define TRAINC_XPULP_LOOPS_H

#include "trainc_rt.h"
#include "trainc_xpulp.h"

#if defined(TRAINC_XPULP_INSN) || defined(TRAINC_XPULP_BUILTINS)
#define trainc_minimum32(a, b) ((int32_t)trainc_xpulp_min((uint32_t)(a), (uint32_t)(b)))
#define trainc_maximum32(a, b) ((int32_t)trainc_xpulp_max((uint32_t)(a), (uint32_t)(b)))
#endif

#endif
