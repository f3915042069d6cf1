/* driver.c: runs a fuzz target over files, where there is no libFuzzer.
 *
 *   replay_X FILE...      each file is one input; says `N inputs` at the end
 *
 * So the targets compile in every build, and tests/fuzz/run gives them the kept corpora and the
 * programs of the other tests.
 */
#include <stdlib.h>

#include "base/base.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    Arena *a = arena_new(NULL, "input");
    const char *why = NULL;
    size_t n = 0;
    char *text = io_read_file(a, argv[i], &n, &why);
    if (!text) {
      fprintf(stderr, "%s: %s\n", argv[i], why);
      return 2;
    }
    char *exact = malloc(n ? n : 1); /* no byte more, for the sanitizers */
    if (!exact)
      return 2;
    memcpy(exact, text, n);
    arena_free(a);
    LLVMFuzzerTestOneInput((const uint8_t *)exact, n);
    free(exact);
  }
  printf("%d inputs\n", argc - 1);
  return 0;
}
