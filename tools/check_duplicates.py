#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures copied code: lines inside runs of at least 60 equal tokens that stand earlier in the tree too.

Comments, #include lines and layout do not count; names and numbers do, so a copy with other names is not found. The share is
duplicated lines over lines that hold code: at most 3 % in the library (include, src, tools, bench), 10 % in tests.

usage: check_duplicates.py [ROOT]        shares, and each copy with its model where a share is too high
       check_duplicates.py --list        each copy with its model
       check_duplicates.py --self-test   check that planted copies are found
"""
import argparse
import pathlib
import re
import sys
import tempfile

from cpp_source import CPP_SUFFIXES, ROOT, source_files, strip_cpp

WINDOW_TOKENS = 60
LIMITS = {"library": 0.03, "tests": 0.10}
TOKEN = re.compile(r'\w+|"[^"]*"|\S')


def part_of(name):
    top = name.split("/")[0]
    return {"include": "library", "src": "library", "tools": "library", "bench": "library", "tests": "tests"}.get(top)


def read_tokens(path):
    """[(token, line)] of a file."""
    text = path.read_text()
    if path.suffix in CPP_SUFFIXES:
        text = strip_cpp(re.sub(r"^\s*#\s*include[^\n]*", "", text, flags=re.M))
    else:
        text = re.sub(r"^\s*(import|from) [^\n]*|#[^\n]*", "", text, flags=re.M)
    return [(token, number) for number, line in enumerate(text.split("\n"), 1) for token in TOKEN.findall(line)]


def find_copies(files):
    """For [(name, tokens)]: ({name: duplicated lines}, [(name, first line, last line, model, model's line)])."""
    seen, lines, copies = {}, {}, []
    for name, tokens in files:
        open_copy = None
        for i in range(len(tokens) - WINDOW_TOKENS + 1):
            window = tuple(token for token, _ in tokens[i:i + WINDOW_TOKENS])
            first, last = tokens[i][1], tokens[i + WINDOW_TOKENS - 1][1]
            model = seen.setdefault(window, (name, i, first))
            if model[0] == name and i - model[1] < WINDOW_TOKENS:  # itself, or a run that repeats within the window
                open_copy = None
                continue
            lines.setdefault(name, set()).update(range(first, last + 1))
            if open_copy and open_copy[3] == model[0]:
                open_copy[2] = last
            else:
                open_copy = [name, first, last, model[0], model[2]]
                copies.append(open_copy)
    return lines, copies


def measure(root):
    """{part: (duplicated lines, code lines, copies)}"""
    parts = {part: [] for part in LIMITS}
    for path in source_files(root):
        name = path.relative_to(root).as_posix()
        if part_of(name) and path.suffix in CPP_SUFFIXES | {".py"}:
            parts[part_of(name)].append((name, read_tokens(path)))
    result = {}
    for part, files in parts.items():
        lines, copies = find_copies(files)
        code = {name: {number for _, number in tokens} for name, tokens in files}
        duplicated = sum(len(lines[name] & code[name]) for name in lines)
        result[part] = duplicated, sum(map(len, code.values())), copies
    return result


def check(root, show_all=False):
    report, faults = [], False
    for part, (duplicated, total, copies) in measure(root).items():
        share = duplicated / total if total else 0.0
        faults |= share > LIMITS[part]
        report.append(f"{part}: {duplicated} of {total} lines of code are copies, {share:.1%}, at most {LIMITS[part]:.0%}")
        if show_all or share > LIMITS[part]:
            report += [f"  {name}:{first}-{last} as {model}:{line}" for name, first, last, model, line in copies]
    return report, faults


def self_test():
    block = "".join(f"  sum{i} += weight[{i}] * input.at({i});  // a row\n" for i in range(12))
    other = "".join(f"  if (left{i} > right[{i}]) count -= {i};\n" for i in range(400))
    cases = [
        ({"src/a.cpp": block, "src/b.cpp": block}, True),
        ({"src/a.cpp": block, "src/b.cpp": re.sub("; *//", ";\n\n //", block)}, True),  # layout and comments differ
        ({"src/a.cpp": block + other[:2000] + block}, True),                            # within one file
        ({"src/a.cpp": block + other, "src/b.cpp": block[:80]}, False),                 # too short to be a copy
        ({"tests/a.cpp": block, "tests/b.cpp": block}, True),
        ({"src/a.cpp": block, "tests/b.cpp": block}, False),                            # parts are apart
        ({"src/a.cpp": "#include <vector>\n" * 99, "src/b.cpp": "#include <vector>\n" * 99}, False),
    ]
    failures = []
    for files, wanted in cases:
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
            report, faults = check(pathlib.Path(folder))
        if faults != wanted:
            failures.append(f"{list(files)}: wanted {wanted}, reported {report}")
    return failures, bool(failures)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", default=ROOT, type=pathlib.Path)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    report, faults = self_test() if args.self_test else check(args.root.resolve(), args.list)
    print("\n".join(report) or "duplicates: self-test passed")
    sys.exit(faults)


if __name__ == "__main__":
    main()
