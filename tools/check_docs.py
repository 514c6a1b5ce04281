#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds what the documents say against the tree.

  - a relative link leads to a file, and its #anchor to a heading of it;
  - a path in `code quotes` that begins with a folder of the tree exists;
  - `make TARGET` names a target of the Makefile;
  - every page of docs/ is listed in docs/README.md;
  - the program printed in README.md is tests/example/readme_program.cpp, line for line, and the
    project that uses the library is tests/package/user/CMakeLists.txt, the program of docs/data.md is
    tests/example/own_dataset.cpp, and what docs/your-own-op.md and docs/control.md print lies in
    tests/package/own_op and tests/package/own_loss;
  - every TR_ environment variable that the code asks for is described in docs/env.md.

usage: check_docs.py [ROOT] | check_docs.py --self-test
"""
import argparse
import pathlib
import re
import sys
import tempfile

from cpp_source import CPP_SUFFIXES, ROOT, source_files

FOLDERS = "include|src|tests|tools|bench|docs|cmake|python|experiments|recipes"
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
QUOTED_PATH = re.compile(rf"`((?:{FOLDERS})/[\w./-]*)`")
MAKE = re.compile(r"(?:`|^\s*(?:\$ )?)make ([a-z][a-z-]*)", re.M)
PROGRAM = "tests/example/readme_program.cpp"
PROGRAMS = {"README.md": [PROGRAM, "tests/package/user/CMakeLists.txt"],
            "docs/data.md": ["tests/example/own_dataset.cpp"],
            "docs/control.md": ["tests/package/own_loss/losses.cpp"],
            "docs/your-own-op.md": [f"tests/package/own_op/{n}" for n in (
                "soft_cap.cpp", "soft_cap_cuda.cu", "CMakeLists.txt")]}
LANGUAGES = {".cpp": "cpp", ".cu": "cpp", ".txt": "cmake"}


def anchors(text):
    """GitHub's anchors of the headings."""
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", h.strip().lower()).replace(" ", "-") for h in headings}


def without_fences(text):
    return re.sub(r"^```.*?^```", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.M | re.S)


def check_links(root, page, text):
    for target in LINK.findall(without_fences(text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        if not found.exists():
            yield f"link to {target}: there is no such file"
        elif anchor and found.suffix == ".md" and anchor not in anchors(found.read_text()):
            yield f"link to {target}: that page has no such heading"


def check_names(root, text, targets):
    for path in QUOTED_PATH.findall(text):
        # Capitals stand for any name: src/X, src/ops/NAME.cpp.
        stands_for_any = re.search(r"(^|/)(?!README)[A-Z]+(_\w+)?(\.\w+)?(/|$)", path)
        if not (root / path).exists() and not stands_for_any:
            yield f"names {path}, which does not exist"
    for target in MAKE.findall(text):
        if target not in targets:
            yield f"names `make {target}`, which the Makefile does not have"


def check_programs(root):
    for page, name in [(page, name) for page, names in PROGRAMS.items() for name in names]:
        if not (root / page).exists():
            yield f"{page} is missing"
        elif not (root / name).exists():
            yield f"{name} is missing"
        else:
            language = LANGUAGES[pathlib.Path(name).suffix]
            blocks = re.findall(rf"^```{language}\n(.*?)^```", (root / page).read_text(), re.M | re.S)
            code = re.sub(r"\A((//|# )[^\n]*\n)+\n*", "", (root / name).read_text())
            if code not in blocks:
                yield f"{page}: no ```{language} block equals {name}"


def check_environment(root):
    page = root / "docs/env.md"
    described = set(re.findall(r"\bTR_\w+", page.read_text())) if page.exists() else set()
    for path in source_files(root):
        name = path.relative_to(root).as_posix()
        if path.suffix in CPP_SUFFIXES and name.startswith(("src/", "tools/")):
            for variable in re.findall(r'"(TR_[A-Z_0-9]+)"', path.read_text()):
                if variable not in described:
                    yield f"{name}: reads {variable}, which docs/env.md does not describe"


def check(root):
    faults = []
    makefile = root / "Makefile"
    targets = set(re.findall(r"^([a-z][\w-]*):", makefile.read_text(), re.M)) if makefile.exists() else set()
    pages = [p for p in source_files(root) if p.suffix == ".md"]
    for page in pages:
        text = page.read_text()
        name = page.relative_to(root).as_posix()
        faults += [f"{name}: {fault}" for fault in [*check_links(root, page, text), *check_names(root, text, targets)]]
    index = (root / "docs/README.md").read_text() if (root / "docs/README.md").exists() else ""
    faults += [f"docs/README.md: does not list {p.name}" for p in pages
               if p.parent == root / "docs" and p.name != "README.md" and f"({p.name})" not in index]
    return faults + list(check_programs(root)) + list(check_environment(root))


SOUND = {
    "Makefile": "build:\n\ntest-gpu:\n",
    **{page: "".join(f"```{LANGUAGES[pathlib.Path(n).suffix]}\nof {n}\n```\n" for n in names)
       for page, names in PROGRAMS.items()},
    **{name: f"// SPDX-License-Identifier: Apache-2.0\nof {name}\n" for names in PROGRAMS.values() for name in names},
    "docs/README.md": "## Two words\n[a](a.md) [env](env.md)\n" + " ".join(f"[p]({p.split('/')[-1]})" for p in PROGRAMS),
    "docs/a.md": "[docs](README.md#two-words) `src/core` `make build` [x](https://x.org/y)\n",
    "docs/env.md": "`TR_ONE`\n",
    "src/core/a.cpp": 'getenv("TR_ONE");\n',
}
PLANTED = [
    ({"docs/a.md": "[b](b.md)\n"}, "link to b.md"),
    ({"docs/a.md": "[b](README.md#three)\n"}, "no such heading"),
    ({"docs/a.md": "`src/other/x.cpp`\n"}, "names src/other/x.cpp"),
    ({"docs/a.md": "`make tea`\n"}, "`make tea`"),
    ({"docs/a.md": "```\nmake tea\n```\n"}, "`make tea`"),
    ({"docs/b.md": "b\n"}, "does not list b.md"),
    ({PROGRAM: "int main() { return 1; }\n"}, "no ```cpp block"),
    ({"docs/data.md": "```cpp\nint other() {}\n```\n"}, "docs/data.md: no ```cpp block"),
    ({"src/core/b.cpp": 'getenv("TR_TWO");\n'}, "reads TR_TWO"),
]


def self_test():
    failures = []
    for planted, words in [({}, None)] + PLANTED:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in (SOUND | planted).items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            faults = check(root)
        if words is None and faults:
            failures.append(f"a sound tree is refused: {faults}")
        elif words is not None and not any(words in f for f in faults):
            failures.append(f"not found: {words!r} in {planted}; reported: {faults}")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", default=ROOT, type=pathlib.Path)
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    faults = self_test() if args.self_test else check(args.root.resolve())
    print("\n".join(faults) if faults else "docs: sound")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
