// SPDX-License-Identifier: Apache-2.0
// The second language of the generator, for an API of many small functions of one shape: scalars
// and handles in, scalars, flat structs, texts and counted arrays out. One file says what the
// header leaves open; the declarations are written anew, so that what is generated compiles without
// the header. Described in gen/README.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "model.hpp"
#include "output.hpp"

namespace gpuwire::gen {

struct flat_kind {
  std::string name, handle_type;
  int number = 0;
};

// What a spec says of one parameter.
struct flat_words {
  place at;
  bool in = false, out = false, inout = false, frees = false;
  std::string count, bytes, text;  // the argument of count(..) and so on
  long most = -1, prefix = -1;
};

enum class flat_way { call, custom, local, refused };

struct flat_call {
  place at;
  std::string name, like, reason;
  flat_way way = flat_way::call;
  int id = 0;
  bool write = false;
  std::map<std::string, flat_words> words;
};

// A field that is more than its bytes: an array behind a pointer, a text of the library, a process
// id.
struct flat_member {
  place at;
  std::string field, word, argument;
};

struct flat_spec {
  std::string api, header;
  specs reading;  // what read_headers wants to know
  std::vector<flat_kind> kinds;
  std::vector<flat_call> calls;
  std::map<std::string, std::vector<flat_member>> members;  // by struct
};

enum class flat_form {
  scalar,
  handle,
  cstring,
  out_scalar,
  out_handle,
  structure,   // in, out or both
  revisioned,  // its first field says which revision of the struct it is
  text,
  count,  // of an array; in and out
  array,
};

struct flat_parameter {
  std::string name, cpp;  // type of the value, or of what is pointed to
  flat_form form = flat_form::scalar;
  bool in = false, out = false, frees = false;
  int kind = 0;
  bool by_pointer = false;
  std::string length;  // text and array: parameter or number
  bool length_by_pointer = false, length_in_bytes = false;
  long most = -1, prefix = -1;
};

struct flat_function {
  const flat_call* spec = nullptr;
  std::vector<flat_parameter> parameters;
};

struct flat_plan {
  const flat_spec* spec = nullptr;
  const headers* header = nullptr;
  std::vector<flat_function> functions;
  std::vector<std::string> structs;                          // those that are used, innermost first
  std::map<std::string, std::vector<std::string>> families;  // revisions of one struct, by its stem
};

flat_spec read_flat_spec(const std::filesystem::path& file, problems& wrong);
flat_plan make_flat_plan(const flat_spec& spec, const headers& header, problems& wrong);
// wire/generated/API, shim/generated/API, daemon/generated/API.
void write_flat(const flat_plan& p, file_set& files);
void write_flat_client(const flat_plan& p, file_set& files);
void write_flat_server(const flat_plan& p, file_set& files);
std::string flat_banner(const flat_plan& p, const std::string& comment);
std::uint64_t flat_fingerprint(const flat_plan& p, const flat_function& f);
std::string flat_parameters(const flat_function& f, bool with_names);  // as C declares them
std::vector<const flat_parameter*> flat_order(
    const flat_function& f);  // as they travel: arrays last

std::string flat_scalar(const type& t);  // "std::uint32_t"; empty if it is none

}  // namespace gpuwire::gen
