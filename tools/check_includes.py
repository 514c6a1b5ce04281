#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the direction of includes between the folders.

The table in docs/architecture.md ("Folders and who may include whom") is the rule: a folder may include itself, the
folders of its row, and what those may include. include/renaissance/X counts as src/X. Besides:
  - a public header includes public headers and the standard library only;
  - no header of a third-party library is reachable from a public header (asked of the compiler, not of the text), and
    every public header compiles by itself;
  - the DEPENDS of a tr_module() names no folder that its row forbids.

usage: check_includes.py [ROOT] [--compiler CXX]      check a tree (default: the one this file is in)
       check_includes.py --self-test [--compiler CXX] check that planted faults are found
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
THIRD_PARTY = re.compile(r"/(cuda\w*|cudnn\w*|cublas\w*|nccl\w*|nvrtc\w*|dnnl\w*|oneapi|jpeglib\w*|turbojpeg\w*|png\w*|"
                         r"nlohmann|fmt|toml\+\+|CLI|curl|zlib|mpi|gtest)(/|\.h)")
EVERYTHING = "everything"
CPP_SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}


def read_table(root):
    """{folder: set of folders named in its row}, folders without the leading src/."""
    rows = {}
    for line in (root / "docs/architecture.md").read_text().splitlines():
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        folders = re.findall(r"`src/([\w/]+)`", cells[0]) if len(cells) == 3 else []
        allowed = set(re.findall(r"[\w/]+", cells[-1])) - {"nothing"}
        for folder in folders:
            # Folders that share a row are ordered: a later one stands on the earlier ones.
            rows[folder] = allowed | set(folders[: folders.index(folder)])
    return rows


def closure(rows):
    """The same with what the named folders may include themselves."""
    full = {}
    for folder in rows:
        seen, queue = set(), [folder]
        while queue:
            current = queue.pop()
            if current in seen:
                continue
            seen.add(current)
            named = rows.get(current, set())
            queue += rows.keys() if EVERYTHING in named else named
        full[folder] = seen
    return full


def folder_of(path, rows):
    """The folder of the table that `path` (relative to src/ or include/renaissance/) lies in; None if in none."""
    parts = path.split("/")
    for depth in (2, 1):
        name = "/".join(parts[:depth])
        if len(parts) > depth and name in rows:
            return name
    return None


def resolve(target, rows):
    """(folder, is public) of an include's text; (None, ...) for what is not ours."""
    if target.startswith("renaissance/"):
        return folder_of(target[len("renaissance/"):], rows), True
    return folder_of(target, rows), False


def check_text(root, rows):
    faults, allowed = [], closure(rows)
    for base, public in (("include/renaissance", True), ("src", False)):
        for path in sorted((root / base).rglob("*")):
            if path.suffix not in CPP_SUFFIXES:
                continue
            folder = folder_of(path.relative_to(root / base).as_posix(), rows)
            where = path.relative_to(root)
            if folder is None:
                faults.append(f"{where}: lies in no folder of the table in docs/architecture.md")
                continue
            for _, target in INCLUDE.findall(path.read_text()):
                other, other_public = resolve(target, rows)
                if other is None:
                    continue
                if other not in allowed[folder]:
                    faults.append(f"{where}: includes {target}; {folder} may include only "
                                  f"{', '.join(sorted(allowed[folder]))}")
                if public and not other_public:
                    faults.append(f"{where}: a public header includes the private {target}")
    return faults


def check_depends(root, rows):
    faults, allowed = [], closure(rows)
    for path in sorted((root / "src").rglob("CMakeLists.txt")):
        folder = path.parent.relative_to(root / "src").as_posix()
        for words in re.findall(r"DEPENDS\s+([\w\s/]+?)(?=\)|LIBRARIES|SOURCES)", path.read_text()):
            for name in words.split():
                if name not in {f for a in allowed.get(folder, ()) for f in (a, a.split("/")[-1])}:
                    faults.append(f"src/{folder}/CMakeLists.txt: DEPENDS names {name}, which its row does not allow")
    return faults


def check_header(root, header, compiler):
    """Compiles one public header by itself and reads the list of all files that it reached."""
    where = header.relative_to(root)
    with tempfile.TemporaryDirectory() as folder:
        unit, deps = pathlib.Path(folder, "unit.cpp"), pathlib.Path(folder, "unit.d")
        unit.write_text(f'#include "{header.relative_to(root / "include")}"\n')
        run = subprocess.run([compiler, "-std=c++20", "-fsyntax-only", "-I", str(root / "include"), "-MD", "-MF",
                              str(deps), str(unit)], capture_output=True, text=True)
        if run.returncode:
            return [f"{where}: does not compile by itself: {run.stderr.strip().splitlines()[0]}"]
        reached = deps.read_text().replace("\\\n", " ").split()
    return [f"{where}: reaches {path}" for path in reached
            if not path.startswith(str(root)) and THIRD_PARTY.search(path)]


def check_public(root, compiler):
    headers = sorted((root / "include").rglob("*.h"))
    with ThreadPoolExecutor(2) as pool:
        return [f for faults in pool.map(lambda h: check_header(root, h, compiler), headers) for f in faults]


def check(root, compiler):
    rows = read_table(root)
    if not rows:
        return ["docs/architecture.md: found no table of folders"]
    return check_text(root, rows) + check_depends(root, rows) + check_public(root, compiler)


def write_tree(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


SOUND = {
    "docs/architecture.md": "| folder | what | may include |\n|---|---|---|\n| `src/core` | a | nothing |\n"
                            "| `src/tensor` | b | core |\n| `src/ops` | b | tensor |\n"
                            "| `src/backend`, `src/backend/cpu` | c | ops |\n| `src/task` | d | everything |\n",
    "include/renaissance/core/a.h": "#pragma once\n#include <vector>\n",
    "include/renaissance/tensor/t.h": '#pragma once\n#include "renaissance/core/a.h"\n',
    "src/core/a.cpp": '#include "renaissance/core/a.h"\n',
    "src/backend/run.h": '#include "renaissance/core/a.h"\n',
    "src/backend/cpu/k.cpp": '#include "backend/run.h"\n#include "renaissance/tensor/t.h"\n',
    "src/task/t.cpp": '#include "backend/run.h"\n',
    "src/backend/CMakeLists.txt": "tr_module(backend SOURCES a.cpp DEPENDS ops tensor)\n",
}
PLANTED = [  # (files put over the sound tree, words that the report must hold)
    ({"src/core/b.cpp": '#include "renaissance/tensor/t.h"\n'}, "core may include only"),
    ({"src/backend/b.cpp": '#include "backend/cpu/k.h"\n'}, "backend may include only"),
    ({"include/renaissance/tensor/t.h": '#include "core/a.h"\n'}, "includes the private core/a.h"),
    ({"include/renaissance/core/a.h": "#include <zlib.h>\n"}, "reaches"),
    ({"include/renaissance/core/a.h": "inline std::size_t n = 0;\n"}, "does not compile by itself"),
    ({"src/core/CMakeLists.txt": "tr_module(core SOURCES a.cpp DEPENDS tensor)\n"}, "DEPENDS names tensor"),
    ({"src/other/x.cpp": "\n"}, "lies in no folder"),
]


def self_test(compiler):
    failures = []
    for planted, words in [({}, None)] + PLANTED:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            write_tree(root, SOUND | planted)
            faults = check(root, compiler)
        if words is None and faults:
            failures.append(f"a sound tree is refused: {faults}")
        elif words is not None and not any(words in f for f in faults):
            failures.append(f"not found: {words!r} in {planted}; reported: {faults}")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", default=pathlib.Path(__file__).resolve().parent.parent, type=pathlib.Path)
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    faults = self_test(args.compiler) if args.self_test else check(args.root.resolve(), args.compiler)
    print("\n".join(faults) if faults else "includes: sound")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
