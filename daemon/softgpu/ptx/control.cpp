// SPDX-License-Identifier: Apache-2.0
// Branches, returns, the ends of threads, and hints that only a scheduler could honour.
#include "builder.hpp"
#include "lanes.hpp"

namespace gpuwire::softgpu::ptx {
namespace {

void branch(executor& x, const instruction& i, std::uint32_t lanes) {
  if (lanes == x.group_)
    x.jump(i.target);
  else
    x.split(lanes, i.target);
}

void branch_indexed(executor& x, const instruction& i, std::uint32_t lanes) {
  const auto& table = x.frame_->code->branch_tables[i.target];
  const std::byte* index = x.in(i.o[0]);
  const auto first = get<std::uint32_t>(index, static_cast<std::uint32_t>(std::countr_zero(lanes)));
  bool uniform = lanes == x.group_;
  for (std::uint32_t m = lanes; m != 0; m &= m - 1) {
    const auto at = get<std::uint32_t>(index, static_cast<std::uint32_t>(std::countr_zero(m)));
    if (at >= table.size())
      return x.raise(fault_kind::illegal_instruction, i, "branch index out of range");
    uniform &= at == first;
  }
  if (uniform) return x.jump(table[first]);
  x.save_group(x.pc_ + 1);
  for (std::uint32_t m = lanes; m != 0; m &= m - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(m));
    x.warp_->pc[l] = table[get<std::uint32_t>(index, l)];
  }
  x.reschedule();
}

void leave_or_exit(executor& x, const instruction&, std::uint32_t lanes) {
  x.save_group(x.pc_ + 1);
  if (x.frame_->parent != nullptr)
    x.leave(lanes);
  else
    x.exit_lanes(lanes);
  x.reschedule();
}

void exit_threads(executor& x, const instruction&, std::uint32_t lanes) {
  x.save_group(x.pc_ + 1);
  x.exit_lanes(lanes);
  x.reschedule();
}

void trap(executor& x, const instruction& i, std::uint32_t) {
  x.raise(fault_kind::trap, i, "trap");
}

// A sleeping lane lets others go first.
void sleep(executor& x, const instruction&, std::uint32_t) {
  x.spend(512);
  x.yield_warp();
  x.save_group(x.pc_ + 1);
  x.reschedule();
}

bool decode_branch(builder& b, const form& f) {
  const auto& to = f.operand(0);
  if (to.kind != syntax::operand::form::name) return false;
  instruction& i = b.emit(branch, {}, {}, flow::control);
  i.extra = jump_direct;
  b.target_label(i, to.name);
  return true;
}

bool decode_indexed(builder& b, const form& f) {
  if (!f.has("idx")) return false;
  const auto index = b.source(f.operand(0), type::u32);
  const auto table = b.branch_table(f.operand(1).name);
  instruction& i = b.emit(branch_indexed, {}, {index}, flow::control);
  i.extra = jump_table;
  i.target = table;
  return true;
}

template <handler Run, std::uint8_t Jump>
bool decode_plain(builder& b, const form&) {
  b.emit(Run, {}, {}, flow::control).extra = Jump;
  return true;
}

bool decode_nothing(builder&, const form&) {
  return true;
}

constexpr decode_entry entries[] = {
    {"bra", decode_branch},
    {"brx", decode_indexed},
    {"ret", decode_plain<leave_or_exit, jump_out>},
    {"exit", decode_plain<exit_threads, jump_out>},
    {"trap", decode_plain<trap, jump_out>},
    {"nanosleep", decode_plain<sleep, 0>},
    {"brkpt", decode_nothing},
    {"pmevent", decode_nothing},
    {"griddepcontrol", decode_nothing},
    {"setmaxnreg", decode_nothing},
    {"createpolicy",
     [](builder& b, const form& f) {
       // A cache policy is an opaque number that loads and stores here ignore.
       b.emit(register_move(register_class::quad), {b.destination(f.operand(0), type::b64)},
              {b.constant(type::b64, 0)});
       return true;
     }},
};

}  // namespace

handler branch_handler() {
  return branch;
}

decode_table control_instructions() {
  return entries;
}

}  // namespace gpuwire::softgpu::ptx
