# Builds the core under sanitizers beside the ordinary one and runs tests with it.
#   sh tools/sanitized.sh PYTHON FOLDER SANITIZERS pytest-arguments…
# The interpreter itself is an ordinary one: their runtime is preloaded (tests/support/sanitizer.py hands it to the daemons only).
set -e
python=$1 folder=$2 kind=$3
shift 3
root=$(pwd)
QUEEND_SANITIZE=$kind QUEEND_BUILD_DIR=$folder/c $python setup.py --quiet build_ext --build-lib $folder/lib --build-temp $folder/temp
for part in queend/*.py queend/auth queend/cli queend/client queend/control queend/daemon queend/postgres queend/services queend/settings sql; do
    test -e $part || continue
    case $part in sql) to=$folder/lib ;; *) to=$folder/lib/queend ;; esac
    ln -sfn $root/$part $to/$(basename $part)
done
case $kind in
    thread) LD_PRELOAD=$(gcc -print-file-name=libtsan.so) ;;
    *) LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)" PYTHONMALLOC=malloc; export PYTHONMALLOC ;;
esac
ASAN_OPTIONS=detect_leaks=0:abort_on_error=1
UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
TSAN_OPTIONS=suppressions=$root/tests/support/tsan.supp:history_size=7
PYTHONSAFEPATH=1
PYTHONPATH=$folder/lib
export LD_PRELOAD ASAN_OPTIONS UBSAN_OPTIONS TSAN_OPTIONS PYTHONSAFEPATH PYTHONPATH
$python -c "import queend._core as core; assert core.__file__.startswith('$folder'), core.__file__"
exec $python -m pytest -p no:cacheprovider "$@"
