// The calls of NCCL that this project makes, behind an interface, so that all that decides about them is tested without
// GPUs.
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

enum class NcclResult {  // the numbers are NCCL's
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

// What the ranks of one clique have in common.
struct NcclId {
  std::array<char, 128> bytes{};
};

struct NcclComm;  // a communicator, one rank's; the implementation's own

// Communicators are non-blocking: a call that begins something may return kInProgress, as GroupEnd always may, and
// until CommGetAsyncError reports kSuccess nothing else may be asked of the communicator and its stream is not to be
// counted on. One thread at a time for each communicator. A group belongs to the thread that began
// it; in it nothing happens before GroupEnd.
class NcclApi {
 public:
  virtual ~NcclApi() = default;
  virtual NcclResult GetUniqueId(NcclId& id) = 0;
  // Rank `rank` of `ranks`, on `device`. A thread that makes several ranks of a clique makes them in one group.
  virtual NcclResult CommInitRank(NcclComm*& comm, int ranks, const NcclId& id, int rank, Device& device) = 0;
  // If one stream of a group records, all do, and all ranks of the communicators are in it. Then the operations are not
  // run, but are part of the recording once CommGetAsyncError reports kSuccess.
  virtual NcclResult GroupStart() = 0;
  virtual NcclResult GroupEnd() = 0;
  // The sum of `elements` elements over the ranks. `send` may equal `receive`. REQUIRES: IsFloating(dtype).
  virtual NcclResult AllReduceSum(const void* send, void* receive, int64_t elements, DType dtype, NcclComm& comm,
                                  Stream& stream) = 0;
  virtual NcclResult Broadcast(const void* send, void* receive, size_t bytes, int root, NcclComm& comm,
                               Stream& stream) = 0;
  // `state`: kSuccess, kInProgress or what went wrong since. Does not wait.
  virtual NcclResult CommGetAsyncError(NcclComm& comm, NcclResult& state) = 0;
  virtual NcclResult CommFinalize(NcclComm& comm) = 0;
  // Both end the communicator's life; in a group, once GroupEnd has returned. Abort ends what it is doing, on the
  // device too; Destroy is for after CommFinalize. They and CommFinalize wait for ever while a CUDA graph lives, or may
  // yet be made of streams that record, that holds an operation of the communicator; one that is only still running
  // may.
  virtual NcclResult CommDestroy(NcclComm& comm) = 0;
  virtual NcclResult CommAbort(NcclComm& comm) = 0;
  // For a person, with NCCL's last message if there is one. `comm` may be null.
  virtual std::string Describe(NcclResult result, NcclComm* comm) = 0;
};

// NCCL itself, from the CUDA module. Unimplemented says why there is none.
absl::StatusOr<std::shared_ptr<NcclApi>> OpenNccl();

}  // namespace belfry
