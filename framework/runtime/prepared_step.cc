#include "framework/runtime/prepared_step.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/memory/out_of_memory.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/runtime/executable.h"

namespace belfry {

PreparedStep::PreparedStep(SessionState& session, std::unique_ptr<Executable> executable, std::vector<Output> feeds,
                           std::vector<Tensor> fetched)
    : session_(session), executable_(std::move(executable)), feeds_(std::move(feeds)), fetched_(std::move(fetched)) {
  fed_.resize(feeds_.size());
  std::iota(fed_.begin(), fed_.end(), 0);
  const Plan& plan = executable_->plan();
  exclusive_ = !plan.written.empty() || plan.streams.size() > 1 || executable_->asynchronous();
}

PreparedStep::~PreparedStep() {
  MarkTouched();
  if (!executable_->asynchronous()) return;
  // A process that stands still would otherwise keep the collectives of the last run, and with them this thread.
  if (under_way_) executable_->AwaitDevices(deadline_).IgnoreError();
  const ScopedRun last(session_.gate, /*exclusive=*/true);
  executable_.reset();
}

bool PreparedStep::asynchronous() const { return executable_->asynchronous(); }
bool PreparedStep::replays() const { return executable_->replays(); }
const Plan& PreparedStep::plan() const { return executable_->plan(); }
std::string PreparedStep::Position() const { return executable_->Position(); }

namespace {

absl::Status CheckMemory(absl::string_view what, int i, size_t count, DType dtype, size_t elements, const void* data,
                         const TensorSpec* spec) {
  if (spec == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("The step has no ", what, " ", i, ", but ", count, " of them"));
  }
  if (elements > 0 && data == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("The memory for ", what, " ", i, " has elements but no address"));
  }
  if (dtype == spec->dtype && elements == static_cast<size_t>(spec->shape.elements())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("Memory of ", elements, " elements ", DTypeName(dtype),
                                                 " was given for ", what, " ", i, ", which is ", DTypeName(spec->dtype),
                                                 " ", spec->shape.ToString()));
}

}  // namespace

absl::Status PreparedStep::BindFeed(int i, DType dtype, size_t elements, const void* data) {
  const bool there = i >= 0 && static_cast<size_t>(i) < feeds_.size();
  RETURN_IF_ERROR(
      CheckMemory("feed", i, feeds_.size(), dtype, elements, data, there ? &executable_->feed(i).spec : nullptr));
  RETURN_IF_ERROR(Wait());
  executable_->BindFeed(i, data);
  fed_.erase(std::remove(fed_.begin(), fed_.end(), i), fed_.end());
  return absl::OkStatus();
}

absl::Status PreparedStep::BindFetch(int i, DType dtype, size_t elements, void* data) {
  const bool there = i >= 0 && static_cast<size_t>(i) < fetched_.size();
  RETURN_IF_ERROR(
      CheckMemory("fetch", i, fetched_.size(), dtype, elements, data, there ? &executable_->fetch(i).spec : nullptr));
  RETURN_IF_ERROR(Wait());
  const HostCopy& fetch = executable_->fetch(i);
  for (size_t k = 0; k < fetched_.size(); ++k) {
    const int other = static_cast<int>(k);
    if (other == i || !Overlaps(executable_->fetch(other), data, fetch.spec.bytes())) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("The memory for fetch ", i, " overlaps that of fetch ", k, "; each needs its own"));
  }
  if (fetch.in_place) fetched_[i] = fetched_[i].Clone();
  executable_->BindFetch(i, data);
  if (fetch.in_place) {
    fetched_[i] = Tensor::Over(std::shared_ptr<std::byte>(std::shared_ptr<void>(), static_cast<std::byte*>(data)),
                               fetch.spec.dtype, fetch.spec.shape);
  }
  return absl::OkStatus();
}

absl::Status PreparedStep::Check(absl::Span<const Tensor> feeds) const {
  if (feeds.size() != fed_.size()) {
    const std::string bound = fed_.size() < feeds_.size() ? " that are not bound" : "";
    return absl::InvalidArgumentError(
        absl::StrCat("The step was prepared for ", fed_.size(), " feeds", bound, ", but was given ", feeds.size()));
  }
  for (size_t k = 0; k < feeds.size(); ++k) {
    const int i = fed_[k];
    const TensorSpec& spec = executable_->feed(i).spec;
    if (feeds[k].bytes() > 0 && feeds[k].raw() == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("The value fed for Tensor '", feeds_[i].name(), "' has a shape but no data"));
    }
    if (feeds[k].dtype() == spec.dtype && feeds[k].shape() == spec.shape) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("Cannot feed value of shape ", feeds[k].shape().ToString(), " and dtype ",
                     DTypeName(feeds[k].dtype()), " for Tensor '", feeds_[i].name(), "', which has shape ",
                     spec.shape.ToString(), " and dtype ", DTypeName(spec.dtype), feeds_[i].node->location().Suffix()));
  }
  return absl::OkStatus();
}

absl::Status PreparedStep::CheckInitialized() {
  for (const auto& [variable, storage] : reads_) {
    if (!storage->initialized) return UninitializedError(*variable);
  }
  initialized_ = true;
  return absl::OkStatus();
}

void PreparedStep::MarkInitialized() {
  for (const auto& [variable, storage] : writes_) storage->initialized = true;
}

void PreparedStep::MarkTouched() {
  if (untouched_ > 0) session_.untouched.fetch_sub(std::exchange(untouched_, 0));
}

absl::Status PreparedStep::Run(absl::Span<const Tensor> feeds) { return RunFed(feeds, nullptr); }

absl::Status PreparedStep::RunTraced(absl::Span<const Tensor> feeds, StepTrace& trace) {
  RETURN_IF_ERROR(RunFed(feeds, &trace));
  return Wait();
}

absl::Status PreparedStep::RunFed(absl::Span<const Tensor> feeds, StepTrace* trace) {
  const absl::Duration timeout = session_.timeout;
  const absl::Time deadline = timeout == absl::InfiniteDuration() ? absl::InfiniteFuture() : SteadyNow() + timeout;
  RETURN_IF_ERROR(Check(feeds));
  if (busy_.exchange(true, std::memory_order_acquire)) {
    return absl::FailedPreconditionError("This prepared step is running on another thread; prepare one per thread");
  }
  const absl::Status status = CatchOutOfMemory("a step", [&]() -> absl::Status {
    RETURN_IF_ERROR(std::exchange(unreported_, absl::OkStatus()));
    const ScopedRun run(session_.gate, exclusive_, deadline);
    if (!run.entered()) {
      return absl::DeadlineExceededError(
          "The step exceeded its deadline while it waited for other steps of the session");
    }
    if (session_.closed.load(std::memory_order_relaxed)) return absl::CancelledError("Session has been closed.");
    if (!initialized_) RETURN_IF_ERROR(CheckInitialized());
    const uint64_t number = session_.runs.fetch_add(1, std::memory_order_relaxed);
    const absl::Status ran =
        executable_->Run(number, feeds, {.deadline = deadline, .cancelled = &session_.closed}, trace);
    if (executable_->found_corruption()) session_.corrupted.store(true);
    RETURN_IF_ERROR(ran);
    MarkInitialized();
    MarkTouched();
    under_way_ = executable_->asynchronous();
    deadline_ = deadline;
    return under_way_ ? absl::OkStatus() : executable_->Fetch(deadline, fetched_);
  });
  busy_.store(false, std::memory_order_release);
  return status;
}

absl::Status PreparedStep::Wait() {
  if (!under_way_) return absl::OkStatus();
  RETURN_IF_ERROR(executable_->AwaitDevices(deadline_));
  under_way_ = false;
  // Another thread may be capturing a step with the same streams, which cannot be queried meanwhile.
  const ScopedRun run(session_.gate, /*exclusive=*/true);
  return executable_->Fetch(deadline_, fetched_);
}

const Tensor& PreparedStep::fetched(int i) {
  unreported_.Update(Wait());  // the next Run reports it
  return fetched_[i];
}

}  // namespace belfry
