/* print.c: what kernels print, in the order of their blocks.
 *
 * In: a block's text as it grows. Out: the text of all blocks, lowest first, on the launch's
 * stream. A block whose turn it is writes as it goes, so that an endless one shows its output and
 * takes no memory; the text of others is kept until their turn. After a fault nothing of later
 * blocks shows.
 * Texts are kept by block in an arena that lives as long as the launch.
 * Tests: tests/unit/check_eval.c (prints_come_in_block_order).
 */
#include "run.h"

enum { MOST_IN_TABLE = 1 << 20, STREAM = 1 << 16 };

/* Without a pool blocks run in order and need no table. */
bool eval_print_open(EvalLaunch *l) {
  bool apart = l->options->pool || l->program->interleave;
  if (!l->program->prints || !apart)
    return true;
  if (l->blocks > MOST_IN_TABLE)
    return false;
  l->text = arena_new(NULL, "prints");
  l->print = ARENA_ARRAY(l->text, Str, l->blocks);
  l->ended = ARENA_ARRAY(l->text, bool, l->blocks);
  return true;
}

/* A full device is the session's to report: io_write's verdict shows at its next write. A noisy run
 * is one more of the same call: nobody asked for its prints. */
static void put_out(EvalLaunch *l, Str *s) {
  if (s->n && !l->options->noise)
    io_write(l->options->print ? l->options->print : stdout, s->s, s->n);
  str_clear(s);
}

/* Small texts wait: a line at a time would cost a system call each. */
void eval_print_more(EvalBlock *b) {
  EvalLaunch *l = b->launch;
  if (b->print->n < STREAM || l->debug)
    return;
  pthread_mutex_lock(&l->mutex);
  if (!l->print || l->turn == b->linear)
    put_out(l, b->print);
  pthread_mutex_unlock(&l->mutex);
}

/* Then also the texts of higher blocks that were only waiting for this one. */
void eval_print_end(EvalBlock *b) {
  EvalLaunch *l = b->launch;
  pthread_mutex_lock(&l->mutex);
  if (!l->print || l->turn == b->linear) {
    put_out(l, b->print);
  } else if (b->print->n) {
    l->print[b->linear] = str_new(l->text);
    str_addn(&l->print[b->linear], b->print->s, b->print->n);
    str_clear(b->print);
  }
  if (l->print)
    l->ended[b->linear] = true;
  for (; l->print && !b->fault.set && l->turn < l->blocks && l->ended[l->turn]; l->turn++)
    put_out(l, &l->print[l->turn]);
  pthread_mutex_unlock(&l->mutex);
}

/* Blocks that did not run have nothing to say; those above a fault may not. */
void eval_print_close(EvalLaunch *l) {
  int64_t last = atomic_load(&l->faulty);
  for (int64_t i = l->turn; l->print && i < l->blocks && i <= last; i++)
    put_out(l, &l->print[i]);
  arena_free(l->text);
}
