// SPDX-License-Identifier: Apache-2.0
// A program that uses NVML as monitoring tools do: through dlopen, with declarations of its own.
// With "names FILE" it also looks up every name of the list.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

namespace {

void* library = nullptr;

template <class Function>
Function* find(const char* name) {
  void* found = ::dlsym(library, name);
  if (found == nullptr) {
    std::printf("%s is missing\n", name);
    std::exit(1);
  }
  return reinterpret_cast<Function*>(found);
}

int failures = 0;

void expect(const char* what, long long found, long long wanted) {
  if (found == wanted) return;
  ++failures;
  std::printf("%s: %lld, expected %lld\n", what, found, wanted);
}

struct memory_v2 {
  std::uint32_t version;
  unsigned long long total, reserved, free, used;
};
struct pci_info {
  char legacy[16];
  std::uint32_t domain, bus, device, id, subsystem;
  char bus_id[32];
};
struct process_info {
  std::uint32_t pid;
  unsigned long long memory;
  std::uint32_t gpu_instance, compute_instance;
};
struct event_data {
  void* device;
  unsigned long long type, data;
  std::uint32_t gpu_instance, compute_instance;
};

using init = int();
using device_count = int(std::uint32_t*);
using by_index = int(std::uint32_t, void**);
using by_text = int(const char*, void**);
using text_of = int(void*, char*, std::uint32_t);
using number_of = int(void*, std::uint32_t*);
using system_text = int(char*, std::uint32_t);

constexpr int uninitialised = 1, invalid = 2, not_supported = 3, no_permission = 4, not_found = 6,
              insufficient = 7, timed_out = 10, no_function = 13, version_mismatch = 25;

void before_init() {
  std::uint32_t count = 0;
  void* device = nullptr;
  expect("count before init", find<device_count>("nvmlDeviceGetCount_v2")(&count), uninitialised);
  expect("handle before init", find<by_index>("nvmlDeviceGetHandleByIndex_v2")(0, &device),
         uninitialised);
  expect("refused before init", find<init>("nvmlDeviceReadPRMCounters_v1")(), uninitialised);
  expect("shutdown before init", find<init>("nvmlShutdown")(), uninitialised);
  const char* text = find<const char*(int)>("nvmlErrorString")(not_supported);
  expect("text of an error", std::strcmp(text, "Not Supported"), 0);
}

void* first_device() {
  std::uint32_t count = 0;
  expect("count", find<device_count>("nvmlDeviceGetCount_v2")(&count), 0);
  std::printf("devices: %s\n", count >= 1 ? "some" : "none");
  void* device = nullptr;
  expect("handle", find<by_index>("nvmlDeviceGetHandleByIndex_v2")(0, &device), 0);
  expect("handle of an index too high",
         find<by_index>("nvmlDeviceGetHandleByIndex_v2")(count, &device), invalid);
  expect("handle into null", find<by_index>("nvmlDeviceGetHandleByIndex_v2")(0, nullptr), invalid);
  expect("handle", find<by_index>("nvmlDeviceGetHandleByIndex_v2")(0, &device), 0);
  return device;
}

void identity(void* device) {
  char name[96] = {}, uuid[96] = {};
  expect("name", find<text_of>("nvmlDeviceGetName")(device, name, sizeof name), 0);
  expect("name without room", find<text_of>("nvmlDeviceGetName")(device, name, 2), insufficient);
  expect("name into null", find<text_of>("nvmlDeviceGetName")(device, nullptr, 96), invalid);
  expect("uuid", find<text_of>("nvmlDeviceGetUUID")(device, uuid, sizeof uuid), 0);
  expect("length of a uuid", static_cast<long long>(std::strlen(uuid)), 40);
  void* again = nullptr;
  expect("by uuid", find<by_text>("nvmlDeviceGetHandleByUUID")(uuid, &again), 0);
  expect("the same handle", again == device, 1);
  expect("by an unknown uuid", find<by_text>("nvmlDeviceGetHandleByUUID")("GPU-nobody", &again),
         not_found);
  expect("by null", find<by_text>("nvmlDeviceGetHandleByUUID")(nullptr, &again), invalid);
  pci_info pci{};
  expect("pci", find<int(void*, pci_info*)>("nvmlDeviceGetPciInfo_v3")(device, &pci), 0);
  expect("by bus", find<by_text>("nvmlDeviceGetHandleByPciBusId_v2")(pci.bus_id, &again), 0);
  expect("the same handle", again == device, 1);
  // The first revision of the struct is shorter: what lies behind it is the caller's.
  unsigned char old[64];
  std::memset(old, 0xaa, sizeof old);
  expect("old pci", find<int(void*, void*)>("nvmlDeviceGetPciInfo")(device, old), 0);
  expect("behind the old struct", old[32], 0xaa);
  std::uint32_t index = 7;
  expect("index", find<number_of>("nvmlDeviceGetIndex")(device, &index), 0);
  expect("index", index, 0);
}

void memory(void* device) {
  const auto ask = find<int(void*, memory_v2*)>("nvmlDeviceGetMemoryInfo_v2");
  memory_v2 m{};
  m.version = sizeof m | 2u << 24;
  expect("memory", ask(device, &m), 0);
  expect("sum of the memory", m.total == m.used + m.free + m.reserved && m.total > 0, 1);
  m.version = 17;
  expect("memory of a version that is none", ask(device, &m), version_mismatch);
  expect("memory into null", ask(device, nullptr), invalid);
  std::uint32_t rates[2] = {};
  expect("rates", find<int(void*, void*)>("nvmlDeviceGetUtilizationRates")(device, rates), 0);
  expect("rates", rates[0] <= 100 && rates[1] <= 100, 1);
}

void bad_handles() {
  const auto ask = find<number_of>("nvmlDeviceGetIndex");
  std::uint32_t index = 7;
  int local = 0;
  void* const handles[] = {nullptr,
                           reinterpret_cast<void*>(1),
                           reinterpret_cast<void*>(-1),
                           &local,
                           reinterpret_cast<void*>(0x0001000000001000),
                           reinterpret_cast<void*>(0x0002000000000000)};
  for (void* handle : handles)
    expect("index of a handle that is none", ask(handle, &index), invalid);
  expect("index is untouched", index, 7);
}

void versions() {
  char driver[96] = {}, nvml[96] = {};
  expect("driver version", find<system_text>("nvmlSystemGetDriverVersion")(driver, sizeof driver),
         0);
  expect("nvml version", find<system_text>("nvmlSystemGetNVMLVersion")(nvml, sizeof nvml), 0);
  int cuda = 0, again = 0;
  expect("cuda version", find<int(int*)>("nvmlSystemGetCudaDriverVersion_v2")(&cuda), 0);
  if (void* cuda_library = ::dlopen("libcuda.so.1", RTLD_NOW)) {
    reinterpret_cast<int (*)(int*)>(::dlsym(cuda_library, "cuDriverGetVersion"))(&again);
    expect("both libraries name one CUDA version", cuda, again);
  }
  std::printf("versions: %s\n", driver[0] != 0 && nvml[0] != 0 ? "given" : "empty");
}

void events(void* device) {
  void* set = nullptr;
  expect("event set", find<int(void**)>("nvmlEventSetCreate")(&set), 0);
  event_data data{};
  const auto wait = find<int(void*, event_data*, std::uint32_t)>("nvmlEventSetWait_v2");
  expect("nothing happens", wait(set, &data, 250), timed_out);
  expect("a device is no set", wait(device, &data, 0), invalid);
  expect("free", find<int(void*)>("nvmlEventSetFree")(set), 0);
  expect("free twice", find<int(void*)>("nvmlEventSetFree")(set), invalid);
}

void changes_and_tables(void* device) {
  expect("power limit",
         find<int(void*, std::uint32_t)>("nvmlDeviceSetPowerManagementLimit")(device, 100000),
         no_permission);
  expect("raw registers", find<init>("nvmlDeviceReadPRMCounters_v1")(), not_supported);
  const void* table = nullptr;
  const unsigned char unknown[16] = {1, 2, 3};
  expect("unknown table",
         find<int(const void**, const void*)>("nvmlInternalGetExportTable")(&table, unknown),
         no_function);
}

void processes(void* device) {
  const auto ask =
      find<int(void*, std::uint32_t*, process_info*)>("nvmlDeviceGetComputeRunningProcesses_v3");
  void* cuda = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (cuda == nullptr) return;
  expect("cuInit", reinterpret_cast<int (*)(unsigned)>(::dlsym(cuda, "cuInit"))(0), 0);
  std::uint32_t count = 0;
  const int first = ask(device, &count, nullptr);
  if (first != insufficient) return;  // a real device lists a process when it has a context
  process_info infos[64] = {};
  count = 64;
  expect("processes", ask(device, &count, infos), 0);
  bool listed = false;
  for (std::uint32_t i = 0; i < count && i < 64; ++i)
    listed |= infos[i].pid == static_cast<std::uint32_t>(::getpid());
  expect("this process is listed under its own number", listed, 1);
  expect("processes into null", ask(device, nullptr, infos), invalid);
  char name[256] = {};
  expect("own name",
         find<int(unsigned, char*, unsigned)>("nvmlSystemGetProcessName")(
             static_cast<unsigned>(::getpid()), name, sizeof name),
         0);
  expect("own name", std::strstr(name, "nvml") != nullptr, 1);
}

// What a data loader's parent does: it counted devices, and its child goes on.
void in_a_child(void* device) {
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    std::uint32_t index = 7;
    const int result = find<number_of>("nvmlDeviceGetIndex")(device, &index);
    ::_exit(result == 0 && index == 0 ? 0 : 1);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  expect("a child goes on with its parent's handles", status, 0);
  std::uint32_t index = 7;
  expect("and the parent too", find<number_of>("nvmlDeviceGetIndex")(device, &index), 0);
}

void names(const char* path) {
  std::ifstream list(path);
  std::string name;
  int found = 0;
  while (std::getline(list, name)) {
    if (name.empty()) continue;
    if (::dlsym(library, name.c_str()) != nullptr)
      ++found;
    else
      expect(name.c_str(), 0, 1);
  }
  std::printf("names: %d\n", found);
  expect("names", found >= 400, 1);
}

}  // namespace

int main(int argc, char** argv) {
  library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (library == nullptr) {
    std::printf("%s\n", ::dlerror());
    return 1;
  }
  before_init();
  expect("init", find<init>("nvmlInit_v2")(), 0);
  expect("init again", find<init>("nvmlInit")(), 0);
  void* device = first_device();
  identity(device);
  memory(device);
  bad_handles();
  versions();
  events(device);
  changes_and_tables(device);
  in_a_child(device);
  processes(device);
  if (argc == 3 && std::strcmp(argv[1], "names") == 0) names(argv[2]);
  expect("shutdown", find<init>("nvmlShutdown")(), 0);
  std::uint32_t count = 0;
  expect("still initialised", find<device_count>("nvmlDeviceGetCount_v2")(&count), 0);
  expect("shutdown", find<init>("nvmlShutdown")(), 0);
  expect("uninitialised again", find<device_count>("nvmlDeviceGetCount_v2")(&count), uninitialised);
  expect("and again initialised", find<int(unsigned)>("nvmlInitWithFlags")(0), 0);
  expect("shutdown", find<init>("nvmlShutdown")(), 0);
  if (failures != 0) return 1;
  std::printf("PASSED\n");
  return 0;
}
