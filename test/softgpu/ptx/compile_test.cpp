// SPDX-License-Identifier: Apache-2.0
// What compile() refuses, with which error, and what it links.
#include "snippet.hpp"
#include "test/catch.hpp"

namespace gpuwire::softgpu::ptx::test {
namespace {

std::optional<compile_error> error_of(std::vector<std::string_view> texts) {
  auto result = compile(texts);
  if (auto* error = std::get_if<compile_error>(&result)) return *error;
  return std::nullopt;
}

void check_error(const std::string& text, compile_error_kind kind, const std::string& part) {
  const auto error = error_of({text});
  REQUIRE(error);
  CHECK(error->kind == kind);
  INFO(error->message);
  CHECK(error->message.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("newer PTX than ours is refused as such") {
  check_error(header("sm_75", "9.1"), compile_error_kind::unsupported_version, "9.1");
  check_error(header("sm_75", "10.0"), compile_error_kind::unsupported_version, "10.0");
  check_error(header("sm_100"), compile_error_kind::no_entry_target, "sm_100");
  CHECK_FALSE(error_of({header("sm_90a")}));
  CHECK_FALSE(error_of({header("sm_52", "6.0")}));
}

TEST_CASE("an unknown instruction is named with its line") {
  check_error(header() + ".visible .entry k() {\n  foo.bar.u32 1;\n  ret;\n}\n",
              compile_error_kind::unknown_instruction, "line 5: unknown instruction 'foo.bar.u32'");
  check_error(header() + ".func unused() {\n  tex.2d.v4.f32.f32 1;\n}\n",
              compile_error_kind::unknown_instruction, "tex.2d.v4.f32.f32");
  check_error(snippet("add.q32 %r1, %r2, %r3;"), compile_error_kind::unknown_instruction,
              "add.q32");
}

TEST_CASE("broken text is a syntax error with its line") {
  const auto syntax = compile_error_kind::syntax;
  check_error("", syntax, "line 1: expected .version");
  check_error("nonsense", syntax, "line 1");
  check_error(header() + ".visible .entry k() {", syntax, "expected '}'");
  check_error(snippet("add.u32 %r1, %r2"), syntax, "expected ';'");
  check_error(snippet("add.u32 %r1, %r2, %r99;"), syntax, "%r99");
  check_error(snippet("add.u64 %d1, %d2, %r3;"), syntax, "too narrow");
  check_error(snippet("add.u32 %p1, %r2, %r3;"), syntax, "wrong kind");
  check_error(snippet("bra NOWHERE;"), syntax, "unknown label 'NOWHERE'");
  check_error(snippet("A: A: ret;"), syntax, "defined twice");
  check_error(snippet("mov.f32 %f1, 0f12;"), syntax, "malformed number '0f12'");
  check_error(snippet("/* no end"), syntax, "comment without end");
  check_error(snippet("ld.param.u64 %d1, [buffer+8];"), syntax, "beyond parameter 'buffer'");
}

TEST_CASE("no prefix of a program crashes the compiler") {
  const std::string text = read_golden("programs_sm75.ptx");
  for (std::size_t bytes = 0; bytes < 20'000; bytes += 37) {
    const std::string_view part(text.data(), bytes);
    CHECK((error_of({part}).has_value() || bytes > 150));
  }
}

TEST_CASE("a called function that nobody defines is unresolved") {
  const std::string declared = ".extern .func missing(.param .b32 x);\n";
  CHECK_FALSE(error_of({snippet("", declared)}));
  check_error(snippet(".param .b32 x; call missing, (x);", declared),
              compile_error_kind::unresolved_symbol, "missing");
  check_error(snippet("ld.global.u32 %r1, [away];", ".extern .global .u32 away;\n"),
              compile_error_kind::unresolved_symbol, "away");
}

TEST_CASE("texts are linked: external names of one are visible ones of another") {
  const std::string main = snippet(R"(
    .param .b32 x;
    .param .b32 y;
    st.param.b32 [x], %i;
    call (y), add_base, (x);
    ld.param.b32 %r1, [y];
    ld.global.u32 %r2, [base_value];
    add.u32 %r1, %r1, %r2;
    ld.global.u32 %r2, [own];
    add.u32 %r1, %r1, %r2;
    st.global.u32 [%at], %r1;)",
                                   R"(
.extern .func (.param .b32 r) add_base(.param .b32 x);
.extern .global .u32 base_value;
.global .u32 own = 1000;
)");
  const std::string library = header() + R"(
.visible .global .u32 base_value = 5;
.global .u32 own = 10;
.visible .func (.param .b32 r) add_base(.param .b32 x) {
  .reg .b32 %r<4>;
  ld.param.b32 %r1, [x];
  ld.global.u32 %r2, [own];
  add.u32 %r1, %r1, %r2;
  st.param.b32 [r], %r1;
  ret;
}
)";
  machine m({main, library});
  const auto buffer = m.upload(std::vector<std::uint64_t>(4));
  REQUIRE(m.run("test", {.grid = {}, .block = {4, 1, 1}}, buffer).text == "");
  CHECK(m.download<std::uint64_t>(buffer, 4) == std::vector<std::uint64_t>{1015, 1016, 1017, 1018});
  CHECK(error_of({library, library}).has_value());
}

TEST_CASE("scopes have registers, labels and parameters of their own") {
  const auto result = run_snippet(snippet(R"(
    mov.u32 %r1, 0;
    {
      .reg .b32 %r1, t;
      mov.u32 %r1, 5;
      mov.u32 t, %r1;
      setp.ne.u32 %p1, t, 5;
      @%p1 bra OUT;
      add.u32 t, t, 1;
OUT:
      st.global.u32 [%at], t;
    }
    {
      .reg .u64 t;
      mov.u64 t, 7;
      bra OUT;
OUT:
      st.global.u32 [%at+4], t;
    }
    add.u32 %r1, %r1, 1;
    @%p1 st.global.u32 [%at], %r1;)"),
                                  2);
  CHECK(result[1] == (7ull << 32 | 6));
}

TEST_CASE("debug information is skipped") {
  const std::string text = header("sm_75, debug") + R"(
	.file	1 "a.cu"
.visible .entry test(.param .u64 buffer)
{
	.loc	1 10 3
	.reg .b32 %r<2>; // $L__tmp
	.loc	1 11 5, function_name $L__info_string0, inlined_at 1 3 4
	mov.u32 %r1, 1;
$L__tmp1:
	.pragma "nounroll";
	ret;
}
	.section	.debug_str
	{
$L__info_string0:
.b8 95,90
.b64 $L__tmp1
	}
)";
  CHECK_FALSE(error_of({text}));
}

}  // namespace gpuwire::softgpu::ptx::test
