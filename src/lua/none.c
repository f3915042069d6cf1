/* none.c: a build without Lua (configure --without-lua): programs that use it are told so.
 * Tests: tests/unit/check_lua.c (without_lua_it_says_so), which does as this file.
 */
#include "lua.h"

const SessionLua *luat_language(void) {
  return NULL;
}

const char *luat_version(void) {
  return NULL;
}
