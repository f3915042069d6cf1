/* none.c: a build without Lua (configure --without-lua): programs that use it are told so. */
#include "lua.h"

const SessionLua *luat_language(void) {
  return NULL;
}

const char *luat_version(void) {
  return NULL;
}
