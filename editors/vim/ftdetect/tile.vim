" Files of the tile language.
autocmd BufNewFile,BufRead *.tile setfiletype tile
