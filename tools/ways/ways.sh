# The core once more, every call of a function written down, and what requests pass in it.
#   sh tools/ways/ways.sh PYTHON FOLDER
set -e
python=$1 folder=$2
root=$(pwd)
QUEEND_TRACE=1 QUEEND_BUILD_DIR=$folder/c $python setup.py --quiet build_ext --build-lib $folder/lib \
    --build-temp $folder/temp >&2    # what comes out here is the document
for part in queend/*; do
    case $part in queend/core | queend/_core* | queend/__pycache__) ;; *) ln -sfn $root/$part $folder/lib/$part ;; esac
done
ln -sfn $root/sql $folder/lib/sql
gcc -O2 -shared -fPIC tools/ways/trace.c -o $folder/trace.so
exec $python tools/ways/ways.py $folder/lib $folder/trace.so
