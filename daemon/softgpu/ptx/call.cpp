// SPDX-License-Identifier: Apache-2.0
// call in its direct and indirect forms, the stack instructions, and the border to the system
// calls.
#include <map>

#include "lanes.hpp"
#include "linker.hpp"
#include "system_calls.hpp"

namespace gpuwire::softgpu::ptx {
namespace {

void call_direct(executor& x, const instruction& i, std::uint32_t lanes) {
  const call_site& site = x.frame_->code->calls[i.target];
  x.save_group(x.pc_ + 1);
  if (x.enter(i, lanes, x.code().functions_[site.function], site)) x.reschedule();
}

// What lies below is no code for certain; further up the hardware finds that out by reading there.
constexpr std::uint64_t low_addresses = 16u << 20;

// Lanes that call the same function go together.
void call_indirect(executor& x, const instruction& i, std::uint32_t lanes) {
  const call_site& site = x.frame_->code->calls[i.target];
  const std::byte* addresses = x.in(i.o[0]);
  std::map<std::uint64_t, std::uint32_t> callees;
  for (std::uint32_t m = lanes; m != 0; m &= m - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(m));
    callees[get<std::uint64_t>(addresses, l)] |= 1u << l;
  }
  x.save_group(x.pc_ + 1);
  for (const auto& [address, callers] : callees) {
    const std::uint64_t index = (address & ~window_mask) / 16;
    if ((address & window_mask) != function_window || index >= x.code().functions_.size())
      return x.raise(address < low_addresses ? fault_kind::invalid_pc : fault_kind::illegal_address,
                     i, "call of an address that is no function");
    if (!x.enter(i, callers, x.code().functions_[index], site)) return;
  }
  x.reschedule();
}

void call_system(executor& x, const instruction& i, std::uint32_t lanes) {
  const call_site& site = x.frame_->code->calls[i.target];
  for (std::uint32_t m = lanes; m != 0; m &= m - 1) {
    run_system_call(x, i, site, static_cast<std::uint32_t>(std::countr_zero(m)));
    if (x.failed()) return;
  }
}

class call_decoder {
 public:
  call_decoder(builder& b, const form& f) : b_(b), f_(f) {}

  bool run() {
    const auto& operands = f_.statement->operands;
    std::size_t at = 0;
    syntax::operand none;
    none.kind = syntax::operand::form::list;
    const auto is_list = [&](std::size_t n) {
      return n < operands.size() && operands[n].kind == syntax::operand::form::list;
    };
    const syntax::operand& results = is_list(at) ? operands[at++] : none;
    if (at >= operands.size() || operands[at].kind != syntax::operand::form::name) return false;
    const syntax::operand& callee = operands[at++];
    const syntax::operand& arguments = is_list(at) ? operands[at++] : none;
    const syntax::operand* prototype = at < operands.size() ? &operands[at] : nullptr;
    find_shape(callee, prototype);
    for (std::size_t n = 0; n < arguments.items.size(); ++n) add_argument(arguments.items[n], n);
    for (std::size_t n = 0; n < results.items.size(); ++n) add_result(results.items[n], n);
    emit(callee);
    load_results();
    return true;
  }

 private:
  void find_shape(const syntax::operand& callee, const syntax::operand* prototype) {
    indirect_ = b_.find_register(callee) != nullptr;
    if (indirect_) {
      const syntax::prototype* p =
          prototype != nullptr ? b_.find_prototype(prototype->name) : nullptr;
      if (p == nullptr) return;  // .calltargets: the .param variables say enough
      formal_arguments_ = &p->parameters;
      formal_results_ = &p->returns;
      return;
    }
    const auto found = b_.link().find_function(b_.module(), callee.name);
    if (!found) {
      if (b_.link().is_declared_function(b_.module(), callee.name))
        fail(compile_error_kind::unresolved_symbol, f_.line(),
             "unresolved function '" + std::string(callee.name) + "'");
      fail_syntax(f_.line(), "unknown function '" + std::string(callee.name) + "'");
    }
    site_.function = found->index;
    site_.system = found->system;
    formal_arguments_ = &found->source->parameters;
    formal_results_ = &found->source->returns;
  }

  const variable_symbol* parameter(const syntax::operand& o) {
    if (o.kind != syntax::operand::form::name || b_.find_register(o) != nullptr) return nullptr;
    const variable_symbol* v = b_.find_variable(o.name);
    return v != nullptr && v->where == variable_symbol::place::parameter ? v : nullptr;
  }

  // A register or number goes through a hidden .param variable.
  void add_argument(const syntax::operand& o, std::size_t n) {
    if (const variable_symbol* v = parameter(o)) {
      site_.arguments.push_back({v->offset, v->bytes});
      return;
    }
    if (formal_arguments_ == nullptr || n >= formal_arguments_->size())
      fail_syntax(f_.line(), "call with too many arguments");
    const type t = (*formal_arguments_)[n].element;
    const std::uint32_t bytes = bytes_of(t);
    const std::uint32_t offset = b_.reserve_parameter(bytes, bytes);
    store_parameter_of(b_, t, b_.source(o, t), offset);
    site_.arguments.push_back({offset, bytes});
  }

  void add_result(const syntax::operand& o, std::size_t n) {
    if (const variable_symbol* v = parameter(o)) {
      site_.results.push_back({v->offset, v->bytes});
      return;
    }
    if (formal_results_ == nullptr || n >= formal_results_->size())
      fail_syntax(f_.line(), "call with too many results");
    const type t = (*formal_results_)[n].element;
    const std::uint32_t bytes = bytes_of(t);
    const std::uint32_t offset = b_.reserve_parameter(bytes, bytes);
    site_.results.push_back({offset, bytes});
    register_results_.push_back({&o, t, offset});
  }

  void emit(const syntax::operand& callee) {
    site_.indirect = indirect_;
    std::vector<std::uint32_t> uses;
    if (indirect_) uses.push_back(b_.source(callee, type::u64));
    handler run = indirect_ ? call_indirect : call_direct;
    flow kind = flow::control;
    if (site_.system != system_call::none) {
      run = call_system;
      kind = flow::checked;
    }
    auto& calls = b_.target().calls;
    b_.emit(run, {}, uses, kind).target = static_cast<std::uint32_t>(calls.size());
    calls.push_back(std::move(site_));
  }

  void load_results() {
    for (const auto& r : register_results_)
      load_parameter_of(b_, r.kind, b_.destination(*r.operand, r.kind), r.offset);
  }

  struct register_result {
    const syntax::operand* operand;
    type kind;
    std::uint32_t offset;
  };

  builder& b_;
  const form& f_;
  call_site site_;
  bool indirect_ = false;
  const std::vector<syntax::variable>* formal_arguments_ = nullptr;
  const std::vector<syntax::variable>* formal_results_ = nullptr;
  std::vector<register_result> register_results_;
};

bool decode_call(builder& b, const form& f) {
  return call_decoder(b, f).run();
}

// alloca d, size, align: local memory that goes when the function returns.
void allocate_local(executor& x, const instruction& i, std::uint32_t lanes) {
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(lanes));
    std::uint32_t& top = x.warp_->local_top[l];
    const std::uint32_t align = std::max(i.sub, 16u);
    const std::uint64_t size =
        i.extra != 0 ? get<std::uint64_t>(x.in(i.o[1]), l) : get<std::uint32_t>(x.in(i.o[1]), l);
    const std::uint32_t base = (top + align - 1) & ~(align - 1);
    const std::uint32_t padding = base - top;
    if (size > ~0u - padding - 16u || !x.grow_local(l, padding + static_cast<std::uint32_t>(size)))
      return x.raise(fault_kind::out_of_stack, i, "local memory exhausted");
    if (i.extra != 0)
      put<std::uint64_t>(x.out(i.o[0]), l, base);
    else
      put<std::uint32_t>(x.out(i.o[0]), l, base);
  }
}

bool decode_alloca(builder& b, const form& f) {
  const type t = f.t();
  instruction& i = b.emit(allocate_local, {b.destination(f.operand(0), t)},
                          {b.source(f.operand(1), t)}, flow::checked);
  i.extra = lane_bytes(t) == 8 ? 1 : 0;
  if (f.operand_count() > 2) i.sub = static_cast<std::uint32_t>(f.operand(2).bits);
  return true;
}

void save_stack(executor& x, const instruction& i, std::uint32_t lanes) {
  for (std::uint32_t m = lanes; m != 0; m &= m - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(m));
    if (i.extra != 0)
      put<std::uint64_t>(x.out(i.o[0]), l, x.warp_->local_top[l]);
    else
      put<std::uint32_t>(x.out(i.o[0]), l, x.warp_->local_top[l]);
  }
}
void restore_stack(executor& x, const instruction& i, std::uint32_t lanes) {
  for (std::uint32_t m = lanes; m != 0; m &= m - 1) {
    const auto l = static_cast<std::uint32_t>(std::countr_zero(m));
    const std::uint64_t top =
        i.extra != 0 ? get<std::uint64_t>(x.in(i.o[0]), l) : get<std::uint32_t>(x.in(i.o[0]), l);
    // Only a value that stacksave gave is below the current top.
    if (top > x.warp_->local_top[l])
      return x.raise(fault_kind::illegal_address, i, "stackrestore above the stack");
    x.warp_->local_top[l] = static_cast<std::uint32_t>(top);
  }
}
bool decode_save(builder& b, const form& f) {
  b.emit(save_stack, {b.destination(f.operand(0), f.t())}, {}).extra =
      lane_bytes(f.t()) == 8 ? 1 : 0;
  return true;
}
bool decode_restore(builder& b, const form& f) {
  b.emit(restore_stack, {}, {b.source(f.operand(0), f.t())}, flow::checked).extra =
      lane_bytes(f.t()) == 8 ? 1 : 0;
  return true;
}

constexpr decode_entry entries[] = {
    {"call", decode_call},
    {"alloca", decode_alloca},
    {"stacksave", decode_save},
    {"stackrestore", decode_restore},
};

}  // namespace

decode_table call_instructions() {
  return entries;
}

}  // namespace gpuwire::softgpu::ptx
