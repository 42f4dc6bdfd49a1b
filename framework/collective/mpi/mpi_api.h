// The calls of MPI that worlds need, behind an interface: MPI libraries have no common ABI, so each is called from a
// module of its own, and tests inject failures.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace belfry {

// MPI after MPI_Init_thread, with a communicator of Belfry's own. No call waits for other processes except
// MpiModule::open and Finalize. One call at a time, on any thread. Errors: Internal with MPI's text.
class MpiApi {
 public:
  virtual ~MpiApi() = default;
  // The library and its version: "Open MPI 4.1.4".
  virtual std::string library() const = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Among the processes that share memory with this one.
  virtual int local_rank() const = 0;
  // The bytes of the longest message, the same in all processes.
  virtual size_t longest() const = 0;

  // A transfer under way; its data must stay where it is until Test has returned true. Messages from one process with
  // one tag are received in the order in which they were sent; their sizes must agree. Errors: also InvalidArgument for
  // a message that is too long.
  using Request = int;
  virtual absl::StatusOr<Request> Send(int to, int tag, absl::Span<const char> data) = 0;
  virtual absl::StatusOr<Request> Receive(int from, int tag, absl::Span<char> data) = 0;
  // True once the transfer is done; the request is gone then.
  virtual absl::StatusOr<bool> Test(Request request) = 0;
  // Asks MPI to give a Receive up. Test returns true once it has; if the sender has begun to deliver the message, only
  // once it has arrived, which may be never.
  virtual absl::Status Cancel(Request request) = 0;

  // Ends MPI. All processes must call it.
  virtual absl::Status Finalize() = 0;
};

// The table of a module libbelfry_mpi_<library>.so, part "collective".
struct MpiModule {
  // Starts MPI, once in a process. Errors: Internal; FailedPrecondition if MPI was started already.
  absl::StatusOr<std::unique_ptr<MpiApi>> (*open)();
};

}  // namespace belfry
