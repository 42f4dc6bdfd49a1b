#include "framework/collective/world.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/host_name.h"
#include "framework/base/module.h"
#include "framework/base/status.h"
#include "framework/base/version.h"
#include "framework/collective/mpi/mpi_world.h"
#include "framework/collective/mpi/watchdog.h"

namespace belfry {
namespace {

constexpr absl::Duration kNoticeAfter = absl::Seconds(20);  // of a wait for MPI's start
// The tag of AllGather and Broadcast.
constexpr int kGatherTag = 0;

class Alone final : public World {
 public:
  int rank() const override { return 0; }
  const std::vector<WorldProcess>& processes() const override { return processes_; }
  std::string library() const override { return ""; }
  int NewTag() override { return 1; }
  absl::Status Exchange(int, Transfers&, absl::Time, const std::function<bool()>&) override { return absl::OkStatus(); }
  absl::Duration waited() const override { return absl::ZeroDuration(); }
  void SetPosition(std::function<std::string()>) override {}
  absl::Status Stopped() override { return absl::OkStatus(); }
  std::string RollCall() override { return ""; }
  void Fail(const absl::Status&) override {}
  absl::Status Close(absl::Time, int) override { return absl::OkStatus(); }

 private:
  const std::vector<WorldProcess> processes_ = {{HostName(), getpid(), 0}};
};

template <class T>
absl::Span<char> BytesOf(T& value) {
  return absl::MakeSpan(reinterpret_cast<char*>(&value), sizeof(value));
}

}  // namespace

std::string Describe(int rank, const WorldProcess& process) {
  if (process.host.empty()) return absl::StrCat("task ", rank);
  return absl::StrCat("task ", rank, " (", process.host, ", pid ", process.pid, ")");
}

void Transfers::Send(int to, absl::Span<const char> bytes) {
  if (bytes.empty()) return;
  sends_.push_back({.process = to, .data = const_cast<char*>(bytes.data()), .size = bytes.size()});
}

void Transfers::Receive(int from, absl::Span<char> bytes) {
  if (bytes.empty()) return;
  receives_.push_back({.process = from, .data = bytes.data(), .size = bytes.size()});
}

void Transfers::Cut(size_t longest) {
  for (std::vector<Transfer>* const list : {&sends_, &receives_}) {
    const auto fits = [&](const Transfer& transfer) { return transfer.size <= longest; };
    if (std::all_of(list->begin(), list->end(), fits)) continue;
    std::vector<Transfer> pieces;
    for (const Transfer& whole : *list) {
      for (size_t at = 0; at < whole.size; at += longest) {
        const size_t size = std::min(longest, whole.size - at);
        pieces.push_back({.process = whole.process, .data = whole.data + at, .size = size});
      }
    }
    *list = std::move(pieces);
  }
}

std::unique_ptr<World> World::Alone() { return std::make_unique<belfry::Alone>(); }

bool World::several_machines() const {
  const std::vector<WorldProcess>& all = processes();
  return std::any_of(all.begin(), all.end(), [&](const WorldProcess& process) { return process.host != all[0].host; });
}

absl::StatusOr<std::vector<std::string>> World::AllGather(absl::string_view mine, absl::Time deadline) {
  uint64_t own_size = mine.size();
  std::vector<uint64_t> sizes(size());
  Transfers lengths;
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    lengths.Send(r, BytesOf(own_size));
    lengths.Receive(r, BytesOf(sizes[r]));
  }
  RETURN_IF_ERROR(Exchange(kGatherTag, lengths, deadline, nullptr));
  std::vector<std::string> texts(size());
  Transfers contents;
  for (int r = 0; r < size(); ++r) {
    if (r == rank()) continue;
    texts[r].resize(sizes[r]);
    contents.Send(r, mine);
    contents.Receive(r, absl::MakeSpan(texts[r]));
  }
  RETURN_IF_ERROR(Exchange(kGatherTag, contents, deadline, nullptr));
  texts[rank()] = std::string(mine);
  return texts;
}

absl::StatusOr<std::string> World::Broadcast(absl::string_view mine, absl::Time deadline) {
  uint64_t length = mine.size();
  Transfers lengths, contents;
  std::string text(mine);
  for (int r = 1; r < size(); ++r) {
    if (rank() == 0) lengths.Send(r, BytesOf(length));
    if (rank() == 0) contents.Send(r, mine);
  }
  if (rank() != 0) lengths.Receive(0, BytesOf(length));
  RETURN_IF_ERROR(Exchange(kGatherTag, lengths, deadline, nullptr));
  if (rank() != 0) {
    text.resize(length);
    contents.Receive(0, absl::MakeSpan(text));
  }
  RETURN_IF_ERROR(Exchange(kGatherTag, contents, deadline, nullptr));
  return text;
}

absl::StatusOr<std::unique_ptr<World>> OpenWorld(const Launch& launch, absl::Time deadline) {
  if (launch.processes == 1) return World::Alone();
  if (launch.mpi.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("This is one of ", launch.processes, " processes started by ", launch.launcher,
                     ", which gave them no way to find each other; use srun --mpi=pmix (Open MPI) or "
                     "--mpi=pmi2 (MPICH), or mpirun"));
  }
  const absl::StatusOr<Module> module = Module::Load(absl::StrCat("mpi_", launch.mpi));
  if (!module.ok()) {
    return absl::Status(module.status().code(),
                        absl::StrCat("This is one of ", launch.processes, " processes started by ", launch.launcher,
                                     ", and cannot reach the others: ", module.status().message()));
  }
  const auto* const table = module->Find<MpiModule>("collective");
  if (table == nullptr) return absl::InternalError("the MPI module has no part \"collective\"");
  absl::StatusOr<std::unique_ptr<MpiApi>> mpi;
  {
    const std::string processes = absl::StrCat("the ", launch.processes, " processes started by ", launch.launcher);
    constexpr absl::string_view kReasons = "one of them was not started, is stopped, or has ended";
    ASSIGN_OR_RETURN(
        const auto watchdog,
        Watchdog::Start(
            deadline, absl::StrCat("Error: DEADLINE_EXCEEDED: MPI did not connect ", processes, " in time: ", kReasons),
            1,
            absl::StrCat("Still waiting for MPI to connect ", processes, ", after ", absl::FormatDuration(kNoticeAfter),
                         ": perhaps ", kReasons),
            kNoticeAfter));
    mpi = table->open();
  }
  if (!mpi.ok()) return mpi.status();
  return OpenMpiWorld(*std::move(mpi), launch, kBuild, deadline);
}

}  // namespace belfry
