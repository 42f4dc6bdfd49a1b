#include "framework/collective/world.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/host_name.h"
#include "framework/base/status.h"

namespace belfry {
namespace {

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

}  // namespace belfry
