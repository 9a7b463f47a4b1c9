"""Build of queend: the core and a small extension module of the Spark connector; the SQL files shipped as package data.

QUEEND_SANITIZE=address,undefined builds an instrumented module instead (make test-asan), QUEEND_SANITIZE=thread
another (make test-tsan).
QUEEND_QUICK=1 compiles without optimization or debug information: for a change that is to be tried at once.
QUEEND_TRACE=1 has every function report that it is called (make ways).
"""
import gc
import os
import subprocess
import sys
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

ROOT = Path(__file__).resolve().parent
LIBRARIES = ["libuv", "libpq", "libssl", "libcrypto", "libzstd", "zlib"]


def flags_of(libraries: list[str]) -> dict[str, list[str]]:
    """Compiler and linker flags of C libraries, as pkg-config tells them."""
    try:
        words = subprocess.run(["pkg-config", "--cflags", "--libs", *libraries],
                               check=True, capture_output=True, text=True).stdout.split()
    except FileNotFoundError:
        sys.exit("queend needs pkg-config to build:"
                 " apt-get install pkg-config libuv1-dev libpq-dev libssl-dev libzstd-dev zlib1g-dev")
    except subprocess.CalledProcessError as error:
        sys.exit(f"queend needs the development files of {', '.join(libraries)}:\n{error.stderr}"
                 "apt-get install libuv1-dev libpq-dev libssl-dev libzstd-dev zlib1g-dev")
    return {
        "include_dirs": [w[2:] for w in words if w.startswith("-I")],
        "library_dirs": [w[2:] for w in words if w.startswith("-L")],
        "libraries": [w[2:] for w in words if w.startswith("-l")],
    }


def core_source() -> str:
    """The map of the core; for a wheel without the seams that tests use."""
    if "bdist_wheel" not in sys.argv:
        return "queend/_core.pyx"
    bare = Path("build/wheel/_core.pyx")
    lines = (ROOT / "queend" / "_core.pyx").read_text().splitlines(keepends=True)
    (ROOT / bare).parent.mkdir(parents=True, exist_ok=True)
    (ROOT / bare).write_text("".join(line for line in lines if not line.startswith('include "core/probe/')))
    return str(bare)


def core_extension() -> Extension:
    # One translation unit on purpose: the compiler sees every room at once and inlines across them.
    # How generated code is indented says nothing, and to look at it takes ten seconds.
    compile_args = ["-O2", "-g", "-fno-strict-aliasing", "-fvisibility=hidden", "-Wall", "-Wno-unused-function",
                    "-Wno-misleading-indentation",
                    "-DOPENSSL_SUPPRESS_DEPRECATED",      # of the digests without a context of EVP (base/slice)
                    # what is declared inline is inlined, however large the unit has become
                    "--param=inline-unit-growth=60",
                    # what newer compilers refuse anyway
                    "-Werror=incompatible-pointer-types", "-Werror=int-conversion",
                    "-Werror=implicit-function-declaration"]
    link_args = ["-pthread"]
    if os.environ.get("QUEEND_QUICK"):
        compile_args += ["-O0", "-g0", "-w"]
    if os.environ.get("QUEEND_TRACE"):
        compile_args += ["-O0", "-g0", "-w", "-finstrument-functions"]
    sanitize = os.environ.get("QUEEND_SANITIZE")
    if sanitize:
        compile_args += [f"-fsanitize={sanitize}", "-fno-omit-frame-pointer", "-O1"]
        link_args += [f"-fsanitize={sanitize}"]
    rooms = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "queend" / "core").rglob("*")
                   if p.suffix in {".pyx", ".pxd", ".pxi", ".h", ".c"})
    return Extension(
        "queend._core", [core_source()], depends=rooms, include_dirs=["queend/core/includes"],
        extra_compile_args=compile_args, extra_link_args=link_args,
    )


def digests_extension() -> Extension:
    """Ids of rows for the sink of Spark: an executor loads this instead of the core."""
    digests = Extension("queend.spark._digests", ["queend/spark/_digests.pyx"], include_dirs=["queend/core/includes"],
                        depends=["queend/core/includes/wide.h"],
                        extra_compile_args=["-O2", "-g", "-fvisibility=hidden", "-Wall", "-Wno-unused-function",
                                            "-DOPENSSL_SUPPRESS_DEPRECATED"])
    for key, values in flags_of(["libcrypto"]).items():
        setattr(digests, key, getattr(digests, key) + values)
    return digests


def link_zlib(core: Extension) -> None:
    """Links zlib's archive, where there is one: auditwheel leaves the shared library out of a wheel, because it takes
    it for a part of every system."""
    compiler = os.environ.get("CC", "cc").split()
    archive = subprocess.run([*compiler, "-print-file-name=libz.a"], check=True, capture_output=True,
                             text=True).stdout.strip()
    if os.path.isabs(archive):
        core.libraries.remove("z")
        core.extra_objects.append(archive)
        core.extra_link_args.append("-Wl,--exclude-libs,libz.a")


def extensions() -> list[Extension]:
    if not (ROOT / "queend" / "_core.pyx").exists():
        return []
    core = core_extension()
    for key, values in flags_of(LIBRARIES).items():
        setattr(core, key, getattr(core, key) + values)
    link_zlib(core)
    # Cython holds a million nodes until it ends. Looking for garbage among them takes two fifths of its time.
    gc.disable()
    return cythonize([core, digests_extension()], include_path=[str(ROOT), str(ROOT / "queend")],
                     annotate=bool(os.environ.get("QUEEND_ANNOTATE")),
                     build_dir=os.environ.get("QUEEND_BUILD_DIR", "build"),
                     compiler_directives={"language_level": "3"})


def sql_packages() -> tuple[dict[str, str], list[str]]:
    """sql/ is shipped as queend/sql: the daemon finds it there in a wheel, and beside the package in a checkout."""
    folders = [p for p in [ROOT / "sql", *sorted((ROOT / "sql").rglob("*"))] if p.is_dir()]
    names = ["queend." + str(p.relative_to(ROOT)).replace(os.sep, ".") for p in folders]
    return {"queend.sql": "sql"} if folders else {}, names


sql_dirs, sql_names = sql_packages()
# What lies in this folder is installed beside queend: Spark looks for top-level modules (queend/spark/__init__.py).
FOUND = "queend/spark/found"
python_packages = ["queend"] + ["queend." + ".".join(p.parent.relative_to(ROOT / "queend").parts)
                                for p in sorted((ROOT / "queend").rglob("__init__.py"))
                                if p.parent != ROOT / "queend" and not p.is_relative_to(ROOT / FOUND)]

setup(
    packages=[*python_packages, *sql_names, "pyspark_queend"],
    package_dir={**sql_dirs, "pyspark_queend": f"{FOUND}/pyspark_queend"},
    package_data={"queend": ["dashboard/*", "dashboard/assets/*"], "queend.client": ["py.typed"],
                  "queend.testing": ["py.typed"],
                  **{name: ["*.sql"] for name in sql_names}},
    # where the units lie after an installation: PREFIX/share/queend
    data_files=[("share/queend/systemd", sorted(str(p.relative_to(ROOT)) for p in (ROOT / "systemd").iterdir()))],
    include_package_data=False,
    ext_modules=extensions(),
    zip_safe=False,
)
