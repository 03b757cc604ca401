// SPDX-License-Identifier: Apache-2.0
// The launch of an instantiated graph: from its nodes to the steps that the scheduler runs.
#include "copy.hpp"
#include "graph_exec.hpp"
#include "graph_memory.hpp"
#include "memop.hpp"
#include "texture.hpp"

namespace gpuwire::softgpu {
namespace {

struct plan;

struct plan_step {
  std::function<operation()> make;
  // A conditional node instead: which of the bodies runs is decided when it is reached.
  std::shared_ptr<condition> decides;
  CUgraphConditionalNodeType type = CU_GRAPH_COND_TYPE_IF;
  std::vector<std::shared_ptr<plan>> bodies;
};

struct plan {
  std::vector<plan_step> steps;
};

class graph_run final : public operation_sequence {
 public:
  graph_run(std::shared_ptr<plan> whole, std::vector<std::shared_ptr<condition>> conditions)
      : conditions_(std::move(conditions)) {
    frames_.push_back({std::move(whole), 0, nullptr});
  }

  std::unique_ptr<operation> next() override {
    begin();
    while (!frames_.empty()) {
      auto& at = frames_.back();
      if (at.next == at.body->steps.size()) {
        if (at.loop && at.loop->value.load() != 0) {
          at.next = 0;
          return pause();
        }
        frames_.pop_back();
        continue;
      }
      const auto& step = at.body->steps[at.next++];
      if (!step.decides) return std::make_unique<operation>(step.make());
      enter(step);
    }
    return nullptr;
  }

 private:
  struct frame {
    std::shared_ptr<plan> body;
    std::size_t next = 0;
    std::shared_ptr<condition> loop;  // repeat while it is not zero
  };

  void begin() {
    for (const auto& one : conditions_) {
      if ((one->flags & CU_GRAPH_COND_ASSIGN_DEFAULT) != 0) one->value.store(one->default_value);
    }
    conditions_.clear();
  }

  void enter(const plan_step& step) {
    const unsigned value = step.decides->value.load();
    const bool is_if = step.type == CU_GRAPH_COND_TYPE_IF;
    const bool is_while = step.type == CU_GRAPH_COND_TYPE_WHILE;
    if (is_while && value == 0) return;
    const std::size_t chosen = is_while ? 0 : is_if ? (value != 0 ? 0 : 1) : value;
    if (chosen < step.bodies.size())
      frames_.push_back({step.bodies[chosen], 0, is_while ? step.decides : nullptr});
  }

  // Between two rounds of a loop: a loop of nothing must not hold the scheduler's lock.
  static std::unique_ptr<operation> pause() {
    auto made = std::make_unique<operation>();
    made->what = operation::kind::work;
    made->run = [] {};
    return made;
  }

  std::vector<std::shared_ptr<condition>> conditions_;
  std::vector<frame> frames_;
};

// Memory may have been freed since the node was made: then the copy or fill is what a kernel that
// touched it would be.
template <typename Check>
operation memory_operation(const std::shared_ptr<context>& in, Check check) {
  operation made;
  made.what = operation::kind::work;
  made.run = [in, check] {
    try {
      if (auto move = check()) move();
    } catch (const refusal&) {
      in->break_with(CUDA_ERROR_ILLEGAL_ADDRESS);
    }
  };
  return made;
}

// By handle; immutable, so that compute threads need no lock.
using condition_map = std::unordered_map<CUgraphConditionalHandle, std::shared_ptr<condition>>;

class planner {
 public:
  planner(std::shared_ptr<stream> on, std::shared_ptr<const condition_map> conditions,
          std::vector<std::shared_ptr<scheduler::event_step>>& events)
      : on_(std::move(on)), conditions_(std::move(conditions)), events_(events) {}

  std::shared_ptr<plan> plan_of(const graph& which) {
    auto made = std::make_shared<plan>();
    append(*made, which);
    return made;
  }

 private:
  void append(plan& to, const graph& which) {
    for (const auto* node : in_dependency_order(which)) {
      if (!node->enabled) continue;
      std::visit([&](const auto& payload) { add(to, payload); }, node->payload);
    }
  }

  static void push(plan& to, std::function<operation()> make) {
    to.steps.push_back({std::move(make), nullptr, {}, {}});
  }

  void add(plan& to, const kernel_payload& kernel) {
    require(kernel.launch.which->owner->active(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    push(to, [launch = kernel.launch, heap = kernel.launch.which->owner->heap(), on = on_,
              conditions = conditions_, textures = texture_objects::instance().snapshot()] {
      operation made;
      made.what = operation::kind::kernel;
      made.kernel = make_run(launch, heap);
      made.kernel->on = on;
      made.kernel->launch.textures = textures;
      if (!conditions->empty()) {
        made.kernel->launch.set_condition = [conditions](std::uint64_t handle,
                                                         std::uint32_t value) {
          auto found = conditions->find(handle);
          if (found != conditions->end()) found->second->value.store(value);
        };
      }
      return made;
    });
  }
  void add(plan& to, const memcpy_payload& copy) {
    push(to, [p = copy.parameters, in = copy.in] {
      return memory_operation(in, [p] { return checked_copy(p); });
    });
  }
  void add(plan& to, const memset_payload& fill) {
    push(to, [p = fill.parameters, in = fill.in] {
      return memory_operation(in, [p] { return checked_fill(p); });
    });
  }
  void add(plan& to, const host_payload& host) {
    push(to, [p = host.parameters] {
      operation made;
      made.what = operation::kind::host;
      made.run = [p] { p.fn(p.userData); };
      return made;
    });
  }
  void add(plan& to, const child_payload& child) { append(to, *child.body); }
  void add(plan&, const empty_payload&) {}
  void add(plan& to, const event_wait_payload& wait) {
    auto event = event_step(wait.which, false);
    push(to, [event] {
      operation made;
      if (event->bound) made.dependencies.push_back(fence_of(event->bound));
      return made;
    });
  }
  void add(plan& to, const event_record_payload& record) {
    auto event = event_step(record.which, true);
    push(to, [event] {
      operation made;
      made.record = event->bound;
      return made;
    });
  }
  void add(plan& to, const batch_payload& batch) {
    for (const auto& one : batch.operations) {
      auto checked = std::make_shared<operation>(batch_operation(one));
      push(to, [checked] { return *checked; });
    }
  }
  // What these do to the program's view of memory is done at the launch.
  void add(plan&, const alloc_payload&) {}
  void add(plan&, const free_payload&) {}
  void add(plan& to, const conditional_payload& choice) {
    plan_step made{nullptr, choice.decides, choice.type, {}};
    for (const auto& body : choice.bodies) made.bodies.push_back(plan_of(*body));
    to.steps.push_back(std::move(made));
  }

  std::shared_ptr<scheduler::event_step> event_step(const std::shared_ptr<event>& which,
                                                    bool records) {
    auto made = std::make_shared<scheduler::event_step>();
    made->which = which;
    made->records = records;
    events_.push_back(made);
    return made;
  }

  std::shared_ptr<stream> on_;
  std::shared_ptr<const condition_map> conditions_;
  std::vector<std::shared_ptr<scheduler::event_step>>& events_;
};

// Allocates and frees what the nodes of one launch do, all or nothing.
void use_memory(const graph& which, std::unordered_map<graph_memory*, bool>& live,
                bool free_at_launch) {
  for (const auto* node : in_dependency_order(which)) {
    if (const auto* alloc = std::get_if<alloc_payload>(&node->payload)) {
      auto* memory = alloc->memory.get();
      const bool already = live.count(memory) != 0 ? live[memory] : is_live(*memory);
      require(!already || free_at_launch);
      live[memory] = true;
    } else if (const auto* freed = std::get_if<free_payload>(&node->payload)) {
      auto memory = graph_memory_at(freed->address);
      require(memory != nullptr);
      const bool already = live.count(memory.get()) != 0 ? live[memory.get()] : is_live(*memory);
      require(already);
      live[memory.get()] = false;
    }
    for_each_inner_graph(*node,
                         [&](const graph& inner) { use_memory(inner, live, free_at_launch); });
  }
}

void collect_conditions(const graph& which, std::vector<std::shared_ptr<condition>>& to) {
  for (const auto& node : which.nodes) {
    if (const auto* choice = std::get_if<conditional_payload>(&node->payload))
      to.push_back(choice->decides);
    for_each_inner_graph(*node, [&](const graph& inner) { collect_conditions(inner, to); });
  }
}

}  // namespace

prepared_graph prepare_graph_launch(graph_exec& which, const std::shared_ptr<stream>& on) {
  prepared_graph made;
  std::vector<std::shared_ptr<condition>> conditions;
  collect_conditions(*which.copy, conditions);
  auto by_handle = std::make_shared<condition_map>();
  for (const auto& one : conditions) by_handle->emplace(one->handle, one);
  auto whole = planner(on, std::move(by_handle), made.events).plan_of(*which.copy);
  std::unordered_map<graph_memory*, bool> live;
  use_memory(*which.copy, live,
             (which.flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0);
  for (const auto& [memory, now] : live) mark_live(*memory, now);
  made.what.what = operation::kind::sequence;
  made.what.steps = std::make_shared<graph_run>(std::move(whole), std::move(conditions));
  // Launches of one instance never overlap.
  if (which.last_launch.of) made.what.dependencies.push_back(which.last_launch);
  return made;
}

}  // namespace gpuwire::softgpu
