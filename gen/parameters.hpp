// SPDX-License-Identifier: Apache-2.0
// Decides how one parameter of a driver function travels, from its type and its spec line. What the
// header leaves open is refused, with the line that would settle it.
#pragma once

#include <map>
#include <optional>

#include "model.hpp"

namespace gpuwire::gen {

class parameter_planner {
 public:
  parameter_planner(const specs& spec, std::map<std::string, record_plan>& records, problems& wrong)
      : spec_(spec), records_(records), wrong_(wrong) {}

  // Nothing when it was refused.
  std::optional<parameter_plan> plan(const spec_call& call, const header_function& f,
                                     const header_parameter& p);

 private:
  void refuse(const spec_call& call, const header_parameter& p, const std::string& why,
              const std::vector<std::string>& lines);
  std::optional<parameter_plan> by_value(const spec_call& call, const header_parameter& p,
                                         const spec_parameter& line);
  std::optional<parameter_plan> by_pointer(const spec_call& call, const header_function& f,
                                           const header_parameter& p, const spec_parameter& line);
  std::optional<parameter_plan> without_length(const spec_call& call, const header_parameter& p,
                                               const spec_parameter& line, parameter_plan out);
  bool lengths(const spec_call& call, const header_function& f, const spec_parameter& line,
               const std::string& text, parameter_plan& out);
  bool scalar(const spec_call& call, const header_parameter& p, const type& t,
              const spec_parameter& line, parameter_plan& out);
  bool record(const spec_call& call, const header_parameter& p, const type& t, parameter_plan& out);
  const spec_kind* kind_of_type(const std::string& handle_type) const;
  const spec_kind* kind_named(const std::string& name) const;

  const specs& spec_;
  std::map<std::string, record_plan>& records_;
  problems& wrong_;
};

// "u32" and the like; empty for a type that is no scalar.
std::string wire_scalar(const type& t);

// The fields that the plan of a call adds to its request and its reply, payloads last.
void add_fields(const std::vector<parameter_plan>& parameters, wire_call& out);

}  // namespace gpuwire::gen
