/* main.c: the command line. So far only --version; the session's command line replaces it. */
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "--version") == 0)
    return puts("tilesh " PACKAGE_VERSION) < 0 || fflush(stdout) != 0 ? 2 : 0;
  fputs("tilesh: nothing but --version is there yet\n", stderr);
  return 2;
}
