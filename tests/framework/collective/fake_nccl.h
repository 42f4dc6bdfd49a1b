// A test double of NCCL among fake GPUs. It really reduces, on the fakes' streams, and is as asynchronous as NCCL:
// groups are launched by separate threads, and an operation on a stream waits there for the other ranks, forever if
// they do not come. Anything that would make NCCL hang or crash is reported as misuse. Groups whose streams are being
// captured become part of the capture and run at every replay; as in NCCL, ending a communicator waits until such
// captures are gone. A communicator is finalized once all ranks of its clique are.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "framework/collective/nccl_api.h"

namespace belfry {

namespace fake_nccl {
struct Operation;
}

// Thread-safe. Its devices' memory is host memory (OpenFakeGpus without tags).
class FakeNccl final : public NcclApi {
 public:
  FakeNccl();
  ~FakeNccl() override;
  // NCCL in another process, with GPUs of its own, whose ranks can meet those of this one. Counts and misuse are those
  // of all processes; what is set concerns one.
  std::shared_ptr<FakeNccl> InAnotherProcess() const;

  // The k-th call from now on, counted from 1, does nothing and returns `result`; 0: none does. Aborts and descriptions
  // do not count.
  void FailCall(int k, NcclResult result = NcclResult::kInternalError);
  bool FailCallIsDue() const;  // the k-th call has not been made yet
  // The time that launching a group takes; infinite: until it is aborted.
  void DelayLaunches(absl::Duration delay);
  // Operations on streams never finish, except by an abort.
  void HangOnDevice(bool hang);
  // From now on the state of rank `rank` in all existing communicators is `state`, and none of their operations
  // finishes.
  void BreakRank(int rank, NcclResult state);

  int ids() const;                          // identifiers ever made
  int live() const;                         // communicators that have not ended
  int made() const;                         // communicators ever made
  int aborted() const;                      // communicators that ended by an abort
  int cut_short() const;                    // operations of a rank that were running on a stream when it was aborted
  std::vector<std::string> misuse() const;  // should be empty

  NcclResult GetUniqueId(NcclId& id) override;
  NcclResult CommInitRank(NcclComm*& comm, int ranks, const NcclId& id, int rank, Device& device,
                          bool blocking) override;
  NcclResult GroupStart() override;
  NcclResult GroupEnd() override;
  NcclResult AllReduceSum(const void* send, void* receive, int64_t elements, DType dtype, NcclComm& comm,
                          Stream& stream) override;
  NcclResult Broadcast(const void* send, void* receive, size_t bytes, int root, NcclComm& comm,
                       Stream& stream) override;
  NcclResult ReduceScatterSum(const void* send, void* receive, int64_t elements, DType dtype, NcclComm& comm,
                              Stream& stream) override;
  NcclResult AllGather(const void* send, void* receive, int64_t elements, DType dtype, NcclComm& comm,
                       Stream& stream) override;
  NcclResult CommGetAsyncError(NcclComm& comm, NcclResult& state) override;
  NcclResult CommFinalize(NcclComm& comm) override;
  NcclResult CommDestroy(NcclComm& comm) override;
  NcclResult CommAbort(NcclComm& comm) override;
  std::string Describe(NcclResult result, NcclComm* comm) override;

  struct World;  // internal
  struct Process;

 private:
  explicit FakeNccl(std::shared_ptr<World> world);
  NcclResult Give(NcclComm& comm, const fake_nccl::Operation& operation);
  NcclResult EndGroup(bool counts);
  const std::shared_ptr<World> world_;  // shared with the work on streams
  const std::shared_ptr<Process> process_;
};

}  // namespace belfry
