// SPDX-License-Identifier: Apache-2.0
#include "header.hpp"

#include <clang-c/Index.h>

#include <algorithm>
#include <functional>

#include "text.hpp"

namespace gpuwire::gen {
namespace {

constexpr const char* main_file = "gpuwire_gen_input.c";
constexpr const char* version_enumerator = "gpuwire_gen_header_version";

std::string take(CXString text) {
  const char* c = clang_getCString(text);
  std::string copy = c ? c : "";
  clang_disposeString(text);
  return copy;
}

using visitor = std::function<CXChildVisitResult(CXCursor)>;

void visit_children(CXCursor parent, const visitor& visit) {
  clang_visitChildren(
      parent,
      [](CXCursor cursor, CXCursor, CXClientData data) {
        return (*static_cast<const visitor*>(data))(cursor);
      },
      const_cast<visitor*>(&visit));
}

std::string without_const(std::string spelling) {
  if (starts_with(spelling, "const ")) spelling.erase(0, 6);
  return spelling;
}

std::shared_ptr<type> read_type(CXType t, int depth);

// The typedef that names a struct itself: the last of a chain of them.
std::string name_of_record(CXType t) {
  std::string name;
  for (;;) {
    if (t.kind == CXType_Elaborated) t = clang_Type_getNamedType(t);
    if (t.kind != CXType_Typedef) return name;
    const auto declaration = clang_getTypeDeclaration(t);
    name = take(clang_getCursorSpelling(declaration));
    t = clang_getTypedefDeclUnderlyingType(declaration);
  }
}

void read_record(CXType canonical, type& out, int depth) {
  const auto declaration = clang_getTypeDeclaration(canonical);
  out.cls = clang_getCursorKind(declaration) == CXCursor_UnionDecl ? type_class::record_union
                                                                   : type_class::record;
  out.size = clang_Type_getSizeOf(canonical);
  out.align = clang_Type_getAlignOf(canonical);
  if (depth > 4) return;
  visit_children(declaration, [&](CXCursor c) {
    if (clang_getCursorKind(c) == CXCursor_FieldDecl)
      out.fields.push_back(
          {take(clang_getCursorSpelling(c)), read_type(clang_getCursorType(c), depth + 1)});
    return CXChildVisit_Continue;
  });
}

void read_scalar(CXType canonical, type& out) {
  switch (canonical.kind) {
    case CXType_Void:
      out.cls = type_class::nothing;
      return;
    case CXType_Float:
    case CXType_Double:
      out.cls = type_class::floating;
      break;
    case CXType_Char_S:
    case CXType_SChar:
      out.is_char = true;
      [[fallthrough]];
    case CXType_Short:
    case CXType_Int:
    case CXType_Long:
    case CXType_LongLong:
      out.cls = type_class::integer;
      out.is_signed = true;
      break;
    case CXType_Char_U:
    case CXType_UChar:
      out.is_char = true;
      [[fallthrough]];
    case CXType_Bool:
    case CXType_UShort:
    case CXType_UInt:
    case CXType_ULong:
    case CXType_ULongLong:
      out.cls = type_class::integer;
      break;
    default:
      return;
  }
  out.bits = static_cast<int>(clang_Type_getSizeOf(canonical)) * 8;
}

std::shared_ptr<type> read_type(CXType t, int depth) {
  auto out = std::make_shared<type>();
  out->spelling = take(clang_getTypeSpelling(t));
  out->name = without_const(out->spelling);
  out->is_const = clang_isConstQualifiedType(t) != 0;
  const auto canonical = clang_getCanonicalType(t);
  switch (canonical.kind) {
    case CXType_Pointer: {
      const auto pointee = clang_getPointeeType(canonical);
      const auto target = clang_getCanonicalType(pointee);
      if (target.kind == CXType_FunctionProto || target.kind == CXType_FunctionNoProto) {
        out->cls = type_class::function;
      } else if (target.kind == CXType_Record && clang_Type_getSizeOf(target) < 0 &&
                 out->name.find('*') == std::string::npos) {
        out->cls = type_class::opaque;
        out->bits = 64;
      } else {
        out->cls = type_class::pointer;
        // The pointee as declared, so that its typedef's name is kept.
        const auto declared = clang_getPointeeType(t);
        out->element = read_type(declared.kind == CXType_Invalid ? pointee : declared, depth + 1);
      }
      break;
    }
    case CXType_ConstantArray:
      out->cls = type_class::array;
      out->count = clang_getArraySize(canonical);
      {
        const auto declared = clang_getArrayElementType(t);
        out->element = read_type(
            declared.kind == CXType_Invalid ? clang_getArrayElementType(canonical) : declared,
            depth + 1);
      }
      break;
    case CXType_Enum: {
      out->cls = type_class::enumeration;
      const auto underlying =
          clang_getCanonicalType(clang_getEnumDeclIntegerType(clang_getTypeDeclaration(canonical)));
      type scalar;
      read_scalar(underlying, scalar);
      out->is_signed = scalar.is_signed;
      out->bits = scalar.bits;
      break;
    }
    case CXType_Record:
      read_record(canonical, *out, depth);
      out->record = name_of_record(t);
      break;
    default:
      read_scalar(canonical, *out);
      break;
  }
  return out;
}

header_function read_function(CXCursor cursor) {
  header_function f;
  f.name = take(clang_getCursorSpelling(cursor));
  const int count = clang_Cursor_getNumArguments(cursor);
  for (int i = 0; i < count; ++i) {
    const auto argument = clang_Cursor_getArgument(cursor, static_cast<unsigned>(i));
    auto name = take(clang_getCursorSpelling(argument));
    if (name.empty()) name = "p" + std::to_string(i);
    f.parameters.push_back({name, read_type(clang_getCursorType(argument), 0)});
  }
  return f;
}

// "PREFIXcuName_v3020" or "PREFIXcuName_v7000_ptsz".
void read_function_type(const std::string& name, const std::string& prefix, headers& out) {
  const auto bare = name.substr(prefix.size());
  const auto base = without_per_thread(bare);
  int version = 1;
  const auto stem = without_revision(base, version);
  auto& versions = base == bare ? out.versions[stem] : out.versions_per_thread[stem];
  if (std::find(versions.begin(), versions.end(), version) == versions.end())
    versions.push_back(version);
}

void read_cursor(CXCursor cursor, const specs& spec, headers& out) {
  const auto name = take(clang_getCursorSpelling(cursor));
  switch (clang_getCursorKind(cursor)) {
    case CXCursor_FunctionDecl:
      if (starts_with(name, spec.function_prefix) &&
          take(clang_getTypeSpelling(clang_getCursorResultType(cursor))) == spec.result_type)
        out.functions[name] = read_function(cursor);
      break;
    case CXCursor_TypedefDecl:
      if (!spec.function_type_prefix.empty() &&
          starts_with(name, spec.function_type_prefix + spec.function_prefix))
        read_function_type(name, spec.function_type_prefix, out);
      if (starts_with(name, spec.function_prefix)) {
        const auto behind = clang_getTypedefDeclUnderlyingType(cursor);
        if (clang_getCanonicalType(behind).kind == CXType_Record &&
            name_of_record(clang_getCursorType(cursor)) == name)
          out.records[name] = read_type(clang_getCursorType(cursor), 0);
      }
      if (name == spec.result_type) {
        const auto canonical = clang_getCanonicalType(clang_getTypedefDeclUnderlyingType(cursor));
        visit_children(clang_getTypeDeclaration(canonical), [&](CXCursor c) {
          if (clang_getCursorKind(c) == CXCursor_EnumConstantDecl)
            out.results.emplace(clang_getEnumConstantDeclValue(c),
                                take(clang_getCursorSpelling(c)));
          return CXChildVisit_Continue;
        });
      }
      break;
    case CXCursor_EnumDecl:
      visit_children(cursor, [&](CXCursor c) {
        if (take(clang_getCursorSpelling(c)) == version_enumerator)
          out.version = clang_getEnumConstantDeclValue(c);
        return CXChildVisit_Continue;
      });
      break;
    default:
      break;
  }
}

bool report_errors(CXTranslationUnit unit, problems& wrong) {
  bool bad = false;
  for (unsigned i = 0; i < clang_getNumDiagnostics(unit); ++i) {
    const auto d = clang_getDiagnostic(unit, i);
    if (clang_getDiagnosticSeverity(d) >= CXDiagnostic_Error) {
      wrong.add(take(clang_formatDiagnostic(d, clang_defaultDiagnosticDisplayOptions())));
      bad = true;
    }
    clang_disposeDiagnostic(d);
  }
  return bad;
}

}  // namespace

headers read_headers(const specs& spec, const std::vector<std::string>& include_dirs,
                     problems& wrong) {
  std::string source;
  for (const auto* files : {&spec.header_files, &spec.version_header_files})
    for (const auto& file : *files) source += "#include <" + file + ">\n";
  if (!spec.version_macro.empty())
    source += std::string("enum { ") + version_enumerator + " = " + spec.version_macro + " };\n";

  std::vector<std::string> arguments = {"-x", "c", "-std=c11"};
  for (const auto& dir : include_dirs) arguments.push_back("-I" + dir);
  for (const auto& define : spec.defines) arguments.push_back("-D" + define);
  std::vector<const char*> raw;
  for (const auto& a : arguments) raw.push_back(a.c_str());

  headers out;
  CXUnsavedFile file{main_file, source.c_str(), source.size()};
  const auto index = clang_createIndex(0, 0);
  CXTranslationUnit unit = nullptr;
  const auto failed =
      clang_parseTranslationUnit2(index, main_file, raw.data(), static_cast<int>(raw.size()), &file,
                                  1, CXTranslationUnit_SkipFunctionBodies, &unit);
  if (failed != CXError_Success || !unit) {
    wrong.add("libclang could not parse the headers (code " + std::to_string(failed) + ")");
  } else {
    if (!report_errors(unit, wrong))
      visit_children(clang_getTranslationUnitCursor(unit), [&](CXCursor c) {
        read_cursor(c, spec, out);
        return CXChildVisit_Continue;
      });
    clang_disposeTranslationUnit(unit);
  }
  clang_disposeIndex(index);
  for (auto* all : {&out.versions, &out.versions_per_thread})
    for (auto& [name, versions] : *all) std::sort(versions.begin(), versions.end());
  return out;
}

}  // namespace gpuwire::gen
