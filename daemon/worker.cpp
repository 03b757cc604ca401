// SPDX-License-Identifier: Apache-2.0
#include "daemon/worker.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "daemon/limits.hpp"
#include "daemon/log.hpp"
#include "wire/generated/messages_internal.hpp"
#include "wire/limits.hpp"

namespace gpuwire::daemon {
namespace {

staging_pool::settings staging_settings(std::size_t block_bytes_min, std::size_t bytes_max) {
  return {block_bytes_min, limits::staging_slab_bytes, bytes_max};
}

}  // namespace

bool is_sticky(CUresult result) {
  switch (result) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
      return true;
    default:
      return false;
  }
}

worker::worker(std::unique_ptr<loaded_driver> d)
    : inline_staging(
          staging_settings(limits::staging_block_bytes_min, limits::staging_inline_bytes_max),
          [this](std::byte* data, std::size_t bytes, std::uint32_t) {
            capture_mode_scope relaxed(driver(), CU_STREAM_CAPTURE_MODE_RELAXED);
            if (driver().cuMemHostRegister_v2)
              driver().cuMemHostRegister_v2(data, bytes, CU_MEMHOSTREGISTER_PORTABLE);
          }),
      bulk_staging(staging_settings(wire::limits::bulk_chunk_bytes, limits::staging_bulk_bytes_max),
                   [this](std::byte* data, std::size_t bytes, std::uint32_t) {
                     capture_mode_scope relaxed(driver(), CU_STREAM_CAPTURE_MODE_RELAXED);
                     if (driver().cuMemHostRegister_v2)
                       driver().cuMemHostRegister_v2(data, bytes, CU_MEMHOSTREGISTER_PORTABLE);
                   }),
      driver_(std::move(d)) {
  for (const auto kind : msg::handle_kinds) {
    const auto first = kind == handle_kind::context ? limits::explicit_context_first : 1u;
    handles_[static_cast<std::size_t>(kind)] =
        std::make_unique<handle_table>(static_cast<std::uint8_t>(kind), first);
  }
}

void worker::report(const call_ticket& t, CUresult result) {
  msg::posted_error::request error;
  error.lane = t.lane;
  error.context = t.context;
  error.result = static_cast<std::int32_t>(result);
  error.call = t.call;
  error.sticky = is_sticky(result);
  if (log_enabled(log_level::debug)) {
    log_debug("a posted command failed", {{"call", fmt::format("{:#06x}", t.call)},
                                          {"result", std::to_string(error.result)},
                                          {"lane", std::to_string(t.lane)}});
  }
  (void)session->push(error, msg::posted_error::call_id, t.lane);
}

void worker::settle_context(std::uint32_t context) {
  credits.settle(context);
  incoming.settle(context);
  uploads_of_client.settle_context(context);
  deliveries_to_client.settle_context(context);
  direct.context_leaves(context);
}

void worker::settle_range(std::uint64_t range) {
  uploads_of_client.settle_range(range);
  deliveries_to_client.settle_range(range);
}

void worker::context_gone(std::uint32_t context) {
  for (const auto kind :
       {handle_kind::stream, handle_kind::event, handle_kind::module, handle_kind::function, handle_kind::array,
        handle_kind::mipmapped_array}) {
    handles(kind).remove_context(context);
  }
  captures.context_gone(context);
  graph_data.context_gone(context);
  events.context_gone(context);
  streams_of_threads.context_gone(context);
  inline_staging.context_gone(context);
  bulk_staging.context_gone(context);
  credits.context_gone(context);
  callbacks.context_gone(context);
  deliveries_to_client.context_gone(context);
  uploads_of_client.context_gone(context);
  mirrors_of_client.context_gone(context);
  words.context_gone(context);
  direct.context_gone(context);
  context_epoch.fetch_add(1, std::memory_order_acq_rel);
}

void worker::image_gone(wire::handle_id image) {
  for (const auto kind : {handle_kind::kernel, handle_kind::function, handle_kind::module}) {
    handles(kind).remove_parent(image);
  }
}

void worker::publish() {
  output.flush(*session);
  direct.publish();
}

void worker::end(int code, const std::string& reason) {
  log(code == 0 ? log_level::info : log_level::warning, "session is over", {{"reason", reason}});
  ::_exit(code);
}

}  // namespace gpuwire::daemon
