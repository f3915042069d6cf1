-- A program that does not compile: exit status 3.
tile.eval "kernel k() -> (C: f32[4]) {\n  C[0] = x\n}"
