// SPDX-License-Identifier: Apache-2.0
// Device printf. Arguments are packed with their natural alignment: integers of 4 bytes unless %l
// or %ll says 8, floats promoted to double, strings and pointers as addresses. The host's printf
// does the formatting of each.
#include <cstdio>
#include <cstring>

#include "system_calls.hpp"

namespace gpuwire::softgpu::ptx {
namespace {

struct directive {
  std::string flags;  // everything between % and the length modifier
  std::string length;
  char conversion = '\0';
};

template <class T>
std::string print_one(const std::string& format, T value) {
  const int needed = std::snprintf(nullptr, 0, format.c_str(), value);
  if (needed < 0) return {};
  std::string result(static_cast<std::size_t>(needed) + 1, '\0');
  std::snprintf(result.data(), result.size(), format.c_str(), value);
  result.pop_back();
  return result;
}

// Parses the directive that starts behind a '%'; `at` moves behind it.
directive take_directive(const std::string& format, std::size_t& at) {
  directive d;
  const auto take_while = [&](const char* set, std::string& into) {
    while (at < format.size() && std::strchr(set, format[at]) != nullptr)
      into.push_back(format[at++]);
  };
  take_while("-+ #0123456789.", d.flags);
  // A width that no terminal has would only ask this process for memory.
  if (d.flags.size() > 12) d.flags.resize(12);
  take_while("hlLjzt", d.length);
  if (at < format.size()) d.conversion = format[at++];
  return d;
}

using next_argument = std::function<std::uint64_t(std::uint32_t bytes)>;

std::string print_integer(const directive& d, const next_argument& argument) {
  const bool wide = d.length.find_first_of("ljzt") != std::string::npos;
  const bool is_signed = d.conversion == 'd' || d.conversion == 'i';
  const std::string conversion(1, is_signed ? 'd' : d.conversion);
  const std::string format = "%" + d.flags + (wide ? "ll" : d.length) + conversion;
  const std::uint64_t v = argument(wide ? 8 : 4);
  if (wide) {
    return is_signed ? print_one(format, static_cast<long long>(v))
                     : print_one(format, static_cast<unsigned long long>(v));
  }
  const auto narrow = static_cast<std::uint32_t>(v);
  return is_signed ? print_one(format, static_cast<int>(narrow)) : print_one(format, narrow);
}

}  // namespace

std::string format_device(const std::string& format,
                          const std::function<bool(std::uint32_t, void*, std::uint32_t)>& read,
                          const std::function<std::optional<std::string>(std::uint64_t)>& text,
                          std::int32_t& count) {
  std::string result;
  std::uint32_t offset = 0;
  const auto argument = [&](std::uint32_t bytes) {
    offset = (offset + bytes - 1) / bytes * bytes;
    std::uint64_t value = 0;
    if (!read(offset, &value, bytes)) value = 0;
    offset += bytes;
    ++count;
    return value;
  };
  for (std::size_t at = 0; at < format.size();) {
    if (format[at] != '%') {
      result.push_back(format[at++]);
      continue;
    }
    const std::size_t start = at++;
    const directive d = take_directive(format, at);
    const std::string prefix = "%" + d.flags;
    switch (d.conversion) {
      case '%':
        result.push_back('%');
        break;
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        result += print_integer(d, argument);
        break;
      case 'f':
      case 'F':
      case 'e':
      case 'E':
      case 'g':
      case 'G':
      case 'a':
      case 'A':
        result +=
            print_one(prefix + std::string(1, d.conversion), std::bit_cast<double>(argument(8)));
        break;
      case 'c':
        result +=
            print_one(prefix + "c", static_cast<int>(static_cast<std::uint32_t>(argument(4))));
        break;
      case 's': {
        const auto found = text(argument(8));
        result += print_one(prefix + "s", found ? found->c_str() : "(null)");
        break;
      }
      case 'p':
        result += print_one(prefix + "p",
                            reinterpret_cast<void*>(static_cast<std::uintptr_t>(argument(8))));
        break;
      default:
        result.append(format, start, at - start);
    }
  }
  return result;
}

}  // namespace gpuwire::softgpu::ptx
