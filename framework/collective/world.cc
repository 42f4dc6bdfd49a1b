#include "framework/collective/world.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/host_name.h"
#include "framework/base/status.h"
#include "framework/collective/process_tree.h"

namespace belfry {
namespace {

// The tag of AllGather and Broadcast.
constexpr int kGatherTag = 0;
// The most bytes of a process, on average, that AllGather sends through a tree. All n P bytes of P processes come down
// each of log2(P) edges, one after the other, which takes longer than their direct way, but saves the latencies of most
// of P messages. So the tree is faster while n < latency / (time of a byte * log2(P)), about. That is 600 to 2,700
// bytes for 1,000 processes over the links of benchmarks/prediction/link.cc.
constexpr size_t kMostInTree = 1024;

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

absl::Status World::AllGatherBlocks(absl::Span<char> all, absl::Span<const uint64_t> begins, absl::Time deadline,
                                    bool directly) {
  const auto blocks = [&](int begin, int end) { return all.subspan(begins[begin], begins[end] - begins[begin]); };
  if (directly || size() < kFewestInTree || all.size() > kMostInTree * size()) {
    Transfers transfers;
    for (int r = 0; r < size(); ++r) {
      if (r == rank()) continue;
      transfers.Send(r, blocks(rank(), rank() + 1));
      transfers.Receive(r, blocks(r, r + 1));
    }
    return Exchange(kGatherTag, transfers, deadline, nullptr);
  }
  const ProcessTree tree(rank(), size());
  Transfers from_children, to_parent, from_parent, to_children;
  for (const int child : tree.children()) {
    from_children.Receive(child, blocks(child, tree.End(child)));
    to_children.Send(child, all);
  }
  if (!tree.is_root()) {
    to_parent.Send(tree.parent(), blocks(rank(), tree.End(rank())));
    from_parent.Receive(tree.parent(), all);
  }
  for (Transfers* const transfers : {&from_children, &to_parent, &from_parent, &to_children}) {
    RETURN_IF_ERROR(Exchange(kGatherTag, *transfers, deadline, nullptr));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> World::AllGather(absl::string_view mine, absl::Time deadline, bool directly) {
  std::vector<uint64_t> sizes(size()), begins(size() + 1);
  sizes[rank()] = mine.size();
  for (int r = 0; r <= size(); ++r) begins[r] = r * sizeof(uint64_t);
  const absl::Span<char> bytes_of_sizes(reinterpret_cast<char*>(sizes.data()), begins.back());
  RETURN_IF_ERROR(AllGatherBlocks(bytes_of_sizes, begins, deadline, directly));
  std::partial_sum(sizes.begin(), sizes.end(), begins.begin() + 1);
  std::string all(begins.back(), '\0');
  mine.copy(&all[begins[rank()]], mine.size());
  RETURN_IF_ERROR(AllGatherBlocks(absl::MakeSpan(all), begins, deadline, directly));
  std::vector<std::string> texts;
  for (int r = 0; r < size(); ++r) texts.push_back(all.substr(begins[r], sizes[r]));
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
