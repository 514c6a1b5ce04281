#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the sizes of files, functions, lines, parameter lists and the number of function-like macros.

An exception is one line of tools/size_exceptions.txt: `KIND WHERE LIMIT reason`, WHERE being what the report prints. An
exception that nothing needs any more is a fault too, so that the list only shrinks.

usage: check_sizes.py [ROOT]        faults, exit status 1 if there is any
       check_sizes.py --advise      also what is above the sizes at which one should talk about it
       check_sizes.py --self-test   check that planted faults are found
"""
import argparse
import pathlib
import re
import sys
import tempfile

from cpp_source import CPP_SUFFIXES, ROOT, source_files, strip_cpp

HARD = {"file": 800, "header": 300, "cmake": 150, "function": 100, "line": 100, "comment": 120, "parameters": 5,
        "macros": 6}
TALK = {"file": 400, "function": 60}
# The widths of text that is no C++: prose of scripts and build files is read less often beside other code.
OTHER_WIDTH = 130
SCRIPT_SUFFIXES = {".py", ".sh", ".cmake"}
CONTROL = {"if", "for", "while", "switch", "catch", "return", "sizeof", "alignas", "decltype", "noexcept", "requires"}


def matching(text, start, pair):
    """Index after the bracket that closes text[start]."""
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] == pair[0]) - (text[i] == pair[1])
        if depth == 0:
            return i + 1
    return len(text)


def is_aggregate(head):
    return re.search(r"\b(namespace|class|struct|union|enum|extern)\b", head) and not re.search(r"\)\s*(const)?\s*$", head)


def function_head(head):
    """(name, parameter text) if `head`, the text before a brace, begins a function; else None."""
    if "=" in re.sub(r"operator\s*[=<>!+*/-]+|[<>=!]=", "", head.split("(")[0]):
        return None
    for match in re.finditer(r"([~\w:]+|operator\s*\S{1,3})\s*\(", head):
        name = match.group(1)
        if name.split("::")[-1] in CONTROL:
            continue
        end = matching(head, match.end() - 1, "()")
        rest = head[end:].strip()
        if re.match(r"^(const|noexcept|override|final|mutable|&|->|:|\[\[|requires|\(|$)", rest):
            return name, head[match.end():end - 1]
        return None
    return None


def count_parameters(text):
    depth, count = 0, bool(text.strip()) and text.strip() != "void"
    for character in text:
        depth += (character in "(<[{") - (character in ")>]}")
        count += character == "," and depth == 0
    return int(count)


def functions(text):
    """Yields (name, first line, lines, parameters) of every function body in stripped C++ text."""
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.M)
    i = head_start = 0
    while i < len(text):
        character = text[i]
        if character in ";}":
            head_start = i + 1
        elif character == "(":
            i = matching(text, i, "()")
            continue
        elif character == "{":
            head = text[head_start:i]
            found = None if is_aggregate(head) else function_head(head)
            if found:
                end = matching(text, i, "{}")
                first = text.count("\n", 0, head_start + len(head) - len(head.lstrip())) + 1
                yield found[0], first, text.count("\n", 0, end) + 2 - first, count_parameters(found[1])
                i = head_start = end
                continue
            if not is_aggregate(head):  # an initialiser: its braces hold no functions
                i = matching(text, i, "{}")
                continue
            head_start = i + 1
        i += 1


def check_cpp(name, text, kernel):
    code = strip_cpp(text)
    code_lines = code.split("\n")
    for number, line in enumerate(text.split("\n"), 1):
        kind = "line" if len(code_lines[number - 1].rstrip()) > HARD["line"] else "comment"
        limit = HARD["comment"] if re.search(r"//|^\s*\*", line) and kind == "comment" else HARD["line"]
        if len(line) > limit and "#include" not in line:
            yield "line", f"{name}:{number}", len(line), limit
    for function, first, lines, parameters in functions(code):
        yield "function", f"{name}:{function}", lines, HARD["function"]
        if not kernel and not function.isupper():
            yield "parameters", f"{name}:{function}", parameters, HARD["parameters"]


def measure(root):
    """Yields (kind, where, value, limit) of everything that has a limit, within it or not."""
    macros = []
    for path in source_files(root):
        name = path.relative_to(root).as_posix()
        cmake = path.name == "CMakeLists.txt" or path.suffix == ".cmake"
        if path.suffix not in CPP_SUFFIXES | SCRIPT_SUFFIXES and not cmake:
            continue
        text = path.read_text()
        lines = text.count("\n")
        limit = HARD["cmake"] if cmake else HARD["header"] if path.suffix in {".h", ".cuh"} else HARD["file"]
        yield "file", name, lines, limit
        if path.suffix not in CPP_SUFFIXES:
            for number, line in enumerate(text.split("\n"), 1):
                yield "line", f"{name}:{number}", len(line), OTHER_WIDTH
            continue
        yield from check_cpp(name, text, kernel=name.startswith("src/backend/"))
        macros += [f"{name}:{m}" for m in re.findall(r"^\s*#\s*define\s+(\w+)\(", strip_cpp(text), re.M)]
    names = {m.split(":")[1] for m in macros}
    yield "macros", "the whole tree", len(names), HARD["macros"]


def read_exceptions(root):
    path = root / "tools/size_exceptions.txt"
    rows = [line.split(None, 3) for line in path.read_text().splitlines() if line and line[0] != "#"] if path.exists() else []
    for row in rows:
        if len(row) < 4:
            raise SystemExit(f"tools/size_exceptions.txt: `{' '.join(row)}` has no reason")
    return {(kind, where): int(limit) for kind, where, limit, _ in rows}


def check(root):
    faults, exceptions, used = [], read_exceptions(root), set()
    for kind, where, value, limit in measure(root):
        if value <= limit:
            continue
        allowed = exceptions.get((kind, where))
        used.add((kind, where))
        if allowed is None or value > allowed:
            faults.append(f"{kind} {where}: {value}, the limit is {allowed or limit}")
    faults += [f"tools/size_exceptions.txt: `{kind} {where}` is needed no more" for kind, where in exceptions.keys() - used]
    return faults


def advise(root):
    talk = {"file": TALK["file"], "function": TALK["function"]}
    return [f"{kind} {where}: {value}, above {talk[kind]}" for kind, where, value, limit in measure(root)
            if kind in talk and talk[kind] < value <= limit]


PLANTED = [  # (file, text, words of the report)
    ("src/a.cpp", "int x;\n" * 801, "file src/a.cpp: 801"),
    ("src/a.h", "int x;\n" * 301, "file src/a.h: 301"),
    ("src/CMakeLists.txt", "\n" * 151, "file src/CMakeLists.txt: 151"),
    ("src/a.cpp", "void A::f(int a) const {\n" + "  g();\n" * 99 + "}\n", "function src/a.cpp:A::f: 101"),
    ("src/a.cpp", "namespace tr {\nclass C {\n  void f() {\n" + "  g();\n" * 99 + "  }\n};\n}\n", "src/a.cpp:f: 101"),
    ("src/a.cpp", "TEST(A, B) {\n" + "  g();\n" * 99 + "}\n", "function src/a.cpp:TEST: 101"),
    ("src/a.cpp", "void f(int a, std::map<int, int> b, int c, int d, int e, int g) {\n}\n", "parameters src/a.cpp:f: 6"),
    ("src/a.cpp", "int a = " + "1 + " * 25 + "1;\n", "line src/a.cpp:1"),
    ("src/a.h", "".join(f"#define M{i}(x) x\n" for i in range(7)), "macros the whole tree: 7"),
    ("tools/size_exceptions.txt", "file src/a.cpp 900 a reason\n", "is needed no more"),
]
SOUND = [
    ("src/a.cpp", "int x;\n" * 800),
    ("src/a.cpp", "void f(int a, std::map<int, int> b, int c, int d, int e) {\n" + "  g();\n" * 98 + "}\n"),
    ("src/a.cpp", "const int k[] = {\n" + "  1,\n" * 150 + "};\n"),
    ("src/a.cpp", "// void f() {\n" + "const char* s = \"{\";\n" * 150 + "// }\n"),
]


def self_test():
    failures = []
    for name, text, words in PLANTED + [(n, t, None) for n, t in SOUND]:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True)
            path.write_text(text)
            faults = check(pathlib.Path(folder))
        if words is None and faults:
            failures.append(f"sound text is refused: {faults}: {text[:60]!r}")
        elif words is not None and not any(words in f for f in faults):
            failures.append(f"not found: {words!r}; reported: {faults}")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", default=ROOT, type=pathlib.Path)
    parser.add_argument("--advise", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    if args.advise:
        print("\n".join(advise(args.root.resolve())))
    faults = self_test() if args.self_test else check(args.root.resolve())
    print("\n".join(faults) if faults else "sizes: within the limits")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
