pk.tile:1:9: error[E0800]: nothing is named integers
   1 | let c = integers(zeros(i8,5120,5120),zeros(i8,5120,5120).T)
     |         ^^^^^^^^
