// SPDX-License-Identifier: Apache-2.0
// Two processes that share device memory: allocations as descriptors over a socket; memory and events by their handles where
// the device can. The program starts both before either touches CUDA. Runs natively as well.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "test/loopback/programs/common.hpp"

static void say(const char* what, CUresult r) {
  std::printf("%s: %s\n", what, name_of(r));
  std::fflush(stdout);
}

static void send_bytes(int socket, const void* data, std::size_t bytes, int fd = -1) {
  iovec part{const_cast<void*>(data), bytes};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))]{};
  if (fd >= 0) {
    header.msg_control = space;
    header.msg_controllen = sizeof space;
    auto* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET, rights->cmsg_type = SCM_RIGHTS, rights->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
  }
  REQUIRE(sendmsg(socket, &header, 0) == static_cast<ssize_t>(bytes));
}

static void receive_bytes(int socket, void* data, std::size_t bytes, int* fd = nullptr) {
  iovec part{data, bytes};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))]{};
  header.msg_control = space;
  header.msg_controllen = sizeof space;
  REQUIRE(recvmsg(socket, &header, MSG_WAITALL) == static_cast<ssize_t>(bytes));
  if (fd == nullptr) return;
  auto* rights = CMSG_FIRSTHDR(&header);
  REQUIRE(rights != nullptr);
  std::memcpy(fd, CMSG_DATA(rights), sizeof *fd);
}

static void tell(int socket, char what) { send_bytes(socket, &what, 1); }
static void await(int socket, char what) {
  char got = 0;
  receive_bytes(socket, &got, 1);
  REQUIRE(got == what);
}

static CUmemAllocationProp properties_of(CUdevice device) {
  CUmemAllocationProp p{};
  p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return p;
}

static CUdeviceptr map(CUmemGenericAllocationHandle handle, std::size_t bytes, CUdevice device) {
  CUdeviceptr at;
  CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CHECK(cuMemAddressReserve(&at, bytes, 0, 0, 0));
  CHECK(cuMemMap(at, bytes, 0, handle, 0));
  CHECK(cuMemSetAccess(at, bytes, &access, 1));
  return at;
}

// What the owner is told it can do; the user follows its answers.
struct offer {
  char memory = 0, event = 0;
  CUipcMemHandle memory_handle{};
  CUipcEventHandle event_handle{};
};

static int owner(int socket) {
  gpu g;
  const auto properties = properties_of(g.device);
  std::size_t unit = 0;
  CHECK(cuMemGetAllocationGranularity(&unit, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CUmemGenericAllocationHandle handle;
  CHECK(cuMemCreate(&handle, unit, &properties, 0));
  const CUdeviceptr at = map(handle, unit, g.device);
  CHECK(cuMemsetD32(at, 4711, unit / 4));
  CHECK(cuCtxSynchronize());
  int fd = -1;
  CHECK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  send_bytes(socket, &unit, sizeof unit, fd);
  close(fd);
  await(socket, 'w');
  unsigned seen = 0;
  CHECK(cuMemcpyDtoH(&seen, at + 40, sizeof seen));
  std::printf("the owner sees %u\n", seen);
  std::fflush(stdout);

  offer o;
  CUdeviceptr memory;
  CUevent event = nullptr;
  int events_shared = 0;
  CHECK(cuMemAlloc(&memory, 1 << 20));
  CHECK(cuMemsetD32(memory, 99, 1 << 18));
  CHECK(cuCtxSynchronize());
  const CUresult shared = cuIpcGetMemHandle(&o.memory_handle, memory);
  REQUIRE(shared == CUDA_SUCCESS || shared == CUDA_ERROR_NOT_SUPPORTED);
  o.memory = shared == CUDA_SUCCESS;
  CHECK(cuDeviceGetAttribute(&events_shared, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, g.device));
  if (events_shared != 0) {
    CHECK(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    CHECK(cuIpcGetEventHandle(&o.event_handle, event));
    CHECK(cuEventRecord(event, nullptr));
    o.event = 1;
  }
  std::printf("handles: memory %s, event %s\n", o.memory ? "yes" : "no", o.event ? "yes" : "no");
  std::fflush(stdout);
  send_bytes(socket, &o, sizeof o);
  await(socket, 'm');
  if (o.memory) {
    CHECK(cuMemcpyDtoH(&seen, memory + 16, sizeof seen));
    REQUIRE(seen == 100);
  }
  CUdeviceptr none;
  if (o.memory) say("opening what is its own", cuIpcOpenMemHandle(&none, o.memory_handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  tell(socket, 'e');
  return 0;
}

static int user(int socket) {
  gpu g;
  std::size_t unit = 0;
  int fd = -1;
  receive_bytes(socket, &unit, sizeof unit, &fd);
  CUmemGenericAllocationHandle handle;
  CHECK(cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)),
                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  close(fd);
  const CUdeviceptr at = map(handle, unit, g.device);
  unsigned seen = 0;
  CHECK(cuMemcpyDtoH(&seen, at + 400, sizeof seen));
  std::printf("the user sees %u\n", seen);
  std::fflush(stdout);
  g.launch_store(at + 40, 1234);
  CHECK(cuCtxSynchronize());
  CHECK(cuMemUnmap(at, unit));
  CHECK(cuMemRelease(handle));
  CHECK(cuMemAddressFree(at, unit));
  tell(socket, 'w');

  offer o;
  receive_bytes(socket, &o, sizeof o);
  if (o.memory) {
    CUdeviceptr memory, again;
    CHECK(cuIpcOpenMemHandle(&memory, o.memory_handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    if (o.event) {
      CUevent event;
      CHECK(cuIpcOpenEventHandle(&event, o.event_handle));
      CHECK(cuStreamWaitEvent(nullptr, event, 0));
      CHECK(cuEventSynchronize(event));
      CHECK(cuEventDestroy(event));
    }
    CHECK(cuMemcpyDtoH(&seen, memory + 4096, sizeof seen));
    REQUIRE(seen == 99);
    CHECK(cuMemsetD32(memory + 16, 100, 1));
    CHECK(cuCtxSynchronize());
    CHECK(cuIpcCloseMemHandle(memory));
    o.memory_handle.reserved[20] = static_cast<char>(o.memory_handle.reserved[20] ^ 1);
    REQUIRE(cuIpcOpenMemHandle(&again, o.memory_handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) != CUDA_SUCCESS);
  }
  tell(socket, 'm');
  await(socket, 'e');
  // A file that is no handle.
  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);
  say("importing what is none", cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(pipe_ends[0])),
                                                               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  return 0;
}

int main() {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    close(ends[0]);
    const int code = user(ends[1]);
    std::fflush(stdout);
    _exit(code);
  }
  close(ends[1]);
  REQUIRE(owner(ends[0]) == 0);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  std::printf("PASSED\n");
  return 0;
}
