#include "framework/runtime/session.h"

#include <iostream>
#include <limits>
#include <list>

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include "framework/base/check.h"
#include "framework/base/memory/hash_table.h"
#include "framework/base/memory/out_of_memory.h"
#include "framework/base/parallel.h"
#include "framework/base/status.h"
#include "framework/base/thread.h"
#include "framework/runtime/executable.h"

namespace belfry {
namespace {

constexpr absl::string_view kDuringPreparation = "the preparation of a step";

absl::Status Closed() { return absl::CancelledError("Session has been closed."); }

std::string KeyOf(const ProgramRequest& request) {
  std::string key;
  for (size_t i = 0; i < request.feeds.size(); ++i) {
    absl::StrAppend(&key, request.feeds[i].node->id(), ":", request.feeds[i].index, request.feed_shapes[i].ToString(),
                    ",");
  }
  key += "->";
  for (const Output& fetch : request.fetches) absl::StrAppend(&key, fetch.node->id(), ":", fetch.index, ",");
  key += "/";
  for (const Node* target : request.targets) absl::StrAppend(&key, target->id(), ",");
  return key;
}

ProgramRequest RequestFor(absl::Span<const FeedSpec> feeds, absl::Span<const Output> fetches,
                          absl::Span<const Node* const> targets) {
  ProgramRequest request{.fetches = {fetches.begin(), fetches.end()}, .targets = {targets.begin(), targets.end()}};
  for (const FeedSpec& feed : feeds) {
    request.feeds.push_back(feed.output);
    request.feed_shapes.push_back(feed.shape);
  }
  return request;
}

// A key consists of node ids, so all nodes must be of the session's graph.
absl::Status CheckValid(const Graph& graph, const ProgramRequest& request) {
  const auto check = [&](absl::Span<const Output> outputs, absl::string_view what) -> absl::Status {
    for (const Output& output : outputs) {
      if (!output.valid()) {
        RETURN_IF_ERROR(graph.status());  // why it was not
        return absl::InvalidArgumentError(
            absl::StrCat("A ", what, " is an invalid Output (default-constructed, or a gradient that does not exist)"));
      }
      if (&output.node->graph() != &graph) {
        return absl::InvalidArgumentError(
            absl::StrCat("The ", what, " '", output.name(), "' belongs to another graph"));
      }
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(check(request.feeds, "feed"));
  RETURN_IF_ERROR(check(request.fetches, "fetch"));
  for (const Node* target : request.targets) {
    if (target == nullptr) {
      RETURN_IF_ERROR(graph.status());
      return absl::InvalidArgumentError("A target is null");
    }
    if (&target->graph() != &graph) {
      return absl::InvalidArgumentError(absl::StrCat("The target '", target->name(), "' belongs to another graph"));
    }
  }
  return absl::OkStatus();
}

// Kernels made a second time may choose another algorithm, which may need more memory than the plan has.
bool FitsInto(const std::vector<Kernel>& kernels, const Plan& plan) {
  for (size_t i = 0; i < kernels.size(); ++i) {
    if (kernels[i].workspace_bytes > plan.workspace_bytes[i] || (plan.in_place[i] != 0 && !kernels[i].in_place)) {
      return false;
    }
  }
  return true;
}

// Checks the dtype and the data of a feed; the compiler reports a wrong shape.
absl::Status CheckFeed(const Feed& feed) {
  if (feed.output.valid() && feed.value.bytes() > 0 && feed.value.raw() == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("The value fed for Tensor '", feed.output.name(), "' has a shape but no data"));
  }
  const auto [node, index] = feed.output;
  const bool exists = feed.output.valid() && index >= 0 && index < static_cast<int>(node->outputs().size());
  if (!exists || feed.value.dtype() == feed.output.dtype()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "Cannot feed value of shape ", feed.value.shape().ToString(), " and dtype ", DTypeName(feed.value.dtype()),
      " for Tensor '", feed.output.name(), "', which has shape ", feed.output.shape().ToString(), " and dtype ",
      DTypeName(feed.output.dtype()), node->location().Suffix()));
}

// The variables that begin with the value of one of `variables`, as moving averages do and those of BeginAs, with the
// index of that, except those that are among `variables`.
std::vector<std::pair<Variable, size_t>> CopiesOf(absl::Span<const Variable> variables, const Graph& graph) {
  HashMap<const VariableDef*, size_t> index;
  for (size_t i = 0; i < variables.size(); ++i) index[&variables[i].def()] = i;
  std::vector<std::pair<Variable, size_t>> copies;
  for (const Variable& variable : graph.variables()) {
    const VariableDef& def = variable.def();
    const VariableDef* const other = def.slot_of != nullptr ? def.slot_of : def.begins_as;
    const auto of = index.find(other);
    if (of == index.end() || index.contains(&def) || !def.initial_value.valid()) continue;
    if (def.initial_value == other->initial_value) copies.emplace_back(variable, of->second);
  }
  return copies;
}

}  // namespace

Session::Session(const Graph& graph, const DeviceSet& devices, const SessionOptions& options)
    : graph_(graph),
      devices_(devices),
      options_(options),
      state_{.timeout = options.timeout},
      variables_(devices),
      threads_(devices),
      queues_(devices),
      plans_(options.plan_cache_bytes),
      arena_limit_(options.arena_limit) {}

Session::~Session() {
  Close();
  // Waits for running steps, and leaves the gate again, since prepared steps enter it in their destructors.
  { const ScopedRun last(state_.gate, /*exclusive=*/true); }
  const MutexLock lock(mutex_);
  plans_.Clear();
  plans_.TakeEvicted().clear();
}

absl::StatusOr<std::unique_ptr<Session>> Session::Create(const Graph& graph, const DeviceSet& devices,
                                                         const SessionOptions& options) {
  return CatchOutOfMemory("the creation of a session", [&]() -> absl::StatusOr<std::unique_ptr<Session>> {
    if (!(options.recheck >= 0 && options.recheck <= 1)) {
      return absl::InvalidArgumentError(
          absl::StrCat("SessionOptions::recheck is ", options.recheck, "; expected a share from 0 to 1"));
    }
    int threads = 0;
    for (int i = 0; i < devices.size(); ++i)
      threads += devices.device(i).type() == "CPU" ? devices.device(i).threads() : 0;
    RETURN_IF_ERROR(TryThreads(threads));
    auto session = std::unique_ptr<Session>(new Session(graph, devices, options));
    const MutexLock lock(session->mutex_);
    RETURN_IF_ERROR(session->Extend());
    return session;
  });
}

absl::Status Session::Extend() {
  RETURN_IF_ERROR(graph_.status());
  const auto placed = static_cast<int>(placement_.device.size());
  const size_t noted = placement_.notes.size();
  if (placed == graph_.size()) return absl::OkStatus();
  ASSIGN_OR_RETURN(Placement placement,
                   Place(graph_, devices_, {.allow_soft_placement = options_.allow_soft_placement}, placement_));
  RETURN_IF_ERROR(variables_.Extend(graph_, placement.device));
  placement_ = std::move(placement);
  if (options_.log_device_placement) {
    std::ostream& log = options_.placement_log == nullptr ? std::cout : *options_.placement_log;
    log << PlacementText(graph_, devices_, placement_, placed);
    for (size_t i = noted; i < placement_.notes.size(); ++i) log << placement_.notes[i] << "\n";
    log << std::flush;
  } else {
    for (size_t i = noted; i < placement_.notes.size(); ++i) spdlog::warn("{}", placement_.notes[i]);
  }
  return absl::OkStatus();
}

absl::StatusOr<CompiledPlan> Session::CompileNow(const ProgramRequest& request, const std::string& dump_directory) {
  CompileOptions options{.fuse = options_.fuse,
                         .fuse_elementwise_from = options_.fuse_elementwise_from,
                         .recompute = options_.recompute,
                         .arena_limit = arena_limit_,
                         .fold = options_.fold,
                         .verify = options_.verify_plan,
                         .dump_directory = dump_directory};
  if (options_.check_numerics) options.fuse_elementwise_from = std::numeric_limits<int64_t>::max();
  return Compile(graph_, request, devices_, placement_.device, options);
}

absl::StatusOr<CompiledPlan> Session::FindOrCompile(const ProgramRequest& request, const std::string& key) {
  CompiledPlan compiled{.plan = plans_.Find(key)};
  if (compiled.plan != nullptr) {
    ASSIGN_OR_RETURN(compiled.kernels, MakeKernels(compiled.plan->program, devices_, graph_.registry()));
    if (FitsInto(compiled.kernels, *compiled.plan)) return compiled;
    return CompileNow(request, "");
  }
  std::string dump;
  if (!options_.dump_plan.empty()) dump = absl::StrCat(options_.dump_plan, "/step_", compiled_);
  ASSIGN_OR_RETURN(compiled, CompileNow(request, dump));
  ++compiled_;
  plans_.Add(key, compiled.plan);
  return compiled;
}

absl::StatusOr<std::unique_ptr<Executable>> Session::MakeExecutable(const ProgramRequest& request,
                                                                    const std::string& key) {
  ASSIGN_OR_RETURN(CompiledPlan compiled, FindOrCompile(request, key));
  const std::shared_ptr<const Plan> plan = compiled.plan;
  const BindingEnvironment environment{
      .devices = devices_, .variables = variables_, .queues = queues_, .collectives = options_.collectives};
  const ExecutionOptions options{.replay = options_.replay,
                                 .short_step = options_.short_step,
                                 .debug_sync = options_.debug_sync,
                                 .check_numerics = options_.check_numerics,
                                 .observer = observer_,
                                 .recheck = options_.recheck};
  const absl::Status fits = CheckMemory(*plan, devices_, state_.untouched.load());
  absl::StatusOr<std::unique_ptr<Executable>> executable =
      fits.ok() ? Executable::Create(std::move(compiled), environment, options)
                : absl::StatusOr<std::unique_ptr<Executable>>(fits);
  if (absl::IsResourceExhausted(executable.status())) {
    return absl::ResourceExhaustedError(
        absl::StrCat(executable.status().message(), "\n",
                     MemoryTable(ReportMemory(*plan, graph_, devices_, placement_.device), devices_)));
  }
  RETURN_IF_ERROR(executable.status());
  RETURN_IF_ERROR((*executable)->StartThreads(threads_, options_.short_step));
  return executable;
}

absl::StatusOr<std::unique_ptr<PreparedStep>> Session::Make(const ProgramRequest& request, const std::string& key) {
  RETURN_IF_ERROR(Extend());
  ASSIGN_OR_RETURN(std::unique_ptr<Executable> executable, MakeExecutable(request, key));
  const Plan& plan = executable->plan();
  std::vector<Tensor> fetched;
  for (const Value& fetch : plan.program.fetches) {
    const TensorSpec& spec = plan.program.spec(fetch);
    ASSIGN_OR_RETURN(fetched.emplace_back(), Tensor::Allocate(spec.dtype, spec.shape));
  }
  auto step =
      std::unique_ptr<PreparedStep>(new PreparedStep(state_, std::move(executable), request.feeds, std::move(fetched)));
  step->untouched_ = BytesOnCpus(plan, devices_);
  state_.untouched.fetch_add(step->untouched_);
  const std::vector<ProgramNode>& nodes = plan.program.nodes;
  for (int node : plan.reads_before_writing) {
    step->reads_.emplace_back(nodes[node].source, &variables_.at(nodes[node].source));
  }
  for (int node : plan.written) step->writes_.emplace_back(nodes[node].source, &variables_.at(nodes[node].source));
  return step;
}

// Locks the mutex itself, so that it is free while evicted steps are destroyed: these wait for their ends.
absl::StatusOr<std::unique_ptr<PreparedStep>> Session::MakeWithinMemory(const ProgramRequest& request,
                                                                        const std::string& key) {
  std::list<std::unique_ptr<PreparedStep>> evicted;
  const auto make = [&] {
    const MutexLock lock(mutex_);
    absl::StatusOr<std::unique_ptr<PreparedStep>> step = Make(request, key);
    if (absl::IsResourceExhausted(step.status())) plans_.DropIdle();
    evicted = plans_.TakeEvicted();
    return step;
  };
  absl::StatusOr<std::unique_ptr<PreparedStep>> step = OutsideParallelRegion(make);
  if (!absl::IsResourceExhausted(step.status()) || evicted.empty()) return step;
  evicted.clear();
  return OutsideParallelRegion(make);
}

// Destroys evicted steps without the mutex, as MakeWithinMemory does.
void Session::PutBack(const std::string& key, std::unique_ptr<PreparedStep> step) {
  std::list<std::unique_ptr<PreparedStep>> evicted;
  const MutexLock lock(mutex_);
  plans_.Put(key, std::move(step));
  evicted = plans_.TakeEvicted();
}

absl::StatusOr<std::unique_ptr<PreparedStep>> Session::Prepare(absl::Span<const FeedSpec> feeds,
                                                               absl::Span<const Output> fetches,
                                                               absl::Span<const Node* const> targets) {
  return CatchOutOfMemory(kDuringPreparation, [&]() -> absl::StatusOr<std::unique_ptr<PreparedStep>> {
    if (state_.closed.load()) return Closed();
    const ProgramRequest request = RequestFor(feeds, fetches, targets);
    RETURN_IF_ERROR(CheckValid(graph_, request));
    return MakeWithinMemory(request, KeyOf(request));
  });
}

absl::Status Session::Reserve(absl::Span<const FeedSpec> feeds, absl::Span<const Output> fetches,
                              absl::Span<const Node* const> targets) {
  return CatchOutOfMemory(kDuringPreparation, [&]() -> absl::Status {
    if (state_.closed.load()) return Closed();
    const ProgramRequest request = RequestFor(feeds, fetches, targets);
    RETURN_IF_ERROR(CheckValid(graph_, request));
    const std::string key = KeyOf(request);
    std::unique_ptr<PreparedStep> step;
    {
      const MutexLock lock(mutex_);
      step = plans_.Take(key);
    }
    if (step == nullptr) {
      ASSIGN_OR_RETURN(step, MakeWithinMemory(request, key));
    }
    PutBack(key, std::move(step));
    return absl::OkStatus();
  });
}

absl::StatusOr<Session::Explanation> Session::Explain(absl::Span<const FeedSpec> feeds,
                                                      absl::Span<const Output> fetches,
                                                      absl::Span<const Node* const> targets) {
  return CatchOutOfMemory(kDuringPreparation, [&]() -> absl::StatusOr<Explanation> {
    if (state_.closed.load()) return Closed();
    const ProgramRequest request = RequestFor(feeds, fetches, targets);
    RETURN_IF_ERROR(CheckValid(graph_, request));
    const MutexLock lock(mutex_);
    RETURN_IF_ERROR(Extend());
    ASSIGN_OR_RETURN(const CompiledPlan compiled, CompileNow(request, ""));
    return Explanation{compiled.plan, ReportMemory(*compiled.plan, graph_, devices_, placement_.device)};
  });
}

void Session::LimitArenas(size_t bytes) {
  const MutexLock lock(mutex_);
  arena_limit_ = bytes;
}

void Session::Observe(ResultObserver observer) {
  const MutexLock lock(mutex_);
  observer_ = std::move(observer);
}

absl::StatusOr<std::vector<Tensor>> Session::Run(absl::Span<const Feed> feeds, absl::Span<const Output> fetches,
                                                 absl::Span<const Node* const> targets) {
  return CatchOutOfMemory("a step", [&]() -> absl::StatusOr<std::vector<Tensor>> {
    if (state_.closed.load()) return Closed();
    ProgramRequest request{.fetches = {fetches.begin(), fetches.end()}, .targets = {targets.begin(), targets.end()}};
    std::vector<Tensor> values;
    for (const Feed& feed : feeds) {
      RETURN_IF_ERROR(CheckFeed(feed));
      request.feeds.push_back(feed.output);
      request.feed_shapes.push_back(feed.value.shape());
      values.push_back(feed.value);
    }
    RETURN_IF_ERROR(CheckValid(graph_, request));
    const std::string key = KeyOf(request);
    std::unique_ptr<PreparedStep> step;
    {
      const MutexLock lock(mutex_);
      step = plans_.Take(key);
    }
    if (step == nullptr) {
      ASSIGN_OR_RETURN(step, MakeWithinMemory(request, key));
    }
    absl::Status status = step->Run(values);
    if (status.ok()) status = step->Wait();
    std::vector<Tensor> fetched;
    if (status.ok()) {
      for (size_t i = 0; i < fetches.size(); ++i) fetched.push_back(step->fetched(static_cast<int>(i)).Clone());
    }
    PutBack(key, std::move(step));
    if (!status.ok()) return status;
    return fetched;
  });
}

absl::Status Session::RunTarget(const Node* target, absl::Span<const Feed> feeds) {
  return Run(feeds, {}, {target}).status();
}

void Session::Close() { state_.closed.store(true); }

absl::StatusOr<const Device*> Session::DeviceOf(const Node& node) {
  if (&node.graph() != &graph_) {
    return absl::InvalidArgumentError(absl::StrCat("The node '", node.name(), "' belongs to another graph"));
  }
  const MutexLock lock(mutex_);
  if (node.id() >= static_cast<int>(placement_.device.size())) RETURN_IF_ERROR(Extend());
  return &devices_.device(placement_.device[node.id()]);
}

absl::StatusOr<VariableStorage*> Session::StorageOf(const Variable& variable) {
  ASSIGN_OR_RETURN(const std::vector<VariableStorage*> storage, StorageOf(absl::MakeConstSpan(&variable, 1)));
  return storage[0];
}

absl::StatusOr<std::vector<VariableStorage*>> Session::StorageOf(absl::Span<const Variable> variables) {
  if (state_.closed.load()) return Closed();
  for (const Variable& variable : variables) {
    if (!variable.valid()) {
      return absl::InvalidArgumentError("A variable is invalid (default-constructed, or not found)");
    }
    if (&variable.node().graph() != &graph_) {
      return absl::InvalidArgumentError(absl::StrCat("Variable ", variable.name(), " belongs to another graph"));
    }
  }
  const MutexLock lock(mutex_);
  RETURN_IF_ERROR(Extend());
  std::vector<VariableStorage*> storage;
  for (const Variable& variable : variables) storage.push_back(&variables_.at(&variable.node()));
  return storage;
}

absl::StatusOr<Tensor> Session::ReadVariable(const Variable& variable) {
  Tensor value;
  RETURN_IF_ERROR(ReadVariables(absl::MakeConstSpan(&variable, 1), absl::MakeSpan(&value, 1)));
  return value;
}

absl::Status Session::WriteVariable(const Variable& variable, const Tensor& value) {
  return WriteVariables(absl::MakeConstSpan(&variable, 1), absl::MakeConstSpan(&value, 1));
}

absl::Status Session::ReadVariables(absl::Span<const Variable> variables, absl::Span<Tensor> values) {
  return CatchOutOfMemory("the reading of variables", [&]() -> absl::Status {
    BELFRY_CHECK(variables.size() == values.size());
    ASSIGN_OR_RETURN(const std::vector<VariableStorage*> storage, StorageOf(variables));
    bool exclusive = false;
    for (size_t i = 0; i < variables.size(); ++i) {
      exclusive = exclusive || devices_.device(storage[i]->device).asynchronous();
    }
    const ScopedRun run(state_.gate, exclusive);
    for (size_t i = 0; i < variables.size(); ++i) {
      if (!storage[i]->initialized) return UninitializedError(variables[i].node());
    }
    for (size_t i = 0; i < variables.size(); ++i) {
      const Variable& variable = variables[i];
      const bool fits = values[i].dtype() == variable.dtype() && values[i].shape() == variable.shape() &&
                        (values[i].bytes() == 0 || values[i].raw() != nullptr);
      if (!fits) {
        ASSIGN_OR_RETURN(values[i], Tensor::Allocate(variable.dtype(), variable.shape()));
      }
      RETURN_IF_ERROR(queues_.CopyOut(storage[i]->device, values[i].raw(), storage[i]->data, values[i].bytes()));
    }
    return absl::OkStatus();
  });
}

absl::Status Session::WriteVariables(absl::Span<const Variable> variables, absl::Span<const Tensor> values) {
  return CatchOutOfMemory("the writing of variables", [&]() -> absl::Status {
    BELFRY_CHECK(variables.size() == values.size());
    ASSIGN_OR_RETURN(const std::vector<VariableStorage*> storage, StorageOf(variables));
    for (size_t i = 0; i < variables.size(); ++i) {
      const Variable& variable = variables[i];
      const Tensor& value = values[i];
      if (value.shape() != variable.shape() || value.dtype() != variable.dtype()) {
        return absl::InvalidArgumentError(
            absl::StrCat("Cannot write ", DTypeName(value.dtype()), " ", value.shape().ToString(), " to variable ",
                         variable.name(), ", which is ", DTypeName(variable.dtype()), " ", variable.shape().ToString(),
                         " and was created at ", variable.node().location().ToString()));
      }
      if (value.bytes() > 0 && value.raw() == nullptr) {
        return absl::InvalidArgumentError(
            absl::StrCat("The value for variable ", variable.name(), " has a shape but no data"));
      }
    }
    std::vector<std::pair<VariableStorage*, size_t>> copies, writes;
    for (const auto& [copy, of] : CopiesOf(variables, graph_)) {
      ASSIGN_OR_RETURN(VariableStorage* const own, StorageOf(copy));
      copies.emplace_back(own, of);
    }
    const ScopedRun run(state_.gate, /*exclusive=*/true);
    for (size_t i = 0; i < variables.size(); ++i) writes.emplace_back(storage[i], i);
    for (const auto& [copy, of] : copies) {
      ASSIGN_OR_RETURN(const bool equal, AreEqual(*copy, *storage[of], values[of].bytes()));
      if (equal) writes.emplace_back(copy, of);
    }
    for (const auto& [to, i] : writes) {
      RETURN_IF_ERROR(queues_.CopyIn(to->device, to->data, values[i].raw(), values[i].bytes()));
      to->initialized = true;
      to->checksum.reset();
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<bool> Session::AreEqual(const VariableStorage& a, const VariableStorage& b, size_t bytes) {
  if (!a.initialized || !b.initialized) return false;
  std::vector<char> of_a(bytes), of_b(bytes);
  RETURN_IF_ERROR(queues_.CopyOut(a.device, of_a.data(), a.data, bytes));
  RETURN_IF_ERROR(queues_.CopyOut(b.device, of_b.data(), b.data, bytes));
  return of_a == of_b;
}

absl::StatusOr<std::vector<Variable>> Session::InitializedVariables() {
  return CatchOutOfMemory("the listing of variables", [&]() -> absl::StatusOr<std::vector<Variable>> {
    const std::vector<Variable> all = graph_.variables();
    ASSIGN_OR_RETURN(const std::vector<VariableStorage*> storage, StorageOf(all));
    const ScopedRun run(state_.gate, /*exclusive=*/false);
    std::vector<Variable> initialized;
    for (size_t i = 0; i < all.size(); ++i) {
      if (storage[i]->initialized && !all[i].transient()) initialized.push_back(all[i]);
    }
    return initialized;
  });
}

}  // namespace belfry
