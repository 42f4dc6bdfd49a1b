#include "framework/runtime/checkpointer.h"

#include <string>
#include <utility>

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"
#include "framework/base/finite.h"
#include "framework/base/memory/out_of_memory.h"
#include "framework/base/status.h"
#include "framework/base/thread.h"

namespace belfry {
namespace {

absl::Status CheckFinite(absl::Span<const io::NamedTensor> tensors, int64_t step) {
  for (const io::NamedTensor& tensor : tensors) {
    const NonFinite found = FindNonFinite(tensor.value.dtype(), tensor.value.raw(), tensor.value.elements());
    if (!found.any()) continue;
    return absl::AbortedError(absl::StrCat("variable ", tensor.name, " has ", found.ToString(), " after step ", step,
                                           ", so no checkpoint is written"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpointer>> Checkpointer::Create(Session& session,
                                                                   io::CheckpointDirectory directory) {
  std::unique_ptr<Checkpointer> checkpointer(new Checkpointer(session, std::move(directory)));
  ASSIGN_OR_RETURN(checkpointer->thread_,
                   StartThread("to write checkpoints", [writer = checkpointer.get()] { writer->Write(); }));
  return checkpointer;
}

Checkpointer::~Checkpointer() {
  if (!thread_.joinable()) return;
  {
    const MutexLock lock(mutex_);
    ending_ = true;
    mutex_.NotifyAll();
  }
  thread_.join();
  const absl::Status unreported = Poll();
  if (unreported.ok()) return;
  CatchOutOfMemory("a report", [&] {
    spdlog::error("A checkpoint could not be saved: {}", std::string(unreported.message()));
    return absl::OkStatus();
  }).IgnoreError();
}

absl::Status Checkpointer::Save(int64_t step, io::Metadata metadata, const std::optional<io::Metric>& metric,
                                absl::Span<const SlotPart> elsewhere) {
  {
    const MutexLock lock(mutex_);
    mutex_.Await([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !request_.has_value(); });
  }
  absl::Status taken = snapshot_.Take(session_, elsewhere);
  if (!taken.ok()) return taken;
  const MutexLock lock(mutex_);
  request_ = Request{step, std::move(metadata), metric};
  mutex_.NotifyAll();
  return std::exchange(unreported_, absl::OkStatus());
}

absl::Status Checkpointer::Poll() {
  const MutexLock lock(mutex_);
  return std::exchange(unreported_, absl::OkStatus());
}

bool Checkpointer::idle() {
  const MutexLock lock(mutex_);
  return !request_.has_value();
}

absl::Status Checkpointer::Finish() {
  const MutexLock lock(mutex_);
  mutex_.Await([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !request_.has_value(); });
  return std::exchange(unreported_, absl::OkStatus());
}

absl::Status Checkpointer::WriteRequest() {
  Request request;
  {
    const MutexLock lock(mutex_);
    request = *request_;
  }
  RETURN_IF_ERROR(CheckFinite(snapshot_.tensors(), request.step));
  return directory_.Save(request.step, snapshot_.tensors(), request.metadata, request.metric);
}

void Checkpointer::Write() {
  while (true) {
    {
      const MutexLock lock(mutex_);
      mutex_.Await([this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return request_.has_value() || ending_; });
      if (!request_) return;
    }
    const absl::Status saved = CatchOutOfMemory("the writing of a checkpoint", [this] { return WriteRequest(); });
    const MutexLock lock(mutex_);
    unreported_.Update(saved);
    request_.reset();
    mutex_.NotifyAll();
  }
}

}  // namespace belfry
