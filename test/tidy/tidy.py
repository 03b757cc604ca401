#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rules of the tree as an ordinary test: sizes, licence lines, who may include whom, files nobody uses.

tidy.py ROOT prints one line for each fault, with the rule and the way out, and exits with 1 if there is one.
tidy_test.py breaks every rule on purpose.
"""

import pathlib
import re
import sys

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
FOLDERS = ("wire", "shim", "daemon", "gen", "cli", "test", "examples", "bench", "third_party", "docs")
CODE = {".cpp", ".hpp", ".cu", ".cuh", ".h"}
LICENSED = CODE | {".py", ".sh", ".cmake"}

# A ratchet: functions that are longer than the limit and may not grow. An entry that is no longer needed is a fault too.
LONG_FUNCTIONS = {
}

# Folder -> what its files may not include, and why.
CUDA_HEADERS = r"<(cuda|cudaTypedefs|cuda_runtime|cuda_runtime_api|cudaProfiler|nvml)\.h>"
INCLUDE_RULES = (
    ("wire/", CUDA_HEADERS, "wire knows no CUDA"),
    ("gen/", CUDA_HEADERS, "gen reads the CUDA headers through libclang, it is not compiled against them"),
    ("cli/", CUDA_HEADERS, "the tool knows no CUDA"),
    ("wire/", r'"(shim|daemon|cli|gen|bench)/', "wire uses nothing of ours but itself"),
    ("shim/", r'"(daemon|cli|gen|bench)/', "the shim uses wire and itself"),
    ("daemon/", r'"(shim|cli|gen|bench)/', "the daemon uses wire and itself"),
    ("daemon/softgpu/", r'"(wire|daemon/(?!softgpu/))', "the soft GPU is a driver library of its own"),
    ("cli/", r'"(shim|daemon|gen|bench)/', "the tool uses wire and itself"),
    ("gen/", r'"(wire|shim|daemon|cli|bench)/', "gen links none of our code"),
    ("bench/", r'"(wire|shim|daemon|cli|gen)/', "the benchmark sees what a user sees: the driver API"),
    ("examples/", r'"(wire|shim|daemon|cli|gen|bench)/', "examples are unaware of us"),
)
ASIO = r"<boost/asio"
ASIO_ALLOWED = re.compile(r"^(wire/net/|daemon/[^/]+\.cpp$|test/wire/)")

BANNED = (
    (r"\busing namespace std\b", "name what is used"),
    (r"\b(strcpy|strcat|sprintf|vsprintf|gets)\s*\(", "use std::string, fmt or snprintf"),
    (r"\b(atoi|atol|atof)\s*\(", "use std::from_chars, which notices errors"),
    (r"\bTODO(?!\((perf|security|cleanup)\))", "write TODO(perf), TODO(security) or TODO(cleanup)"),
    (r"\bstd::(format|views|source_location|expected)\b", "not in the oldest compiler that must build this"),
)


class Tree:
    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.files = {}
        for folder in FOLDERS:
            for path in sorted((self.root / folder).rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    try:
                        self.files[path.relative_to(self.root).as_posix()] = path.read_text(encoding="utf-8")
                    except UnicodeDecodeError:
                        pass  # data, not text
        for name in ("CMakeLists.txt", "dev", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"):
            if (self.root / name).exists():
                self.files[name] = (self.root / name).read_text(encoding="utf-8")


def is_generated(name):
    return "/generated/" in name or "/golden/" in name


def is_data(name):
    return pathlib.PurePosixPath(name).suffix in {".txt", ".tsv", ".json"} and not name.endswith("CMakeLists.txt")


def file_lengths(tree):
    for name, text in tree.files.items():
        lines = text.count("\n")
        if not is_generated(name) and not is_data(name) and lines > FILE_LINES_MAX:
            yield f"{name}: {lines} lines, at most {FILE_LINES_MAX}: split it by purpose"


FUNCTION_START = re.compile(r"^( *)(?!(?:if|for|while|switch|else|do|catch|return|namespace|struct|class|enum|union|extern|try|case|default)\b)"
                            r"[A-Za-z_~][^;={}]*\(.*\{$|^( *)\S.*\) (?:const )?(?:noexcept )?(?:-> \S+ )?\{$")
CONTROL = re.compile(r"^\s*(\}? ?(if|for|while|switch|else|do|catch|return|namespace|struct|class|enum|union|extern|try|case|default)\b|\})")


def functions(text):
    """(name, lines) of each function whose braces stand as clang-format puts them: the end is a brace at the same indent."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if CONTROL.match(line) or not FUNCTION_START.match(line) or "[" in line.split("(")[0]:
            continue
        indent = len(line) - len(line.lstrip())
        named = re.search(r"([A-Za-z_~][\w:~]*)\s*\(", line)
        for end in range(number + 1, len(lines)):
            if re.match(r"^ {%d}\}" % indent, lines[end]):
                yield (named.group(1) if named else f"line {number + 1}"), end - number + 1
                break


def function_lengths(tree, long_functions=None):
    allowed = dict(LONG_FUNCTIONS if long_functions is None else long_functions)
    for name, text in tree.files.items():
        if is_generated(name) or pathlib.PurePosixPath(name).suffix not in CODE or name.startswith("test/"):
            continue
        for function, lines in functions(text):
            limit = allowed.pop((name, function), FUNCTION_LINES_MAX)
            if lines > limit:
                yield f"{name}: {function} has {lines} lines, at most {limit}: split it"
            elif limit > FUNCTION_LINES_MAX >= lines:
                yield f"{name}: {function} is short now: remove it from LONG_FUNCTIONS"
    for name, function in allowed:
        yield f"{name}: {function} does not exist: remove it from LONG_FUNCTIONS"


def licence_lines(tree):
    for name, text in tree.files.items():
        path = pathlib.PurePosixPath(name)
        if "/golden/" in name or not (path.suffix in LICENSED or path.name in {"CMakeLists.txt", "dev"}):
            continue
        if not any("SPDX-License-Identifier: Apache-2.0" in line for line in text.split("\n")[:2]):
            yield f"{name}: the first line must be the SPDX-License-Identifier: Apache-2.0 comment"


def includes(text):
    return re.findall(r'^\s*#\s*include\s+(<[^>]+>|"[^"]+")', text, re.MULTILINE)


def include_rules(tree):
    for name, text in tree.files.items():
        if pathlib.PurePosixPath(name).suffix not in CODE:
            continue
        for include in includes(text):
            for folder, pattern, reason in INCLUDE_RULES:
                if name.startswith(folder) and re.match(pattern, include):
                    yield f"{name}: includes {include}: {reason}"
            if re.match(ASIO, include) and not ASIO_ALLOWED.match(name):
                yield f"{name}: includes {include}: Asio stays in wire/net and the daemon's own sources"


def headers(tree):
    for name, text in tree.files.items():
        if name.endswith(".hpp") and "#pragma once" not in text:
            yield f"{name}: a header needs #pragma once"


def dead_files(tree):
    cmake = "\n".join(text for name, text in tree.files.items() if name.endswith("CMakeLists.txt"))
    globbed = {name[: -len("CMakeLists.txt")] for name, text in tree.files.items()
               if name.endswith("CMakeLists.txt") and re.search(r"file\(GLOB", text)}
    included = {include.strip('"<>') for text in tree.files.values() for include in includes(text)}
    for name in tree.files:
        path = pathlib.PurePosixPath(name)
        if "/golden/" in name:
            continue
        if path.suffix in {".cpp", ".cu"}:
            if path.name not in cmake and path.stem not in re.findall(r"[\w-]+", cmake) \
                    and not any(name.startswith(folder) for folder in globbed):
                yield f"{name}: no CMakeLists.txt names it"
        elif path.suffix == ".hpp":
            if not any(include == name or name.endswith("/" + include) for include in included):
                yield f"{name}: nobody includes it"
        elif path.suffix == ".spec":
            if path.name not in cmake and "*.spec" not in cmake:
                yield f"{name}: no CMakeLists.txt gives it to gen"


def banned_words(tree):
    for name, text in tree.files.items():
        if is_generated(name) or pathlib.PurePosixPath(name).suffix not in CODE:
            continue
        for number, line in enumerate(text.split("\n"), 1):
            for pattern, instead in BANNED:
                if re.search(pattern, line):
                    yield f"{name}:{number}: '{re.search(pattern, line).group(0)}': {instead}"


RULES = (file_lengths, function_lengths, licence_lines, include_rules, headers, dead_files, banned_words)


def faults(root):
    tree = Tree(root)
    return [fault for rule in RULES for fault in rule(tree)]


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2])
    found = faults(root)
    print("\n".join(found) if found else f"tidy: {len(Tree(root).files)} files, no fault")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
