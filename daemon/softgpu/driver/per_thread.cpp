// SPDX-License-Identifier: Apache-2.0
#include "per_thread.hpp"

#include <map>

#include "cuda_api.hpp"
#include "tables.hpp"

namespace gpuwire::softgpu {
namespace {

class own_stream_scope {
 public:
  own_stream_scope() : before_(null_stream_is_own) { null_stream_is_own = true; }
  ~own_stream_scope() { null_stream_is_own = before_; }
  own_stream_scope(const own_stream_scope&) = delete;
  own_stream_scope& operator=(const own_stream_scope&) = delete;

 private:
  bool before_;
};

template <auto Function>
struct per_thread;
template <typename... Arguments, CUresult (*Function)(Arguments...)>
struct per_thread<Function> {
  static CUresult call(Arguments... arguments) {
    own_stream_scope scope;
    return Function(arguments...);
  }
  static void* entry() { return reinterpret_cast<void*>(&call); }
};

const std::map<std::string_view, void*> entries = {
    {"cuEventRecord", per_thread<cuEventRecord>::entry()},
    {"cuEventRecordWithFlags", per_thread<cuEventRecordWithFlags>::entry()},
    {"cuGraphInstantiateWithParams", per_thread<cuGraphInstantiateWithParams>::entry()},
    {"cuGraphLaunch", per_thread<cuGraphLaunch>::entry()},
    {"cuGraphUpload", per_thread<cuGraphUpload>::entry()},
    {"cuLaunchCooperativeKernel", per_thread<cuLaunchCooperativeKernel>::entry()},
    {"cuLaunchHostFunc", per_thread<cuLaunchHostFunc>::entry()},
    {"cuLaunchKernel", per_thread<cuLaunchKernel>::entry()},
    {"cuLaunchKernelEx", per_thread<cuLaunchKernelEx>::entry()},
    {"cuMemAllocAsync", per_thread<cuMemAllocAsync>::entry()},
    {"cuMemAllocFromPoolAsync", per_thread<cuMemAllocFromPoolAsync>::entry()},
    {"cuMemFreeAsync", per_thread<cuMemFreeAsync>::entry()},
    {"cuMemcpy", per_thread<cuMemcpy>::entry()},
    {"cuMemcpy2DAsync_v2", per_thread<cuMemcpy2DAsync_v2>::entry()},
    {"cuMemcpy2DUnaligned_v2", per_thread<cuMemcpy2DUnaligned_v2>::entry()},
    {"cuMemcpy2D_v2", per_thread<cuMemcpy2D_v2>::entry()},
    {"cuMemcpy3DAsync_v2", per_thread<cuMemcpy3DAsync_v2>::entry()},
    {"cuMemcpy3DBatchAsync_v2", per_thread<cuMemcpy3DBatchAsync_v2>::entry()},
    {"cuMemcpy3DPeer", per_thread<cuMemcpy3DPeer>::entry()},
    {"cuMemcpy3DPeerAsync", per_thread<cuMemcpy3DPeerAsync>::entry()},
    {"cuMemcpy3D_v2", per_thread<cuMemcpy3D_v2>::entry()},
    {"cuMemcpyAsync", per_thread<cuMemcpyAsync>::entry()},
    {"cuMemcpyAtoA_v2", per_thread<cuMemcpyAtoA_v2>::entry()},
    {"cuMemcpyAtoD_v2", per_thread<cuMemcpyAtoD_v2>::entry()},
    {"cuMemcpyAtoHAsync_v2", per_thread<cuMemcpyAtoHAsync_v2>::entry()},
    {"cuMemcpyAtoH_v2", per_thread<cuMemcpyAtoH_v2>::entry()},
    {"cuMemcpyBatchAsync_v2", per_thread<cuMemcpyBatchAsync_v2>::entry()},
    {"cuMemcpyDtoA_v2", per_thread<cuMemcpyDtoA_v2>::entry()},
    {"cuMemcpyDtoDAsync_v2", per_thread<cuMemcpyDtoDAsync_v2>::entry()},
    {"cuMemcpyDtoD_v2", per_thread<cuMemcpyDtoD_v2>::entry()},
    {"cuMemcpyDtoHAsync_v2", per_thread<cuMemcpyDtoHAsync_v2>::entry()},
    {"cuMemcpyDtoH_v2", per_thread<cuMemcpyDtoH_v2>::entry()},
    {"cuMemcpyHtoAAsync_v2", per_thread<cuMemcpyHtoAAsync_v2>::entry()},
    {"cuMemcpyHtoA_v2", per_thread<cuMemcpyHtoA_v2>::entry()},
    {"cuMemcpyHtoDAsync_v2", per_thread<cuMemcpyHtoDAsync_v2>::entry()},
    {"cuMemcpyHtoD_v2", per_thread<cuMemcpyHtoD_v2>::entry()},
    {"cuMemcpyPeer", per_thread<cuMemcpyPeer>::entry()},
    {"cuMemcpyPeerAsync", per_thread<cuMemcpyPeerAsync>::entry()},
    {"cuMemsetD16Async", per_thread<cuMemsetD16Async>::entry()},
    {"cuMemsetD16_v2", per_thread<cuMemsetD16_v2>::entry()},
    {"cuMemsetD2D16Async", per_thread<cuMemsetD2D16Async>::entry()},
    {"cuMemsetD2D16_v2", per_thread<cuMemsetD2D16_v2>::entry()},
    {"cuMemsetD2D32Async", per_thread<cuMemsetD2D32Async>::entry()},
    {"cuMemsetD2D32_v2", per_thread<cuMemsetD2D32_v2>::entry()},
    {"cuMemsetD2D8Async", per_thread<cuMemsetD2D8Async>::entry()},
    {"cuMemsetD2D8_v2", per_thread<cuMemsetD2D8_v2>::entry()},
    {"cuMemsetD32Async", per_thread<cuMemsetD32Async>::entry()},
    {"cuMemsetD32_v2", per_thread<cuMemsetD32_v2>::entry()},
    {"cuMemsetD8Async", per_thread<cuMemsetD8Async>::entry()},
    {"cuMemsetD8_v2", per_thread<cuMemsetD8_v2>::entry()},
    {"cuStreamAddCallback", per_thread<cuStreamAddCallback>::entry()},
    {"cuStreamBatchMemOp_v2", per_thread<cuStreamBatchMemOp_v2>::entry()},
    {"cuStreamBeginCapture", per_thread<cuStreamBeginCapture>::entry()},
    {"cuStreamBeginCaptureToGraph", per_thread<cuStreamBeginCaptureToGraph>::entry()},
    {"cuStreamBeginCapture_v2", per_thread<cuStreamBeginCapture_v2>::entry()},
    {"cuStreamCopyAttributes", per_thread<cuStreamCopyAttributes>::entry()},
    {"cuStreamEndCapture", per_thread<cuStreamEndCapture>::entry()},
    {"cuStreamGetAttribute", per_thread<cuStreamGetAttribute>::entry()},
    {"cuStreamGetCaptureInfo", per_thread<cuStreamGetCaptureInfo>::entry()},
    {"cuStreamGetCaptureInfo_v2", per_thread<cuStreamGetCaptureInfo_v2>::entry()},
    {"cuStreamGetCaptureInfo_v3", per_thread<cuStreamGetCaptureInfo_v3>::entry()},
    {"cuStreamGetCtx", per_thread<cuStreamGetCtx>::entry()},
    {"cuStreamGetCtx_v2", per_thread<cuStreamGetCtx_v2>::entry()},
    {"cuStreamGetDevice", per_thread<cuStreamGetDevice>::entry()},
    {"cuStreamGetFlags", per_thread<cuStreamGetFlags>::entry()},
    {"cuStreamGetId", per_thread<cuStreamGetId>::entry()},
    {"cuStreamGetPriority", per_thread<cuStreamGetPriority>::entry()},
    {"cuStreamIsCapturing", per_thread<cuStreamIsCapturing>::entry()},
    {"cuStreamQuery", per_thread<cuStreamQuery>::entry()},
    {"cuStreamSetAttribute", per_thread<cuStreamSetAttribute>::entry()},
    {"cuStreamSynchronize", per_thread<cuStreamSynchronize>::entry()},
    {"cuStreamUpdateCaptureDependencies", per_thread<cuStreamUpdateCaptureDependencies>::entry()},
    {"cuStreamUpdateCaptureDependencies_v2",
   per_thread<cuStreamUpdateCaptureDependencies_v2>::entry()},
    {"cuStreamWaitEvent", per_thread<cuStreamWaitEvent>::entry()},
    {"cuStreamWaitValue32_v2", per_thread<cuStreamWaitValue32_v2>::entry()},
    {"cuStreamWaitValue64_v2", per_thread<cuStreamWaitValue64_v2>::entry()},
    {"cuStreamWriteValue32_v2", per_thread<cuStreamWriteValue32_v2>::entry()},
    {"cuStreamWriteValue64_v2", per_thread<cuStreamWriteValue64_v2>::entry()},
};

}  // namespace

void* per_thread_entry(std::string_view symbol) {
  auto found = entries.find(symbol);
  return found == entries.end() ? nullptr : found->second;
}

}  // namespace gpuwire::softgpu
