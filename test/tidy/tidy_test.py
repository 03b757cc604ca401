#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Breaks each rule of tidy.py in a small tree and expects exactly that fault; a clean tree has none."""

import pathlib
import tempfile
import unittest

import tidy

LICENCE = "// SPDX-License-Identifier: Apache-2.0\n"
CLEAN = {
    "wire/CMakeLists.txt": "# SPDX-License-Identifier: Apache-2.0\nadd_library(a a.cpp)\n",
    "wire/a.hpp": LICENCE + "#pragma once\n",
    "wire/a.cpp": LICENCE + '#include "wire/a.hpp"\n\nvoid a() {\n}\n',
    "shim/CMakeLists.txt": "# SPDX-License-Identifier: Apache-2.0\nadd_library(s s.cpp)\n",
    "shim/s.cpp": LICENCE + '#include <cuda.h>\n\n#include "wire/a.hpp"\n',
}


class TidyTest(unittest.TestCase):
    def faults(self, changes):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {**CLEAN, **changes}.items():
                path = pathlib.Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return tidy.faults(folder)

    def expect(self, changes, *parts):
        found = self.faults(changes)
        self.assertEqual(len(found), 1, found)
        for part in parts:
            self.assertIn(part, found[0])

    def test_a_clean_tree_has_no_fault(self):
        self.assertEqual(self.faults({}), [])

    def test_a_long_file(self):
        self.expect({"wire/a.hpp": CLEAN["wire/a.hpp"] + "\n" * 600}, "wire/a.hpp", "at most 600")

    def test_a_long_generated_file_is_fine(self):
        self.assertEqual(self.faults({"wire/generated/CMakeLists.txt": "# SPDX-License-Identifier: Apache-2.0\nx.cpp",
                                      "wire/generated/x.cpp": LICENCE + "\n" * 600}), [])

    def test_a_long_function(self):
        body = "  work();\n" * 80
        self.expect({"wire/a.cpp": CLEAN["wire/a.cpp"] + f"static int b(int c) {{\n{body}}}\n"}, "b has 82 lines")

    def test_a_long_method(self):
        body = "    work();\n" * 80
        self.expect({"wire/a.cpp": CLEAN["wire/a.cpp"] + f"struct s {{\n  void m() const {{\n{body}  }}\n}};\n"}, "m has 82 lines")

    def test_a_long_function_whose_parameters_take_two_lines(self):
        body = "  work();\n" * 80
        self.expect({"wire/a.cpp": CLEAN["wire/a.cpp"] + f"static int b(int c,\n             int d) {{\n{body}}}\n"}, "b has 83 lines")

    def test_a_condition_of_two_lines_is_no_function(self):
        body = "  work();\n" * 40
        text = f"void b() {{\n{body}  if (x ||\n      y(z)) {{\n  }}\n}}\n\nvoid c() {{\n{body}}}\n"
        self.assertEqual(self.faults({"wire/a.cpp": CLEAN["wire/a.cpp"] + text}), [])

    def test_a_listed_function_may_be_long_but_not_longer(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "wire" / "a.cpp"
            path.parent.mkdir()
            path.write_text("void b() {\n" + "  work();\n" * 80 + "}\n", encoding="utf-8")
            tree = tidy.Tree(folder)
            self.assertEqual(list(tidy.function_lengths(tree, {("wire/a.cpp", "b"): 82})), [])
            self.assertEqual(len(list(tidy.function_lengths(tree, {("wire/a.cpp", "b"): 81}))), 1)
            self.assertEqual(len(list(tidy.function_lengths(tree, {("wire/a.cpp", "b"): 82, ("wire/a.cpp", "gone"): 90}))), 1)

    def test_a_missing_licence_line(self):
        self.expect({"wire/a.hpp": "#pragma once\n"}, "wire/a.hpp", "SPDX")

    def test_cuda_in_wire(self):
        self.expect({"wire/a.hpp": CLEAN["wire/a.hpp"] + "#include <cuda.h>\n"}, "wire knows no CUDA")

    def test_asio_outside_its_place(self):
        self.expect({"wire/a.hpp": CLEAN["wire/a.hpp"] + "#include <boost/asio/ip/tcp.hpp>\n"}, "Asio stays")

    def test_the_shim_includes_the_daemon(self):
        self.expect({"shim/s.cpp": CLEAN["shim/s.cpp"] + '#include "daemon/session.hpp"\n'}, "the shim uses wire and itself")

    def test_the_soft_gpu_includes_the_daemon(self):
        self.expect({"daemon/softgpu/CMakeLists.txt": "# SPDX-License-Identifier: Apache-2.0\nx.cpp",
                     "daemon/softgpu/x.cpp": LICENCE + '#include "daemon/session.hpp"\n'}, "driver library of its own")

    def test_a_header_without_guard(self):
        self.expect({"wire/a.hpp": LICENCE}, "#pragma once")

    def test_a_source_that_is_not_built(self):
        self.expect({"wire/dead.cpp": LICENCE}, "wire/dead.cpp", "no CMakeLists.txt names it")

    def test_a_header_that_nobody_includes(self):
        self.expect({"wire/dead.hpp": LICENCE + "#pragma once\n"}, "wire/dead.hpp", "nobody includes it")

    def test_a_spec_that_was_not_generated_from(self):
        self.expect({"gen/spec/dead.spec": "# calls\ncall cuX id 0x0101 called\n"}, "gen/spec/dead.spec", "./dev regen")

    def test_a_spec_that_says_nothing(self):
        self.expect({"gen/spec/dead.spec": "# nothing\n"}, "gen/spec/dead.spec", "says nothing")

    def test_a_banned_word(self):
        self.expect({"wire/a.cpp": CLEAN["wire/a.cpp"] + "int b = atoi(text);\n"}, "wire/a.cpp:6", "from_chars")


if __name__ == "__main__":
    unittest.main()
