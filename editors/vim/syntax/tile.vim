" Vim syntax of the tile language. Made by scripts/mkdocs from the program's tables.
if exists("b:current_syntax")
  finish
endif
syntax include @tileLua syntax/lua.vim
unlet! b:current_syntax
syntax iskeyword @,48-57,_
syntax keyword tileItem kernel fn bench check assert
syntax keyword tileStatement let var shared fragment local barrier grid layout specialize import lua test
syntax keyword tileControl for while if else break continue return
syntax keyword tileOperator in and or not
syntax keyword tileConstant true false nil inf nan None
syntax keyword tileType dtype int float str bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 f8e4m3 f8e5m2
syntax keyword tileModifier inout static producer consumer as
syntax match tileCall /\<\%(abs\|absmax\|acos\|all\|allclose\|any\|arange\|argmax\|argmin\|arrive\|asin\|atan\|atan2\|atomic_add\|atomic_and\|atomic_cas\|atomic_exchange\|atomic_max\|atomic_min\|atomic_or\|atomic_xor\|auto\|bitcast\|cat\|cbrt\|ceil\|ceildiv\|clamp\|clz\|contiguous\|copy\|cos\|cosh\|cumsum\|empty\|erf\|exp\|exp2\|expm1\|eye\|fill\|float\|floor\|fma\|full\|gemm\|grouped\|hypot\|int\|iota\|isinf\|isnan\|len\|load\|log\|log1p\|log2\|max\|maxdiff\|mean\|min\|mulhi\|ones\|padded\|parallel\|persistent\|pipelined\|popcount\|pow\|print\|prod\|rand\|randint\|randn\|range\|read_ir\|reshape\|round\|rsqrt\|save\|seed\|sigmoid\|sign\|sin\|sinh\|sort\|sqrt\|str\|sum\|swizzle\|tan\|tanh\|tensor\|time\|transpose\|trunc\|unroll\|use_device\|vectorized\|wait\|where\|zeros\)\ze\s*(/
syntax match tileAttribute /@\%(exact\|unchecked\)\>/
syntax match tileNumber /\<\%(0[xX][0-9a-fA-F_]\+\|0[bB][01_]\+\|\d[0-9_]*\%(\.\d[0-9_]*\)\?\%([eE][+-]\?\d\+\)\?\)\>/
syntax match tileEscape /\\\%([ntr0\\"]\|x\x\{2}\|u\x\{4}\)/ contained
syntax region tileString start=/"/ skip=/\\./ end=/"\|$/ contains=tileEscape
syntax match tileComment /#.*/ contains=tileTodo
syntax match tileDoc /^\s*##\%(#\)\@!.*/
syntax keyword tileTodo TODO FIXME XXX contained
syntax region tileLuaBlock matchgroup=tileItem start=/\<lua\s*{/ end=/}/ contains=@tileLua

highlight default link tileItem Keyword
highlight default link tileStatement Statement
highlight default link tileControl Conditional
highlight default link tileOperator Operator
highlight default link tileConstant Constant
highlight default link tileType Type
highlight default link tileModifier StorageClass
highlight default link tileCall Function
highlight default link tileAttribute PreProc
highlight default link tileNumber Number
highlight default link tileEscape SpecialChar
highlight default link tileString String
highlight default link tileComment Comment
highlight default link tileDoc SpecialComment
highlight default link tileTodo Todo
let b:current_syntax = "tile"
