// SPDX-License-Identifier: Apache-2.0
// Lanes that part, wait, meet and exit.
#include "snippet.hpp"
#include "test/catch.hpp"

namespace gpuwire::softgpu::ptx::test {

TEST_CASE("a warp-wide instruction waits for members that took another way") {
  // Odd lanes come late and through other code, to the same shfl.
  const auto result = run_snippet(snippet(R"(
    and.b32 %r1, %i, 1;
    setp.eq.u32 %p1, %r1, 0;
    mov.u32 %r2, %i;
    @%p1 bra MEET;
    mov.u32 %r3, 0;
LOOP:
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p2, %r3, %i;
    @%p2 bra LOOP;
    mul.lo.u32 %r2, %i, 10;
MEET:
    shfl.sync.bfly.b32 %r4, %r2, 1, 31, -1;
    st.global.u32 [%at], %r4;)"));
  for (std::uint32_t n = 0; n < 32; ++n) CHECK(result[n] == (n % 2 == 0 ? (n + 1) * 10 : n - 1));
}

TEST_CASE("copies of a warp-wide instruction serve one exchange") {
  const auto result = run_snippet(snippet(R"(
    setp.lt.u32 %p1, %i, 16;
    @%p1 bra LOW;
    shfl.sync.bfly.b32 %r4, %i, 16, 31, -1;
    add.u32 %r4, %r4, 100;
    bra DONE;
LOW:
    shfl.sync.bfly.b32 %r4, %i, 16, 31, -1;
DONE:
    st.global.u32 [%at], %r4;)"));
  for (std::uint32_t n = 0; n < 32; ++n) CHECK(result[n] == (n < 16 ? n + 16 : n - 16 + 100));
}

TEST_CASE("an exchange of a part of the warp needs nobody else") {
  const auto result = run_snippet(snippet(R"(
    setp.ge.u32 %p1, %i, 8;
    @%p1 exit;
    vote.sync.ballot.b32 %r1, %p1, 0xFF;
    shfl.sync.idx.b32 %r2, %i, 7, 0x181F, 0xFF;
    shl.b32 %r2, %r2, 8;
    or.b32 %r1, %r1, %r2;
    st.global.u32 [%at], %r1;)"));
  for (std::uint32_t n = 0; n < 32; ++n) CHECK(result[n] == (n < 8 ? 7u << 8 : 0u));
}

TEST_CASE("nobody waits for lanes that have exited") {
  const auto result = run_snippet(snippet(R"(
    setp.ge.u32 %p1, %i, 20;
    @%p1 bra LATE;
    bar.warp.sync -1;
    bar.sync 0;
    activemask.b32 %r1;
    st.global.u32 [%at], %r1;
    exit;
LATE:
    nanosleep.u32 100;
    exit;)"),
                                  64);
  for (std::uint32_t n = 0; n < 64; ++n) CHECK(result[n] == (n < 20 ? 0xFFFFFu : 0u));
}

TEST_CASE("lanes are together again behind a loop whose exit lies before its body") {
  const auto result = run_snippet(snippet(R"(
    mov.u32 %r1, 0;
    bra HEAD;
OUT:
    activemask.b32 %r2;
    st.global.u32 [%at], %r2;
    exit;
BODY:
    add.u32 %r1, %r1, 1;
HEAD:
    setp.ge.u32 %p1, %r1, %i;
    @%p1 bra OUT;
    bra BODY;)"));
  for (const auto word : result) CHECK(word == 0xFFFF'FFFF);
}

TEST_CASE("barriers with counts let producers pass and consumers wait") {
  // The first warp arrives without waiting; the second finds what the first stored before.
  const auto result = run_snippet(snippet(R"(
    .shared .b32 data[32];
    mov.u32 %r1, data;
    and.b32 %r2, %i, 31;
    mad.lo.u32 %r1, %r2, 4, %r1;
    setp.ge.u32 %p1, %i, 32;
    @%p1 bra CONSUME;
    add.u32 %r3, %i, 1000;
    st.shared.u32 [%r1], %r3;
    bar.arrive 3, 64;
    exit;
CONSUME:
    bar.sync 3, 64;
    ld.shared.u32 %r3, [%r1];
    st.global.u32 [%at], %r3;)"),
                                  64);
  for (std::uint32_t n = 32; n < 64; ++n) CHECK(result[n] == 1000 + n - 32);
}

TEST_CASE("votes of a barrier count all threads of the block") {
  const auto result = run_snippet(snippet(R"(
    setp.lt.u32 %p1, %i, 40;
    bar.red.popc.u32 %r1, 0, %p1;
    bar.red.and.pred %p2, 0, %p1;
    bar.red.or.pred %p3, 0, %p1;
    selp.b32 %r2, 100, 0, %p2;
    selp.b32 %r3, 1000, 0, %p3;
    add.u32 %r1, %r1, %r2;
    add.u32 %r1, %r1, %r3;
    st.global.u32 [%at], %r1;)"),
                                  96);
  for (const auto word : result) CHECK(word == 1040);
}

TEST_CASE("a block whose threads wait for one another for ever is stopped") {
  const fault f = fault_of_snippet(snippet(R"(
    setp.lt.u32 %p1, %i, 32;
    @%p1 bar.sync 1, 64;
    @!%p1 bar.sync 2, 64;)"),
                                   64);
  CHECK(f.kind == fault_kind::trap);
  CHECK(f.text.find("deadlock") != std::string::npos);
}

TEST_CASE("lanes call different functions through one register") {
  const std::string functions = R"(
.func (.param .b32 result) twice(.param .b32 x) {
  .reg .b32 %r1;
  ld.param.b32 %r1, [x];
  shl.b32 %r1, %r1, 1;
  st.param.b32 [result], %r1;
  ret;
}
.func (.param .b32 result) square(.param .b32 x) {
  .reg .b32 %r1;
  ld.param.b32 %r1, [x];
  mul.lo.u32 %r1, %r1, %r1;
  st.param.b32 [result], %r1;
  ret;
}
.global .align 8 .u64 both[2] = {twice, square};
)";
  const auto result = run_snippet(snippet(R"(
    and.b32 %r1, %i, 1;
    mov.u64 %d1, both;
    mad.wide.u32 %d1, %r1, 8, %d1;
    ld.global.u64 %d2, [%d1];
    {
      .param .b32 argument;
      .param .b32 answer;
      st.param.b32 [argument], %i;
      shape: .callprototype (.param .b32 _) _ (.param .b32 _);
      call (answer), %d2, (argument), shape;
      ld.param.b32 %r2, [answer];
    }
    st.global.u32 [%at], %r2;)",
                                          functions));
  for (std::uint32_t n = 0; n < 32; ++n) CHECK(result[n] == (n % 2 == 0 ? 2 * n : n * n));
}

TEST_CASE("a table of branch targets sends each lane its way") {
  const auto result = run_snippet(snippet(R"(
    rem.u32 %r1, %i, 3;
    targets: .branchtargets A, B, C;
    brx.idx %r1, targets;
A:  mov.u32 %r2, 10; bra DONE;
B:  mov.u32 %r2, 20; bra DONE;
C:  mov.u32 %r2, 30;
DONE:
    st.global.u32 [%at], %r2;)"));
  for (std::uint32_t n = 0; n < 32; ++n) CHECK(result[n] == (n % 3 + 1) * 10);
}

TEST_CASE("recursion without end is a fault, not a crash") {
  const std::string function = R"(
.func endless(.param .b32 x) {
  .local .b32 room[64];
  .param .b32 next;
  st.param.b32 [next], 1;
  call endless, (next);
  ret;
}
)";
  const fault f = fault_of_snippet(snippet(R"(
    .param .b32 x;
    st.param.b32 [x], 0;
    call endless, (x);)",
                                           function));
  CHECK(f.kind == fault_kind::out_of_stack);
}

}  // namespace gpuwire::softgpu::ptx::test
