#!/bin/sh
# Links bin/queend into the first folder of the path that is made for such things: BINDIR, else ~/.local/bin or
# /usr/local/bin. What somebody else put there stays as it is.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
test -n "${BINDIR:-}" && folders=$BINDIR || folders="${HOME:-/nowhere}/.local/bin /usr/local/bin"
for folder in $folders; do
    case ":$PATH:" in *":$folder:"*) ;; *) test -n "${BINDIR:-}" || continue ;; esac
    link=$folder/queend
    if test -e "$link"; then
        test -L "$link" && test -e "$(dirname "$(readlink -f "$link")")/../queend/_core.pyx" || exit 0
    fi
    test "$(readlink -f "$link" 2>/dev/null)" != "$here/bin/queend" || exit 0
    test -z "${BINDIR:-}" || mkdir -p "$folder" || :      # it was asked for
    test -d "$folder" && test -w "$folder" || continue
    ln -sfn "$here/bin/queend" "$link"
    echo "the command queend is in $folder" >&2
    exit 0
done
echo "the command queend is $here/bin/queend" >&2
