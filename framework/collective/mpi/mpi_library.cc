// MpiApi over one MPI library: the module libbelfry_mpi_<library>.so, compiled once for each library that is there.
#include <mpi.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "framework/base/status.h"
#include "framework/collective/mpi/mpi_api.h"

namespace belfry {
namespace {

// MPI counts bytes in an int. Half of what that holds, since libraries compute with it.
constexpr size_t kLongest = size_t{1} << 30;

absl::Status Check(int error, const char* call) {
  if (error == MPI_SUCCESS) return absl::OkStatus();
  // Before MPI has started Open MPI ends the program on a call such as MPI_Error_string.
  int started = 0;
  if (MPI_Initialized(&started) != MPI_SUCCESS || started == 0) {
    return absl::InternalError(absl::StrCat(call, " failed with code ", error,
                                            ", before MPI has texts for its codes; the launcher's output, or starting "
                                            "it with more of that (mpirun -v), may say why"));
  }
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(error, text, &length);
  return absl::InternalError(absl::StrCat(call, " failed: ", absl::string_view(text, length)));
}

std::string LibraryName() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  // "Open MPI v4.1.4, package: ...", "MPICH Version:\t4.0.2\nMPICH Release date: ..."
  const std::string line = std::vector<std::string>(absl::StrSplit(text, absl::ByAnyChar(",\n")))[0];
  std::string name;
  for (const absl::string_view word : absl::StrSplit(line, absl::ByAnyChar(" \t:"), absl::SkipEmpty())) {
    if (word == "Version") continue;
    absl::StrAppend(&name, name.empty() ? "" : " ", absl::StartsWith(word, "v") ? word.substr(1) : word);
  }
  return name;
}

class MpiLibrary final : public MpiApi {
 public:
  static absl::StatusOr<std::unique_ptr<MpiApi>> Open() {
    // Open MPI sends large messages over TCP in answer to requests of the receiver, which wait in line behind the data
    // that goes the other way: processes that send to each other at the same time take turns, and need up to 2.8 times
    // as long as their link. 1: it only sends. A setting of the user stays; other libraries have no such variable.
    setenv("OMPI_MCA_btl_tcp_flags", "1", /*replace=*/0);
    int started = 0, provided = 0;
    RETURN_IF_ERROR(Check(MPI_Initialized(&started), "MPI_Initialized"));
    if (started != 0) return absl::FailedPreconditionError("MPI was started already; open one world in a process");
    RETURN_IF_ERROR(Check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread"));
    if (provided < MPI_THREAD_SERIALIZED) {
      return absl::FailedPreconditionError(
          absl::StrCat(LibraryName(), " allows MPI calls from one thread only; Belfry needs MPI_THREAD_SERIALIZED"));
    }
    auto mpi = std::make_unique<MpiLibrary>();
    RETURN_IF_ERROR(mpi->Start());
    return mpi;
  }

  std::string library() const override { return library_; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int local_rank() const override { return local_rank_; }
  size_t longest() const override { return kLongest; }

  absl::StatusOr<Request> Send(int to, int tag, absl::Span<const char> data) override {
    RETURN_IF_ERROR(CheckSize(data.size()));
    MPI_Request request;
    RETURN_IF_ERROR(
        Check(MPI_Isend(data.data(), static_cast<int>(data.size()), MPI_BYTE, to, tag, world_, &request), "MPI_Isend"));
    return Keep(request);
  }

  absl::StatusOr<Request> Receive(int from, int tag, absl::Span<char> data) override {
    RETURN_IF_ERROR(CheckSize(data.size()));
    MPI_Request request;
    RETURN_IF_ERROR(Check(MPI_Irecv(data.data(), static_cast<int>(data.size()), MPI_BYTE, from, tag, world_, &request),
                          "MPI_Irecv"));
    return Keep(request);
  }

  absl::StatusOr<bool> Test(Request request) override {
    int done = 0;
    const absl::Status status = Check(MPI_Test(&requests_[request], &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (!status.ok() || done != 0) free_.push_back(request);
    RETURN_IF_ERROR(status);
    return done != 0;
  }

  absl::Status Cancel(Request request) override { return Check(MPI_Cancel(&requests_[request]), "MPI_Cancel"); }

  absl::Status Finalize() override { return Check(MPI_Finalize(), "MPI_Finalize"); }

 private:
  absl::Status Start() {
    library_ = LibraryName();
    // MPI's default is to abort on an error; the duplicate inherits this handler.
    RETURN_IF_ERROR(Check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler"));
    RETURN_IF_ERROR(Check(MPI_Comm_dup(MPI_COMM_WORLD, &world_), "MPI_Comm_dup"));
    RETURN_IF_ERROR(Check(MPI_Comm_rank(world_, &rank_), "MPI_Comm_rank"));
    RETURN_IF_ERROR(Check(MPI_Comm_size(world_, &size_), "MPI_Comm_size"));
    MPI_Comm machine;
    RETURN_IF_ERROR(Check(MPI_Comm_split_type(world_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &machine),
                          "MPI_Comm_split_type"));
    RETURN_IF_ERROR(Check(MPI_Comm_rank(machine, &local_rank_), "MPI_Comm_rank"));
    return Check(MPI_Comm_free(&machine), "MPI_Comm_free");
  }

  Request Keep(MPI_Request request) {
    if (free_.empty()) {
      requests_.push_back(request);
      free_.reserve(requests_.capacity());  // so that Test does not allocate
      return static_cast<Request>(requests_.size()) - 1;
    }
    const Request place = free_.back();
    free_.pop_back();
    requests_[place] = request;
    return place;
  }

  static absl::Status CheckSize(size_t bytes) {
    if (bytes <= kLongest) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("a message of ", bytes, " bytes; the longest has ", kLongest));
  }

  std::string library_;
  MPI_Comm world_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 0, local_rank_ = 0;
  std::vector<MPI_Request> requests_;  // by Request
  std::vector<Request> free_;          // places in it
};

constexpr MpiModule kModule = {.open = &MpiLibrary::Open};

}  // namespace
}  // namespace belfry

// The entry point of the module (framework/base/module.h); CMake gives it the name of the library.
extern "C" const void* BELFRY_MPI_ENTRY(const char* part) {
  if (std::strcmp(part, "version") == 0) return BELFRY_BUILD;  // of the headers that the module was compiled with
  if (std::strcmp(part, "collective") == 0) return &belfry::kModule;
  return nullptr;
}
