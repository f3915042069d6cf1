#!/bin/sh
# Makes ./configure from configure.ac.
set -e
cd "$(dirname "$0")"
command -v autoreconf >/dev/null || {
  echo "autogen.sh: autoreconf is missing (Debian: autoconf automake pkg-config)" >&2
  exit 1
}
exec autoreconf --install --force -Wall,no-portability
