// The NCCL calls that this project makes, behind an interface, so that the logic above them is tested without GPUs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "framework/base/dtype.h"
#include "framework/device/device.h"

namespace belfry {

enum class NcclResult {  // NCCL's numbers
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

inline bool Failed(NcclResult result) { return result != NcclResult::kSuccess && result != NcclResult::kInProgress; }

// The identifier that the ranks of one clique share.
struct NcclId {
  std::array<char, 128> bytes{};
};

struct NcclComm;  // one rank's communicator; defined by the implementation

// Communicators are non-blocking unless CommInitRank is told otherwise. A call that starts something may return
// kInProgress, as GroupEnd always may; until CommGetAsyncError then reports kSuccess, make no other call on the
// communicator, and do not assume that its stream holds the work. One thread at a time per communicator. A group
// belongs to the thread that began it, and its calls take effect only at GroupEnd.
class NcclApi {
 public:
  virtual ~NcclApi() = default;
  virtual NcclResult GetUniqueId(NcclId& id) = 0;
  // Creates rank `rank` of `ranks` on `device`. A thread that creates several ranks of a clique must do so in one
  // group. With `blocking`, calls on the communicator return when they are done, so it cannot be aborted while one
  // hangs.
  virtual NcclResult CommInitRank(NcclComm*& comm, int ranks, const NcclId& id, int rank, Device& device,
                                  bool blocking) = 0;
  // If one stream of a group is being captured, all of them are, and the group contains all ranks of its communicators.
  // The operations then do not run, but are part of the capture once CommGetAsyncError reports kSuccess.
  virtual NcclResult GroupStart() = 0;
  virtual NcclResult GroupEnd() = 0;
  // Sums `elements` elements over the ranks. `send` may equal `receive`. REQUIRES: IsFloating(dtype).
  virtual NcclResult AllReduceSum(const void* send, void* receive, int64_t elements, DType dtype, NcclComm& comm,
                                  Stream& stream) = 0;
  virtual NcclResult Broadcast(const void* send, void* receive, size_t bytes, int root, NcclComm& comm,
                               Stream& stream) = 0;
  // Both divide a buffer into one slice of `elements` elements per rank, in ascending rank order. ReduceScatterSum sums
  // slice r over all ranks and gives the sum to rank r; `receive` may be the rank's own slice of `send`. AllGather
  // sends each rank's slice to all; `send` may be the rank's own slice of `receive`. REQUIRES for the sum:
  // IsFloating(dtype).
  virtual NcclResult ReduceScatterSum(const void* send, void* receive, int64_t elements, DType dtype, NcclComm& comm,
                                      Stream& stream) = 0;
  virtual NcclResult AllGather(const void* send, void* receive, int64_t elements, DType dtype, NcclComm& comm,
                               Stream& stream) = 0;
  // `state`: kSuccess, kInProgress, or the error of an earlier call. Does not block.
  virtual NcclResult CommGetAsyncError(NcclComm& comm, NcclResult& state) = 0;
  virtual NcclResult CommFinalize(NcclComm& comm) = 0;
  // Destroy and Abort end the communicator's life; in a group, when GroupEnd returns. Abort also ends what it is doing,
  // on the device too; Destroy requires an earlier CommFinalize. Both, and CommFinalize, wait forever while a CUDA
  // graph exists, or can still come of streams that are being captured, that holds an operation of the communicator. A
  // graph that was destroyed but is still running does not matter.
  virtual NcclResult CommDestroy(NcclComm& comm) = 0;
  virtual NcclResult CommAbort(NcclComm& comm) = 0;
  // A message for users, with NCCL's last error text if there is one. `comm` may be null.
  virtual std::string Describe(NcclResult result, NcclComm* comm) = 0;
};

// NCCL itself, from the CUDA module. Unimplemented says why there is none.
absl::StatusOr<std::shared_ptr<NcclApi>> OpenNccl();

}  // namespace belfry
