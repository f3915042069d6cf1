/* clock.h: the one clock that durations are measured with. */
#ifndef TILESH_BASE_CLOCK_H
#define TILESH_BASE_CLOCK_H

/* Seconds since some moment, of a clock that nobody sets. */
double base_now(void);

#endif
