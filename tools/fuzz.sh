# Builds what libFuzzer drives: the core once more, under clang's sanitizers, and a program for each target (tests/fuzz).
#   FUZZ_FLAGS=… sh tools/fuzz.sh PYTHON FOLDER
set -e
python=$1 folder=$2
mkdir -p "$folder"
ask() { "$python" -c "import sysconfig; print(sysconfig.get_config_var('$1'))"; }
library=$(ask LDVERSION) where=$(ask LIBDIR)
headers=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
# What Python sees of the core comes last in its map. No target goes through it, and without it clang has half to do.
last='^# The core as Python sees it'
grep -q "$last" queend/_core.pyx || { echo "$0: the heading $last is not in queend/_core.pyx" >&2; exit 1; }
sed "/$last/,\$d" queend/_core.pyx > "$folder/rooms.pyx"
# without garbage collection: setup.py says why
"$python" -c 'import gc; gc.disable(); from Cython.Compiler.Main import main; main(command_line=1)' \
    -3 -I "$folder" -I . -I queend tests/fuzz/targets.pyx -o "$folder/targets.c"
# shellcheck disable=SC2046,SC2086
clang $FUZZ_FLAGS -w -DQUEEND_ONE_THREAD -fno-strict-aliasing -fno-omit-frame-pointer \
    -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
    -fsanitize-ignorelist=tests/fuzz/ignored.txt -fsanitize-coverage-ignorelist=tests/fuzz/ignored.txt \
    -I"$folder" -Iqueend/core/includes -I"$headers" "$folder/targets.c" tests/fuzz/main.c -o "$folder/fuzz.new" \
    -L"$where" -Wl,-rpath,"$where" -lpython"$library" $(pkg-config --cflags --libs libuv libpq libssl libcrypto libzstd zlib) -lpthread
for target in head chunk json lines arrow frames events spool packet; do
    ln -sf fuzz "$folder/$target"
done
mv "$folder/fuzz.new" "$folder/fuzz"
