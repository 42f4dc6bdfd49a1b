#include <cuda_runtime.h>
#include <dlfcn.h>
#include <nccl.h>

#include <cstring>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "framework/base/library/cuda_libraries.h"
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

// NCCL's functions, out of a library that is opened when the first session averages with it: one card does without.
struct NcclFunctions {
  decltype(&ncclGetUniqueId) GetUniqueId = nullptr;
  decltype(&ncclCommInitRankConfig) CommInitRankConfig = nullptr;
  decltype(&ncclGroupStart) GroupStart = nullptr;
  decltype(&ncclGroupEnd) GroupEnd = nullptr;
  decltype(&ncclAllReduce) AllReduce = nullptr;
  decltype(&ncclBroadcast) Broadcast = nullptr;
  decltype(&ncclReduceScatter) ReduceScatter = nullptr;
  decltype(&ncclAllGather) AllGather = nullptr;
  decltype(&ncclCommGetAsyncError) CommGetAsyncError = nullptr;
  decltype(&ncclCommFinalize) CommFinalize = nullptr;
  decltype(&ncclCommDestroy) CommDestroy = nullptr;
  decltype(&ncclCommAbort) CommAbort = nullptr;
  decltype(&ncclGetErrorString) GetErrorString = nullptr;
  decltype(&ncclGetLastError) GetLastError = nullptr;
  decltype(&ncclGetVersion) GetVersion = nullptr;
};

// ncclCommInitRankConfig came with it.
constexpr int kOldest = NCCL_VERSION(2, 14, 0);
constexpr char kSoname[] = "libnccl.so.2";

std::string VersionText(int version) {  // NCCL_VERSION's number of 2.9 and later
  return absl::StrCat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

// Fills `nccl` from `library`. Returns the name of a function that it lacks, or null.
const char* FindFunctions(void* library, NcclFunctions& nccl) {
  const char* lacking = nullptr;
  const auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr) lacking = name;
  };
  find("ncclGetUniqueId", nccl.GetUniqueId);
  find("ncclCommInitRankConfig", nccl.CommInitRankConfig);
  find("ncclGroupStart", nccl.GroupStart);
  find("ncclGroupEnd", nccl.GroupEnd);
  find("ncclAllReduce", nccl.AllReduce);
  find("ncclBroadcast", nccl.Broadcast);
  find("ncclReduceScatter", nccl.ReduceScatter);
  find("ncclAllGather", nccl.AllGather);
  find("ncclCommGetAsyncError", nccl.CommGetAsyncError);
  find("ncclCommFinalize", nccl.CommFinalize);
  find("ncclCommDestroy", nccl.CommDestroy);
  find("ncclCommAbort", nccl.CommAbort);
  find("ncclGetErrorString", nccl.GetErrorString);
  find("ncclGetLastError", nccl.GetLastError);
  find("ncclGetVersion", nccl.GetVersion);
  return lacking;
}

class NcclLibrary final : public NcclApi {
 public:
  explicit NcclLibrary(const NcclFunctions& nccl) : nccl_(nccl) {}

  NcclResult GetUniqueId(NcclId& id) override {
    ncclUniqueId native;
    const ncclResult_t result = nccl_.GetUniqueId(&native);
    std::memcpy(id.bytes.data(), &native, sizeof(native));
    return Result(result);
  }

  NcclResult CommInitRank(NcclComm*& comm, int ranks, const NcclId& id, int rank, Device& device,
                          bool blocking) override {
    // NCCL creates the rank on the thread's current device, inside a group too.
    if (cudaSetDevice(device.physical_id()) != cudaSuccess) return NcclResult::kUnhandledCudaError;
    ncclUniqueId native;
    std::memcpy(&native, id.bytes.data(), sizeof(native));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = blocking ? 1 : 0;
    ncclComm_t made = nullptr;
    const ncclResult_t result = nccl_.CommInitRankConfig(&made, ranks, native, rank, &config);
    const bool failed = result != ncclSuccess && result != ncclInProgress;
    comm = failed ? nullptr : reinterpret_cast<NcclComm*>(made);
    return Result(result);
  }

  NcclResult GroupStart() override { return Result(nccl_.GroupStart()); }
  NcclResult GroupEnd() override { return Result(nccl_.GroupEnd()); }

  NcclResult AllReduceSum(const void* send, void* receive, int64_t elements, DType dtype, NcclComm& comm,
                          Stream& stream) override {
    return Result(nccl_.AllReduce(send, receive, static_cast<size_t>(elements), TypeOf(dtype), ncclSum, Native(comm),
                                  NativeStream(stream)));
  }

  NcclResult Broadcast(const void* send, void* receive, size_t bytes, int root, NcclComm& comm,
                       Stream& stream) override {
    return Result(nccl_.Broadcast(send, receive, bytes, ncclUint8, root, Native(comm), NativeStream(stream)));
  }

  NcclResult ReduceScatterSum(const void* send, void* receive, int64_t elements, DType dtype, NcclComm& comm,
                              Stream& stream) override {
    return Result(nccl_.ReduceScatter(send, receive, static_cast<size_t>(elements), TypeOf(dtype), ncclSum,
                                      Native(comm), NativeStream(stream)));
  }

  NcclResult AllGather(const void* send, void* receive, int64_t elements, DType dtype, NcclComm& comm,
                       Stream& stream) override {
    const size_t bytes = static_cast<size_t>(elements) * SizeOf(dtype);
    return Result(nccl_.AllGather(send, receive, bytes, ncclUint8, Native(comm), NativeStream(stream)));
  }

  NcclResult CommGetAsyncError(NcclComm& comm, NcclResult& state) override {
    ncclResult_t native = ncclSuccess;
    const ncclResult_t result = nccl_.CommGetAsyncError(Native(comm), &native);
    state = Result(native);
    return Result(result);
  }

  NcclResult CommFinalize(NcclComm& comm) override { return Result(nccl_.CommFinalize(Native(comm))); }
  NcclResult CommDestroy(NcclComm& comm) override { return Result(nccl_.CommDestroy(Native(comm))); }
  NcclResult CommAbort(NcclComm& comm) override { return Result(nccl_.CommAbort(Native(comm))); }

  std::string Describe(NcclResult result, NcclComm* comm) override {
    const auto native = static_cast<ncclResult_t>(result);
    const char* const last = nccl_.GetLastError(comm == nullptr ? nullptr : Native(*comm));
    return last == nullptr || *last == '\0' ? std::string(nccl_.GetErrorString(native))
                                            : absl::StrCat(nccl_.GetErrorString(native), ": ", last);
  }

 private:
  const NcclFunctions nccl_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<NcclApi>> OpenNcclLibrary() {
  const auto fail = [](const auto&... why) {
    return absl::UnimplementedError(absl::StrCat("Cannot average with NCCL: ", why..., "; or use --averager=local"));
  };
  const absl::StatusOr<void*> library = OpenCudaLibrary(kSoname, absl::StrCat(CUDART_VERSION / 1000));
  if (!library.ok()) return fail(library.status().message());
  NcclFunctions nccl;
  const char* const lacking = FindFunctions(*library, nccl);
  int version = 0;
  if (nccl.GetVersion != nullptr) nccl.GetVersion(&version);
  if (lacking == nullptr && version >= kOldest) return std::make_shared<NcclLibrary>(nccl);
  const std::string file = nccl.GetVersion == nullptr ? kSoname : FileOf(reinterpret_cast<void*>(nccl.GetVersion));
  if (lacking != nullptr && version >= kOldest) {
    return fail(file, " is NCCL ", VersionText(version), ", but it has no ", lacking);
  }
  return fail(file, " is NCCL ", VersionText(version), ", but ", VersionText(kOldest), " or later is needed");
}

}  // namespace belfry
