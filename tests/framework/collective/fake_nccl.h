// A test double of NCCL among fake GPUs. It adds up for real, on the streams of the fakes, and is as asynchronous as
// the real one: groups are launched by threads of their own, and what runs on a stream waits there for the other ranks,
// for ever if they do not come. What would make the real one hang or crash is reported as misuse. Groups whose streams
// capture become part of the captured work, and run at every replay; the end of a communicator waits for the end of such
// work, as the real one's does.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "framework/collective/nccl_api.h"

namespace belfry {

// Thread-safe. The memory of its devices is the host's (OpenFakeGpus without tags).
class FakeNccl final : public NcclApi {
 public:
  FakeNccl();
  ~FakeNccl() override;

  // The k-th call from now on, from 1, does nothing but return `result`; 0: none. Aborts and descriptions do not count.
  void FailCall(int k, NcclResult result = NcclResult::kInternalError);
  bool FailCallIsDue() const;  // it has not come to the k-th call yet
  // What a group takes to be launched; for ever: until it is aborted.
  void DelayLaunches(absl::Duration delay);
  // What is on the streams does not end, or only when it is aborted.
  void HangOnDevice(bool hang);
  // From now on this is the state of rank `rank` of all communicators there are, and nothing of theirs ends.
  void BreakRank(int rank, NcclResult state);

  int live() const;                         // communicators that have not ended
  int made() const;                         // communicators ever
  int aborted() const;                      // how many of them ended so
  int cut_short() const;                    // operations of a rank that were under way on a stream when it was aborted
  std::vector<std::string> misuse() const;  // should be empty

  NcclResult GetUniqueId(NcclId& id) override;
  NcclResult CommInitRank(NcclComm*& comm, int ranks, const NcclId& id, int rank, Device& device) override;
  NcclResult GroupStart() override;
  NcclResult GroupEnd() override;
  NcclResult AllReduceSum(const void* send, void* receive, int64_t elements, DType dtype, NcclComm& comm,
                          Stream& stream) override;
  NcclResult Broadcast(const void* send, void* receive, size_t bytes, int root, NcclComm& comm,
                       Stream& stream) override;
  NcclResult CommGetAsyncError(NcclComm& comm, NcclResult& state) override;
  NcclResult CommFinalize(NcclComm& comm) override;
  NcclResult CommDestroy(NcclComm& comm) override;
  NcclResult CommAbort(NcclComm& comm) override;
  std::string Describe(NcclResult result, NcclComm* comm) override;

  struct World;  // internal

 private:
  NcclResult Give(NcclComm& comm, bool broadcast, const void* send, void* receive, int64_t elements, DType dtype,
                  int root, Stream& stream);
  NcclResult EndGroup(bool counts);
  const std::shared_ptr<World> world_;  // shared with what is on streams
};

}  // namespace belfry
