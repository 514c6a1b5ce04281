# SPDX-License-Identifier: Apache-2.0
"""What the source checkers share: the tracked files, and C++ text without comments and strings."""
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
CPP_SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}
_SKIP = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'
                   r"(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'", re.S)


def source_files(root):
    """Tracked and new files of the repository; in a folder that is none, all files."""
    listing = subprocess.run(["git", "-C", str(root), "ls-files", "--cached", "--others", "--exclude-standard"],
                             capture_output=True, text=True)
    top = subprocess.run(["git", "-C", str(root), "rev-parse", "--show-toplevel"], capture_output=True, text=True)
    if listing.returncode == 0 and pathlib.Path(top.stdout.strip()) == root:
        paths = [root / name for name in listing.stdout.splitlines()]
    else:
        paths = [p for p in root.rglob("*") if not {".git", "build", "dist"} & set(p.relative_to(root).parts)]
    return sorted(p for p in paths if p.is_file())


def strip_cpp(text):
    """Comments become nothing and literals empty ones; line numbers and columns of code stay."""
    def blank(match):
        token = match.group(0)
        newlines = "\n" * token.count("\n")
        if token[0] == "/":
            return newlines or " "
        return (token[0] if token[0] != "R" else '"') + newlines + token[-1]
    return _SKIP.sub(blank, text)
