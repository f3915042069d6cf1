/* clock.h: the one clock that durations are measured with, and the one of work done. */
#ifndef TILESH_BASE_CLOCK_H
#define TILESH_BASE_CLOCK_H

/* Seconds since some moment, of a clock that nobody sets. */
double base_now(void);
/* Seconds of processor time that the calling thread has used: how long it worked, whoever else
 * works beside it. */
double base_worked(void);

#endif
