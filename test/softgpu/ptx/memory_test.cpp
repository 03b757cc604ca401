// SPDX-License-Identifier: Apache-2.0
// State spaces, checked accesses, variables and parameters.
#include "snippet.hpp"
#include "test/catch.hpp"

namespace gpuwire::softgpu::ptx::test {

TEST_CASE("an access outside every allocation is illegal and says where") {
  for (const char* access :
       {"ld.global.u32 %r1, [8];", "st.global.u32 [8], %r1;", "ld.u8 %r1, [%base+256];",
        "atom.global.add.u32 %r1, [%base+-8], 1;", "ld.global.v2.u64 {%d1, %d2}, [%base+256];",
        "ld.shared.u32 %r1, [65536];", "ld.local.u32 %r1, [1048576];"}) {
    INFO(access);
    const fault f = fault_of_snippet(snippet(std::string("mov.u32 %r1, 0;\n") + access));
    CHECK(f.kind == fault_kind::illegal_address);
    CHECK(f.text.find("kernel test, PTX line ") != std::string::npos);
  }
}

TEST_CASE("the last byte of an allocation may be read, the next one not") {
  CHECK(fault_of_snippet(snippet("ld.global.u8 %r1, [%base+255];")).kind == fault_kind::none);
  CHECK(fault_of_snippet(snippet("ld.global.u8 %r1, [%base+256];")).kind ==
        fault_kind::illegal_address);
}

TEST_CASE("a misaligned access is a fault of its own") {
  for (const char* access :
       {"ld.global.u32 %r1, [%base+2];", "st.global.u16 [%base+1], %h1;",
        "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%base+8];", "ld.shared.u64 %d1, [4];"}) {
    INFO(access);
    const std::string text =
        snippet(std::string(".shared .b64 room[4];\nmov.u16 %h1, 0;\n") + access);
    CHECK(fault_of_snippet(text).kind == fault_kind::misaligned_address);
  }
}

TEST_CASE("constant memory cannot be written") {
  const std::string variable = ".const .align 4 .u32 fixed = 7;\n";
  CHECK(run_snippet(
            snippet("ld.const.u32 %r1, [fixed];\nst.global.u32 [%at], %r1;", variable))[5] == 7);
  const fault f = fault_of_snippet(snippet("mov.u64 %d1, fixed;\nst.u32 [%d1], 1;", variable));
  CHECK(f.kind == fault_kind::illegal_address);
}

TEST_CASE("trap ends the kernel") {
  CHECK(fault_of_snippet(snippet("trap;")).kind == fault_kind::trap);
}

TEST_CASE("generic addresses find their space") {
  const auto result = run_snippet(snippet(R"(
    .shared .align 8 .b64 common[32];
    .local .align 8 .b64 own[2];
    mov.u64 %d1, common;
    mad.wide.u32 %d2, %i, 8, %d1;
    cvta.shared.u64 %d3, %d2;
    mov.u64 %d4, own;
    cvta.local.u64 %d5, %d4;
    cvt.u64.u32 %d6, %i;
    st.u64 [%d3], %d6;
    st.u64 [%d5+8], %d6;
    ld.shared.u64 %d7, [%d2];
    ld.local.u64 %d8, [%d4+8];
    add.u64 %d9, %d7, %d8;
    isspacep.shared %p1, %d3;
    isspacep.local %p2, %d5;
    isspacep.global %p3, %at;
    and.pred %p1, %p1, %p2;
    and.pred %p1, %p1, %p3;
    isspacep.global %p4, %d3;
    cvta.to.shared.u64 %d10, %d3;
    setp.ne.and.u64 %p5, %d10, %d2, %p1;
    selp.u64 %d11, 1000, 0, %p1;
    add.u64 %d9, %d9, %d11;
    selp.u64 %d11, 5000, 0, %p4;
    add.u64 %d9, %d9, %d11;
    selp.u64 %d11, 7000, 0, %p5;
    add.u64 %d9, %d9, %d11;
    st.u64 [%at], %d9;)"));
  for (std::uint32_t n = 0; n < 32; ++n) CHECK(result[n] == 1000 + 2 * n);
}

TEST_CASE("variables start with their initial values and addresses") {
  const std::string variables = R"(
.global .align 4 .f32 numbers[4] = {0f3F800000, 2.5, 3};
.global .align 1 .b8 text[6] = {104, 105, 33};
.global .align 8 .u64 pointers[3] = {generic(numbers)+4, text+1, 77};
.global .align 8 .b8 packed[12] = {9, 0, 0, 0, 0xFF(numbers), 0xFF00(numbers), 0xFF0000(numbers), 0xFF000000(numbers),
  0xFF00000000(numbers), 0xFF0000000000(numbers), 0xFF000000000000(numbers), 0xFF00000000000000(numbers)};
.global .align 4 .u32 grid[2][3] = {{1, 2}, {4}};
.extern .global .u32 elsewhere;
)";
  const auto result = run_snippet(snippet(R"(
    mov.u64 %d1, pointers;
    ld.global.u64 %d2, [%d1];
    ld.u32 %r1, [%d2];
    st.global.u32 [%base], %r1;
    ld.global.u64 %d2, [%d1+8];
    ld.u8 %r1, [%d2];
    st.global.u32 [%base+8], %r1;
    ld.global.u32 %r1, [pointers+16];
    st.global.u32 [%base+16], %r1;
    ld.global.u32 %r1, [packed+4];
    ld.global.u32 %r2, [packed+8];
    mov.b64 %d2, {%r1, %r2};
    ld.global.u32 %r1, [%d2];
    st.global.u32 [%base+24], %r1;
    ld.global.u32 %r1, [grid+12];
    st.global.u32 [%base+32], %r1;
    ld.global.u32 %r1, [grid+8];
    st.global.u32 [%base+40], %r1;)",
                                          variables));
  CHECK(result[0] == 0x40200000);
  CHECK(result[1] == 'i');
  CHECK(result[2] == 77);
  CHECK(result[3] == 0x3F800000);
  CHECK(result[4] == 4);
  CHECK(result[5] == 0);
}

TEST_CASE("narrow loads extend to wide registers, wide registers store narrow") {
  const auto result = run_snippet(snippet(R"(
    mov.u64 %d1, 0x80FF7F01FFFFFFFE;
    st.global.u64 [%at], %d1;
    ld.global.s8 %d2, [%at];
    ld.global.u8 %d3, [%at];
    ld.global.s16 %r1, [%at+6];
    cvt.s64.s32 %d4, %r1;
    add.s64 %d2, %d2, %d3;
    add.s64 %d2, %d2, %d4;
    st.global.u64 [%at], 0;
    st.global.u32 [%at], %d2;)"),
                                  1);
  const auto expected = static_cast<std::uint32_t>(-2 + 254 + static_cast<std::int16_t>(0x80FF));
  CHECK(result[0] == expected);
}

TEST_CASE("kernel parameters lie as the driver lays them out") {
  const std::string text = header() + R"(
.visible .entry many(.param .u8 a, .param .u64 b, .param .align 4 .b8 c[6], .param .u16 d,
                     .param .align 16 .b8 e[20], .param .f32 f) { ret; }
.visible .entry limited() .maxntid 64, 2, 1 .minnctapersm 2 { .shared .b32 s[10]; .local .b64 l[3]; ret; }
)";
  machine m(text);
  const kernel_info& many = m.code().kernels()[m.kernel_index("many")];
  const std::uint32_t offsets[] = {0, 8, 16, 22, 32, 52}, sizes[] = {1, 8, 6, 2, 20, 4};
  REQUIRE(many.parameters.size() == 6);
  for (std::size_t n = 0; n < 6; ++n) {
    CHECK(many.parameters[n].offset == offsets[n]);
    CHECK(many.parameters[n].bytes == sizes[n]);
  }
  CHECK(many.parameter_bytes == 56);
  CHECK(many.threads_per_block_max == 1024);
  CHECK(many.target == 90);
  const kernel_info& limited = m.code().kernels()[m.kernel_index("limited")];
  CHECK(limited.threads_per_block_max == 128);
  CHECK(limited.static_shared_bytes == 40);
  CHECK(limited.local_bytes == 24);
  CHECK(limited.parameter_bytes == 0);
}

TEST_CASE("dynamic shared memory lies behind static shared memory") {
  const std::string text = snippet(R"(
    .shared .align 4 .b32 fixed[3];
    mov.u32 %r1, fixed;
    mov.u32 %r2, tail;
    mov.u32 %r3, %dynamic_smem_size;
    st.shared.u32 [fixed+8], 11;
    st.shared.u32 [tail+28], 22;
    ld.shared.u32 %r4, [%r1+8];
    ld.shared.u32 %r5, [%r2+28];
    add.u32 %r4, %r4, %r5;
    add.u32 %r4, %r4, %r3;
    st.global.u32 [%at], %r4;)",
                                   ".extern .shared .align 16 .b8 tail[];\n");
  machine m(text);
  const auto buffer = m.upload(std::vector<std::uint64_t>(1));
  REQUIRE(m.run("test", {.grid = {}, .block = {}, .dynamic_shared_bytes = 32}, buffer).text == "");
  CHECK(m.download<std::uint64_t>(buffer, 1)[0] == 11 + 22 + 32);
}

TEST_CASE("a memory barrier object counts arrivals and bytes") {
  const auto result = run_snippet(snippet(R"(
    .shared .align 8 .b64 object;
    setp.eq.u32 %p1, %i, 0;
    @%p1 mbarrier.init.shared.b64 [object], 33;
    bar.sync 0;
    mbarrier.arrive.shared.b64 %d1, [object];
    @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [object], 16;
    mbarrier.test_wait.shared.b64 %p2, [object], %d1;
    @%p1 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [object], 16;
WAIT:
    mbarrier.try_wait.parity.shared.b64 %p3, [object], 0;
    @!%p3 bra WAIT;
    selp.u32 %r1, 100, 0, %p2;
    selp.u32 %r2, 1, 0, %p3;
    add.u32 %r1, %r1, %r2;
    st.global.u32 [%at], %r1;)"));
  for (const auto word : result) CHECK(word == 1);
}

TEST_CASE("asynchronous copies arrive in shared memory, the rest is zero") {
  const auto result = run_snippet(snippet(R"(
    .shared .align 16 .b32 room[4];
    mov.u32 %r1, room;
    st.global.u64 [%base], 0x1111111122222222;
    st.global.u64 [%base+8], 0x3333333344444444;
    cp.async.ca.shared.global [%r1], [%base], 16, 8;
    cp.async.commit_group;
    cp.async.wait_group 0;
    ld.shared.v4.u32 {%r2, %r3, %r4, %r5}, [%r1];
    st.global.u32 [%base], %r3;
    st.global.u32 [%base+8], %r5;)"),
                                  2);
  CHECK(static_cast<std::uint32_t>(result[0]) == 0x11111111);
  CHECK(static_cast<std::uint32_t>(result[1]) == 0);
}

}  // namespace gpuwire::softgpu::ptx::test
