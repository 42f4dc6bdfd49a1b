#include <cuda_runtime.h>
#include <nccl.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "framework/collective/cuda/collectives.h"
#include "framework/device/cuda/native.h"

namespace belfry {
namespace {

static_assert(static_cast<int>(NcclResult::kRemoteError) == ncclRemoteError);
static_assert(static_cast<int>(NcclResult::kInProgress) == ncclInProgress);
static_assert(sizeof(NcclId) == sizeof(ncclUniqueId));

NcclResult Result(ncclResult_t result) { return static_cast<NcclResult>(result); }
ncclComm_t Native(NcclComm& comm) { return reinterpret_cast<ncclComm_t>(&comm); }

ncclDataType_t TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat64: return ncclFloat64;
    case DType::kFloat16: return ncclFloat16;
    case DType::kBFloat16: return ncclBfloat16;
    default: return ncclFloat32;
  }
}

class NcclLibrary final : public NcclApi {
 public:
  NcclResult GetUniqueId(NcclId& id) override {
    ncclUniqueId native;
    const ncclResult_t result = ncclGetUniqueId(&native);
    std::memcpy(id.bytes.data(), &native, sizeof(native));
    return Result(result);
  }

  NcclResult CommInitRank(NcclComm*& comm, int ranks, const NcclId& id, int rank, Device& device) override {
    // NCCL creates the rank on the thread's current device, inside a group too.
    if (cudaSetDevice(device.physical_id()) != cudaSuccess) return NcclResult::kUnhandledCudaError;
    ncclUniqueId native;
    std::memcpy(&native, id.bytes.data(), sizeof(native));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    // ncclCommAbort is dependable only for non-blocking communicators: a blocking one may be stuck in a call.
    config.blocking = 0;
    ncclComm_t made = nullptr;
    const ncclResult_t result = ncclCommInitRankConfig(&made, ranks, native, rank, &config);
    const bool failed = result != ncclSuccess && result != ncclInProgress;
    comm = failed ? nullptr : reinterpret_cast<NcclComm*>(made);
    return Result(result);
  }

  NcclResult GroupStart() override { return Result(ncclGroupStart()); }
  NcclResult GroupEnd() override { return Result(ncclGroupEnd()); }

  NcclResult AllReduceSum(const void* send, void* receive, int64_t elements, DType dtype, NcclComm& comm,
                          Stream& stream) override {
    return Result(ncclAllReduce(send, receive, static_cast<size_t>(elements), TypeOf(dtype), ncclSum, Native(comm),
                                NativeStream(stream)));
  }

  NcclResult Broadcast(const void* send, void* receive, size_t bytes, int root, NcclComm& comm,
                       Stream& stream) override {
    return Result(ncclBroadcast(send, receive, bytes, ncclUint8, root, Native(comm), NativeStream(stream)));
  }

  NcclResult ReduceScatterSum(const void* send, void* receive, int64_t elements, DType dtype, NcclComm& comm,
                              Stream& stream) override {
    return Result(ncclReduceScatter(send, receive, static_cast<size_t>(elements), TypeOf(dtype), ncclSum, Native(comm),
                                    NativeStream(stream)));
  }

  NcclResult AllGather(const void* send, void* receive, int64_t elements, DType dtype, NcclComm& comm,
                       Stream& stream) override {
    const size_t bytes = static_cast<size_t>(elements) * SizeOf(dtype);
    return Result(ncclAllGather(send, receive, bytes, ncclUint8, Native(comm), NativeStream(stream)));
  }

  NcclResult CommGetAsyncError(NcclComm& comm, NcclResult& state) override {
    ncclResult_t native = ncclSuccess;
    const ncclResult_t result = ncclCommGetAsyncError(Native(comm), &native);
    state = Result(native);
    return Result(result);
  }

  NcclResult CommFinalize(NcclComm& comm) override { return Result(ncclCommFinalize(Native(comm))); }
  NcclResult CommDestroy(NcclComm& comm) override { return Result(ncclCommDestroy(Native(comm))); }
  NcclResult CommAbort(NcclComm& comm) override { return Result(ncclCommAbort(Native(comm))); }

  std::string Describe(NcclResult result, NcclComm* comm) override {
    const auto native = static_cast<ncclResult_t>(result);
    const char* const last = ncclGetLastError(comm == nullptr ? nullptr : Native(*comm));
    return last == nullptr || *last == '\0' ? std::string(ncclGetErrorString(native))
                                            : absl::StrCat(ncclGetErrorString(native), ": ", last);
  }
};

}  // namespace

absl::StatusOr<std::shared_ptr<NcclApi>> OpenNcclLibrary() { return std::make_shared<NcclLibrary>(); }

}  // namespace belfry
