#include "trainers/loop/task_sync.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "framework/base/memory/hash_table.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/io/checksum.h"
#include "framework/runtime/saver.h"

namespace belfry::trainers {
namespace {

constexpr absl::Duration kBetweenExchanges = absl::Milliseconds(100);
constexpr int64_t kMaxInterval = 10'000;

std::string Quoted(absl::Span<const std::string> lines, size_t i) {
  return i < lines.size() ? absl::StrCat("'", lines[i], "'") : "nothing more";
}

}  // namespace

absl::Status CheckSameLines(World& world, absl::string_view what, absl::Span<const std::string> lines,
                            absl::Time deadline) {
  const std::string mine = absl::StrJoin(lines, "\n");
  // The lines themselves only if they differ: a model has thousands, and there may be a thousand tasks.
  ASSIGN_OR_RETURN(const std::vector<std::string> checksums,
                   world.AllGather(io::ChecksumText(mine.data(), mine.size()), deadline));
  if (std::all_of(checksums.begin(), checksums.end(), [&](const std::string& sum) { return sum == checksums[0]; })) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, world.AllGather(mine, deadline));
  const std::vector<std::string> first = absl::StrSplit(texts[0], '\n');
  for (int task = 1; task < world.size(); ++task) {
    if (texts[task] == texts[0]) continue;
    const std::vector<std::string> other = absl::StrSplit(texts[task], '\n');
    size_t i = 0;
    while (i < first.size() && i < other.size() && first[i] == other[i]) ++i;
    return absl::FailedPreconditionError(absl::StrCat("the tasks have different ", what, ": ", Quoted(first, i), " in ",
                                                      Describe(0, world.processes()[0]), ", but ", Quoted(other, i),
                                                      " in ", Describe(task, world.processes()[task])));
  }
  return absl::OkStatus();
}

std::vector<std::string> ModelLines(const Graph& graph, const models::TrainTower& tower) {
  // Nodes that ReplicateTowers adds itself, such as the inputs, carry the line of its call.
  const Node& input = *tower.batch.placeholders()[0].node;
  const std::string own = input.location().ToString();
  // Summaries of a tower, for example, are named after it.
  std::vector<char> used(graph.size(), 0);
  used[tower.loss.node->id()] = 1;
  for (int id = graph.size() - 1; id >= 0; --id) {
    if (used[id] == 0) continue;
    for (const Output& from : graph.node(id).inputs()) used[from.node->id()] = 1;
  }
  std::vector<std::string> lines;
  for (int id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    if (used[id] == 0 || node.tower() != input.tower() || node.tower_scope() != input.tower_scope()) continue;
    if (node.phase() != Phase::kForward || node.location().ToString() == own) continue;
    std::string line = node.op().name;
    for (const TensorSpec& output : node.outputs()) {
      absl::StrAppend(&line, " ", DTypeName(output.dtype), " ", output.shape.ToString());
    }
    Attrs alike;
    for (const auto& [name, value] : node.attrs().values()) {
      if (name == "rank") continue;
      absl::StrAppend(&line, " ", name, "=", AttrToString(value));
      alike.Set(name, value);
    }
    // The printed attributes are rounded and shortened; the checksum covers their exact values.
    const std::string exact = AttrsKey(alike);
    lines.push_back(absl::StrCat(line, " (", node.location().ToString(), ") ",
                                 io::ChecksumText(exact.data(), exact.size()).substr(0, 8)));
  }
  return lines;
}

std::vector<std::string> CollectiveLines(const Plan& plan) {
  std::vector<std::string> lines;
  for (const StreamProgram& stream : plan.streams) {
    for (const Instruction& instruction : stream.instructions) {
      if (instruction.kind != Instruction::Kind::kCollective) continue;
      const ProgramNode& node = plan.program.nodes[instruction.index];
      const CollectiveGroup& group = plan.program.collectives[node.collective];
      std::string line =
          absl::StrCat(group.name, " ", node.attrs.String("reduction"), " ", DTypeName(node.outputs[0].dtype));
      for (size_t k = 0; k < node.outputs.size() / node.ranks.size(); ++k) {
        absl::StrAppend(&line, " ", node.outputs[k].shape.ToString());
      }
      absl::StrAppend(&line, " of ", group.size);
      lines.push_back(line);
    }
    // The others have the same collectives in the same order.
    if (!lines.empty()) break;
  }
  return lines;
}

TaskReports::TaskReports(World& world, int64_t first_step)
    : world_(world),
      tag_(world.NewTag()),
      next_(first_step + 1),
      last_(first_step),
      since_(SteadyNow()),
      waited_(world.waited()),
      reports_(world.size()) {
  const auto bytes = [](Report& report) { return absl::MakeSpan(reinterpret_cast<char*>(&report), sizeof(report)); };
  if (world.rank() != 0) {
    ask_.Send(0, bytes(reports_[world.rank()]));
    answer_.Receive(0, bytes(answered_));
    return;
  }
  for (int task = 1; task < world.size(); ++task) {
    ask_.Receive(task, bytes(reports_[task]));
    answer_.Send(task, bytes(answered_));
  }
}

absl::StatusOr<int> TaskReports::AfterStep(int64_t step, int noted, absl::Duration input_time, absl::Time deadline) {
  if (world_.size() == 1) return noted;
  if (step != next_) return 0;
  Report& own = reports_[world_.rank()];
  own.signal = noted;
  own.waited = absl::ToInt64Nanoseconds(world_.waited() - waited_);
  own.input = absl::ToInt64Nanoseconds(input_time - input_time_);
  input_time_ = input_time;
  RETURN_IF_ERROR(world_.Exchange(tag_, ask_, deadline, nullptr));
  if (world_.rank() == 0) {
    answered_.signal = 0;
    for (const Report& report : reports_) {
      const bool open = answered_.signal == 0 || answered_.signal == kEnd;
      if (open && report.signal != 0) answered_.signal = report.signal;
    }
    const absl::Time now = SteadyNow();
    const double rate = static_cast<double>(step - last_) / std::max(absl::ToDoubleSeconds(now - since_), 1e-6);
    answered_.interval = static_cast<int32_t>(
        std::clamp(rate * absl::ToDoubleSeconds(kBetweenExchanges), 1.0, static_cast<double>(kMaxInterval)));
    FindSlowest(step - last_, now - since_);
    since_ = now;
  }
  RETURN_IF_ERROR(world_.Exchange(tag_, answer_, deadline, nullptr));
  waited_ = world_.waited();
  last_ = step;
  next_ = step + answered_.interval;
  return answered_.signal;
}

void TaskReports::FindSlowest(int64_t steps, absl::Duration time) {
  size_t slowest = 0;
  std::vector<int64_t> waited;
  for (size_t task = 0; task < reports_.size(); ++task) {
    waited.push_back(reports_[task].waited);
    if (reports_[task].waited < reports_[slowest].waited) slowest = task;
  }
  std::nth_element(waited.begin(), waited.begin() + waited.size() / 2, waited.end());
  const absl::Duration behind = absl::Nanoseconds(waited[waited.size() / 2] - reports_[slowest].waited);
  slowest_.clear();
  if (behind < time / 10) return;
  const auto per_step = [&](absl::Duration of) { return absl::ToDoubleMilliseconds(of) / static_cast<double>(steps); };
  slowest_ = absl::StrFormat("slowest: %s, %.1f ms a step, %.1f ms of them in its input",
                             Describe(static_cast<int>(slowest), world_.processes()[slowest]), per_step(behind),
                             per_step(absl::Nanoseconds(reports_[slowest].input)));
}

TaskSync::TaskSync(World* world, absl::Duration timeout, Session& session, const models::TrainStep& step)
    : alone_(world == nullptr ? World::Alone() : nullptr),
      world_(world == nullptr ? *alone_ : *world),
      timeout_(timeout),
      session_(session),
      step_(step) {}

absl::Time TaskSync::Deadline() const { return SteadyNow() + timeout_; }

absl::Status TaskSync::CheckSame(absl::string_view what, const std::vector<std::string>& lines) const {
  return world_.size() == 1 ? absl::OkStatus() : CheckSameLines(world_, what, lines, Deadline());
}

absl::Status TaskSync::CheckReplicas() const {
  const int first = step_.towers[0].scope.replica();
  RETURN_IF_ERROR(belfry::CheckReplicas(session_, static_cast<int>(step_.towers.size()), first));
  if (world_.size() == 1) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<std::string> lines, ChecksumReplica(session_, first));
  const absl::Status status = CheckSame("variables", lines);
  return absl::IsFailedPrecondition(status) ? absl::DataLossError(status.message()) : status;
}

std::vector<Variable> TaskSync::FirstReplica() const {
  std::vector<Variable> variables;
  for (const Variable& variable : session_.graph().variables()) {
    if (variable.replica() != step_.towers[0].scope.replica() || variable.transient()) continue;
    if (!variable.sharded()) variables.push_back(variable);
  }
  return variables;
}

absl::Status TaskSync::CopyFromTaskZero(absl::Span<const Variable> variables) const {
  if (world_.size() == 1) return absl::OkStatus();
  std::string bytes;
  std::vector<Tensor> values(variables.size());
  if (world_.rank() == 0) RETURN_IF_ERROR(session_.ReadVariables(variables, absl::MakeSpan(values)));
  for (const Tensor& value : values) bytes.append(static_cast<const char*>(value.raw()), value.bytes());
  ASSIGN_OR_RETURN(const std::string copied, world_.Broadcast(bytes, Deadline()));
  if (world_.rank() == 0) return absl::OkStatus();
  std::vector<Variable> replicas;
  std::vector<Tensor> written;
  const char* at = copied.data();
  for (const Variable& variable : variables) {
    Tensor value(variable.dtype(), variable.shape());
    if (at + value.bytes() > copied.data() + copied.size()) {
      return absl::FailedPreconditionError(
          absl::StrCat("task 0 has no value for variable '", variable.name(), "': it has built another model"));
    }
    std::memcpy(value.raw(), at, value.bytes());
    at += value.bytes();
    for (const Variable& replica : session_.graph().variables()) {
      if (replica.name() != variable.name()) continue;
      replicas.push_back(replica);
      written.push_back(value);
    }
  }
  if (at != copied.data() + copied.size()) {
    return absl::FailedPreconditionError("task 0 has more variables than this task: it has built another model");
  }
  return session_.WriteVariables(replicas, written);
}

absl::Status TaskSync::CopyVariables() const { return CopyFromTaskZero(FirstReplica()); }

absl::Status TaskSync::CopyMovingAverages() const {
  if (world_.size() == 1) return absl::OkStatus();
  HashSet<const Node*> updated;
  for (const Output& update : session_.graph().GetCollection(kUpdateOps)) {
    if (!update.node->inputs().empty()) updated.insert(update.node->input(0).node);
  }
  std::vector<Variable> moving;
  for (const Variable& variable : FirstReplica()) {
    if (updated.contains(&variable.node())) moving.push_back(variable);
  }
  return CopyFromTaskZero(moving);
}

absl::StatusOr<int> TaskSync::AfterStep(int64_t step, int noted, absl::Duration input_time,
                                        absl::Duration step_timeout) {
  const absl::Time deadline = std::min(Deadline(), SteadyNow() + step_timeout);
  return reports_->AfterStep(step, noted, input_time, deadline);
}

absl::Status TaskSync::AgreeOnEnd(std::optional<std::string>& reason) const {
  if (world_.size() == 1) return absl::OkStatus();
  // An empty reason is one, too.
  const std::string mine = reason.has_value() ? absl::StrCat("!", *reason) : "";
  ASSIGN_OR_RETURN(const std::vector<std::string> all, world_.AllGather(mine, Deadline()));
  const auto first = std::find_if(all.begin(), all.end(), [](const std::string& one) { return !one.empty(); });
  if (first != all.end()) reason = first->substr(1);
  return absl::OkStatus();
}

}  // namespace belfry::trainers
