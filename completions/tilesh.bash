# Completion of tilesh in bash. Made by scripts/mkdocs from src/options.def.
_tilesh() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
  # `cuda:0` is cut at its colon: the word then begins before it.
  if [ "$prev" = : ]; then prev=${COMP_WORDS[COMP_CWORD - 3]}; fi
  case $prev in
  --arch) COMPREPLY=($(compgen -W 'sm_80 sm_86 sm_89 sm_90a sm_100a sm_103a sm_120a' -- "$cur")); return ;;
  --checks) COMPREPLY=($(compgen -W 'all default none' -- "$cur")); return ;;
  --color) COMPREPLY=($(compgen -W 'auto always never' -- "$cur")); return ;;
  --cpu) COMPREPLY=($(compgen -W 'baseline v3 v4 auto' -- "$cur")); return ;;
  --device) COMPREPLY=($(compgen -W 'cpu cuda cuda:0' -- "$cur")); return ;;
  --emit) COMPREPLY=($(compgen -W 'ast ir scheduled lowered cuda ptx cubin' -- "$cur")); return ;;
  --execute|--args|--shake|--threads|--vs|--bench-bursts|--filter) return ;;
  cache) COMPREPLY=($(compgen -W clear -- "$cur")); return ;;
  esac
  case $cur in
  -*) COMPREPLY=($(compgen -W '--execute --device --arch --emit --args --output --checks --verify-each --shake --threads --cpu --color --json --vs --bench-bursts --filter --tap --junit --check --no-init --safe --version --help -e -o -V -h' -- "$cur")) ;;
  *)
    COMPREPLY=($(compgen -f -X '!*.@(tile|lua)' -- "$cur") $(compgen -d -- "$cur"))
    [ "$COMP_CWORD" -eq 1 ] && COMPREPLY+=($(compgen -W 'check test bench fmt explain doctor cache' -- "$cur"))
    ;;
  esac
}
shopt -s extglob
complete -o filenames -F _tilesh tilesh
