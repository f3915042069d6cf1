/* lua.h: Lua 5.4 as host glue: `lua { }`, `tilesh x.lua`, `:lua`, `import "x.lua"`, the module
 * `tile`.
 *
 * In: a session and Lua text. Out: what the text does through the session; errors of either side as
 * errors of the other. What always holds: no jump crosses a Lua frame (entries of the session below
 * Lua end in a status, Lua below the session in lua_pcall's); nothing of Lua is touched before a
 * program needs it. Tests: tests/unit/check_lua.c, tests/lua.
 */
#ifndef TILESH_LUA_H
#define TILESH_LUA_H

#include "session/host.h"

/* For SessionOptions.lua; NULL where the program was built without Lua. */
const SessionLua *luat_language(void);
/* "Lua 5.4.4", or NULL where the program was built without it: for `tilesh doctor`. */
const char *luat_version(void);

#endif
