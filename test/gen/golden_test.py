#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Golden files of the generator.

golden/spec over golden/include must give exactly golden/expected. Every golden/refused/NAME.spec, added to the good
specs, must be refused with exactly the text in NAME.expected, and nothing may be written. --approve rewrites the
expectations with what the generator says now."""

import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent / "golden"


def run(generator, spec, out):
    return subprocess.run(
        [generator, "--spec", str(spec), "--include", str(HERE / "include"), "--out", str(out)],
        capture_output=True, text=True, timeout=60)


def tree(root):
    return {str(p.relative_to(root)): p.read_text() for p in sorted(root.rglob("*")) if p.is_file()}


def check_output(generator, approve, failures):
    expected = HERE / "expected"
    with tempfile.TemporaryDirectory() as out:
        result = run(generator, HERE / "spec", out)
        if result.returncode != 0:
            failures.append("the good specs are refused:\n" + result.stderr)
            return
        made = tree(pathlib.Path(out))
        if approve:
            shutil.rmtree(expected, ignore_errors=True)
            shutil.copytree(out, expected)
        wanted = tree(expected)
    for name in sorted(set(made) | set(wanted)):
        if made.get(name) != wanted.get(name):
            failures.append(f"{name} differs from golden/expected")


def check_refusal(generator, case, approve, failures):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        spec, out = folder / "spec", folder / "out"
        shutil.copytree(HERE / "spec", spec, ignore=shutil.ignore_patterns("exports.txt"))
        out.mkdir()
        shutil.copy(HERE / "refused" / "common.inc", spec / "common.spec")
        shutil.copy(case, spec / "strange.spec")
        exports = case.with_suffix(".exports")
        if exports.exists():
            shutil.copy(exports, spec / "exports.txt")
        result = run(generator, spec, out)
        written = list(out.rglob("*"))
    if result.returncode != 1 or written:
        failures.append(f"{case.name}: not refused (exit {result.returncode}, {len(written)} files written)")
    expected = case.with_suffix(".expected")
    if approve:
        expected.write_text(result.stderr)
    wanted = expected.read_text() if expected.exists() else ""
    if result.stderr != wanted:
        failures.append(f"{case.name}: says\n{result.stderr}instead of\n{wanted}")


def check_flat(generator, approve, failures):
    """golden/flat: the same for the flat language; a bad file is a whole one."""
    folder = HERE / "flat"

    def run_flat(file, out):
        return subprocess.run([generator, "--flat", str(file), "--include", str(folder / "include"), "--out", str(out)],
                              capture_output=True, text=True, timeout=60)

    with tempfile.TemporaryDirectory() as out:
        result = run_flat(folder / "meter.flat", out)
        if result.returncode != 0:
            failures.append("the good flat file is refused:\n" + result.stderr)
        made = tree(pathlib.Path(out))
        if approve:
            shutil.rmtree(folder / "expected", ignore_errors=True)
            shutil.copytree(out, folder / "expected")
        wanted = tree(folder / "expected")
    failures += [f"{name} differs from golden/flat/expected" for name in sorted(set(made) | set(wanted))
                 if made.get(name) != wanted.get(name)]
    cases = sorted((folder / "refused").glob("*.flat"))
    for case in cases:
        with tempfile.TemporaryDirectory() as out:
            result = run_flat(case, out)
            written = list(pathlib.Path(out).rglob("*"))
        if result.returncode != 1 or written:
            failures.append(f"{case.name}: not refused (exit {result.returncode}, {len(written)} files written)")
        expected = case.with_suffix(".expected")
        if approve:
            expected.write_text(result.stderr)
        if not expected.exists() or result.stderr != expected.read_text():
            failures.append(f"{case.name}: says\n{result.stderr}")
    return len(cases)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("generator")
    parser.add_argument("--approve", action="store_true")
    arguments = parser.parse_args()
    failures = []
    check_output(arguments.generator, arguments.approve, failures)
    cases = sorted((HERE / "refused").glob("*.spec"))
    for case in cases:
        check_refusal(arguments.generator, case, arguments.approve, failures)
    flat_cases = check_flat(arguments.generator, arguments.approve, failures)
    for failure in failures:
        print("FAILED:", failure)
    print(f"{len(cases) + flat_cases} refusals, {len(failures)} failures")
    return 1 if failures or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
