// The calls of MPI that worlds need, behind an interface: MPI libraries have no common ABI, so each is called from a
// module of its own, and tests inject failures.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace belfry {

// MPI after MPI_Init_thread, with a communicator of Belfry's own. No call waits for other processes but MpiModule::open
// and Finalize. One call at a time. Errors: Internal with MPI's text.
class MpiApi {
 public:
  virtual ~MpiApi() = default;
  // The library and its version: "Open MPI 4.1.4".
  virtual std::string library() const = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Among the processes that share memory with this one.
  virtual int local_rank() const = 0;

  // A transfer under way; its data must stay where it is until Test has returned true.
  using Request = int;
  virtual absl::StatusOr<Request> Send(int to, absl::Span<const char> data) = 0;
  // The bytes of the next message of `from` that no Receive has taken, or nullopt if none has arrived.
  virtual absl::StatusOr<std::optional<size_t>> Probe(int from) = 0;
  // Receives that message. REQUIRES: data.size() is the size that Probe returned.
  virtual absl::StatusOr<Request> Receive(int from, absl::Span<char> data) = 0;
  // True once the transfer is done; the request is gone then.
  virtual absl::StatusOr<bool> Test(Request request) = 0;

  // Ends MPI. All processes must call it.
  virtual absl::Status Finalize() = 0;
};

// The table of a module libbelfry_mpi_<library>.so, part "collective".
struct MpiModule {
  // Starts MPI, once in a process. Errors: Internal; FailedPrecondition if MPI was started already.
  absl::StatusOr<std::unique_ptr<MpiApi>> (*open)();
};

}  // namespace belfry
