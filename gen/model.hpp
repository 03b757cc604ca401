// SPDX-License-Identifier: Apache-2.0
// What the generator knows between reading and writing: the headers as libclang saw them, the spec
// lines as written, and the plan that joins the two. Plain data, filled once, read by every writer.
// No name of any API appears in this program; all of them come from the headers and the specs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace gpuwire::gen {

// A place in a spec file, for messages.
struct place {
  std::string file;
  int line = 0;
};

// Everything that is wrong, gathered so that one run shows it all.
class problems {
 public:
  void add(const place& at, const std::string& text);
  void add(const std::string& text) { lines_.push_back(text); }
  const std::vector<std::string>& lines() const { return lines_; }
  bool empty() const { return lines_.empty(); }

 private:
  std::vector<std::string> lines_;
};

// ---- headers ----

enum class type_class {
  nothing,  // void
  integer,
  floating,
  enumeration,
  opaque,  // a typedef of a pointer to a struct that is never defined: a handle
  pointer,
  record,  // struct
  record_union,
  function,  // pointer to a function
  array,     // fixed length, inside a struct
  other,
};

struct type;

struct record_field {
  std::string name;
  std::shared_ptr<type> what;
};

struct type {
  type_class cls = type_class::other;
  std::string spelling;  // as declared
  std::string name;      // without const: the name to use in a cast
  bool is_const = false;
  bool is_signed = false;
  int bits = 0;                      // integer, floating, enumeration
  bool is_char = false;              // char of any signedness
  std::shared_ptr<type> element;     // pointer and array
  std::int64_t count = 0;            // array
  std::vector<record_field> fields;  // record
  std::int64_t size = 0, align = 0;  // bytes; record, union
  std::string record;                // record, union: the name behind all typedefs; empty if it has none
};

struct header_parameter {
  std::string name;
  std::shared_ptr<type> what;
};

struct header_function {
  std::string name;
  std::vector<header_parameter> parameters;
};

struct headers {
  std::map<std::string, header_function> functions;
  std::map<std::string, std::vector<int>> versions;  // base name -> versions of its function types
  std::map<std::string, std::vector<int>>
      versions_per_thread;                      // the same for the per-thread-stream series
  std::map<std::int64_t, std::string> results;  // value -> name of the first enumerator
  std::map<std::string, std::shared_ptr<type>> records;  // structs with a typedef of their own
  std::int64_t version = 0;
};

// ---- specs ----

enum class call_class { called, cached, posted, minted, bulk, push, notice };
const char* to_string(call_class c);

struct spec_parameter {
  place at;
  std::string name;
  bool in = false, out = false;  // as written; neither: the default of the type
  bool cstring = false, custom = false, frees = false;
  std::string count, bytes, kind;  // the argument of count(..) and so on; empty: not written
};

struct spec_call {
  place at;
  std::string name, family;
  bool local = false;
  std::string via;  // name of a message, or empty
  int id = -1;
  call_class cls = call_class::called;
  bool slow = false, unsafe = false, custom_shim = false, custom_daemon = false;
  int before_init = 3;
  std::vector<std::string> invalidates;
  std::vector<spec_parameter> parameters;
  bool used = false;
};

struct spec_refusal {
  place at;
  std::string name, family, reason;  // name may end in '*'
  bool used = false;
};

struct spec_headerless {
  place at;
  std::string name, family, reason;
  int since = 0;  // 0: cannot be looked up by name and version
};

struct spec_kind {
  place at;
  std::string name;
  int number = 0;
  std::string handle_type;
  std::string shim_accessor;  // empty: the common one
  std::string daemon_accessor;
};

// One field of a message, a struct or a call. type: u8 .. f64, bool, text, bytes, array(x),
// list(s), struct(s).
struct wire_field {
  std::string type, name;
};

struct spec_struct {
  place at;
  std::string name;
  std::vector<wire_field> fields;
};

struct spec_message {
  place at;
  std::string name, family;
  int id = -1;
  call_class cls = call_class::called;
  bool slow = false, unsafe = false;
  std::vector<wire_field> request, reply;
};

struct specs {
  std::vector<std::string> header_files, version_header_files, defines;
  std::map<std::string, std::string>
      translated;  // type of a number -> function of the shim that turns it into the server's
  std::string version_macro, function_prefix, function_type_prefix;
  std::string result_type, success, unsupported, malformed;
  std::vector<spec_kind> kinds;
  std::vector<spec_struct> structs;
  std::vector<spec_message> messages;
  std::vector<spec_call> calls;
  std::vector<spec_refusal> refusals;
  std::vector<spec_headerless> headerless;
  std::map<std::int64_t, std::pair<place, std::string>> errors;
  std::vector<std::string> exports;  // empty: not checked
  std::vector<std::string> families;
};

// ---- plan ----

enum class form { scalar, handle, record, cstring, bytes, array, custom };

// How one parameter travels.
struct parameter_plan {
  std::string name;      // of the header
  std::string field;     // of the wire: the same unless it is a keyword
  std::string declared;  // type as declared
  form how = form::scalar;
  bool in = false, out = false;
  bool by_pointer = false;  // a null pointer must be told apart
  bool frees = false;
  std::string element;  // C++ type behind the pointer, or of the value
  std::string wire;     // wire scalar of one element ("u32"), empty for cstring, bytes, custom
  const spec_kind* kind = nullptr;
  std::string translation;           // form::scalar: function of the shim, or empty
  std::string record;                // form::record: wire struct
  std::vector<std::string> lengths;  // factors: parameter names or numbers
};

// A record of the header taken apart into scalars.
struct record_leaf {
  std::string path;  // C++ access behind the object: "a.b[2]"
  std::string cast;  // C++ type of the leaf
  wire_field field;
};
struct record_plan {
  std::string name;
  std::vector<record_leaf> leaves;
};

// A wire call: a message of the specs or a driver function with an id of its own.
struct wire_call {
  std::string name, family;
  int id = 0;
  call_class cls = call_class::called;
  bool slow = false, unsafe = false;
  std::vector<wire_field> request, reply;
  std::uint64_t fingerprint = 0;
  bool handwritten_daemon = false;
};

enum class entry_way { local, via, call, refused };

struct entry {
  std::string name, family, reason;
  entry_way way = entry_way::refused;
  const header_function* function = nullptr;  // null: headerless
  const spec_call* spec = nullptr;
  const wire_call* wire = nullptr;         // call and via
  std::vector<parameter_plan> parameters;  // call
  std::vector<std::string> variants;       // per-thread-stream names that follow this one
};

struct proc_row {
  std::string base, symbol;
  int version = 0;
  bool per_thread = false;
};

struct plan {
  const headers* header = nullptr;
  const specs* spec = nullptr;
  std::vector<std::unique_ptr<wire_call>> calls;  // by id
  std::map<std::string, record_plan> records;
  std::vector<entry> entries;   // by family, then name
  std::vector<proc_row> procs;  // by base, series, version
};

}  // namespace gpuwire::gen
