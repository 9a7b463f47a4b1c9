/* The side of libFuzzer: Python is there for the module to be made, and never asked again. The program's name says
 * which target it is. */
#include <Python.h>
#include <libgen.h>
#include <sanitizer/lsan_interface.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "targets.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const char *name = basename((*argv)[0]);
    __lsan_disable();         /* what the interpreter keeps is its own */
    if (PyImport_AppendInittab("targets", PyInit_targets) < 0)
        exit(2);
    Py_InitializeEx(0);
    if (PyImport_ImportModule("targets") == NULL) {
        PyErr_Print();
        exit(2);
    }
    if (fuzz_choose(name) != 0) {
        fprintf(stderr, "no target of the name %s\n", name);
        exit(2);
    }
    PyEval_SaveThread();
    __lsan_enable();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    return fuzz_one(data, n);
}
