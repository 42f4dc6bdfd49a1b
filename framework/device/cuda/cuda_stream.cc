#include "framework/device/cuda/cuda_stream.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/device/cuda/cuda_device.h"
#include "framework/device/cuda/cuda_event.h"
#include "framework/device/cuda/cuda_graph.h"
#include "framework/device/cuda/native.h"

namespace belfry {
namespace {

struct HostRecord {
  Event* event;
  uint32_t run;
};

void RecordFromHost(void* data) {
  const std::unique_ptr<HostRecord> record(static_cast<HostRecord*>(data));
  record->event->Record(record->run);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaStream>> CudaStream::Make(StreamKind kind, const Card& card, const Peers& peers) {
  // Otherwise an average would queue behind all blocks that the backward pass has waiting.
  const bool first = kind == StreamKind::kCollective;
  ASSIGN_OR_RETURN(StreamHandle stream, MakeStream(card, first ? StreamPriority::kFirst : StreamPriority::kLast));
  return std::unique_ptr<CudaStream>(new CudaStream(kind, card, peers, std::move(stream)));
}

CudaStream::~CudaStream() {
  cudaSetDevice(card_.ordinal());
  if (cudaStreamSynchronize(stream_.get()) != cudaSuccess) cudaGetLastError();
}

absl::Status CudaStream::Wait(Event& event, uint32_t run, absl::Time deadline) {
  auto* const native = dynamic_cast<CudaEvent*>(&event);
  return native == nullptr ? event.Wait(run, deadline) : native->WaitOn(card_, stream_.get(), run, deadline);
}

void CudaStream::Record(Event& event, uint32_t run) {
  if (auto* const native = dynamic_cast<CudaEvent*>(&event); native != nullptr) {
    error_.Update(native->RecordOn(card_, stream_.get(), run));
    return;
  }
  const absl::Status status = RecordOnHost(event, run);
  error_.Update(status);
  if (!status.ok()) event.Record(run);  // Otherwise its waiters would wait forever.
}

absl::Status CudaStream::RecordOnHost(Event& event, uint32_t run) {
  RETURN_IF_ERROR(card_.MakeCurrent());
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  RETURN_IF_ERROR(card_.Check(cudaStreamIsCapturing(stream_.get(), &capture), "cudaStreamIsCapturing"));
  if (capture != cudaStreamCaptureStatusNone) {
    // Each replay would delete the record.
    return absl::FailedPreconditionError(
        absl::StrCat(card_.label(),
                     ": a captured step cannot record an event of the host; run it without capture (replay = false)"));
  }
  auto record = std::make_unique<HostRecord>(HostRecord{&event, run});
  RETURN_IF_ERROR(card_.Check(cudaLaunchHostFunc(stream_.get(), RecordFromHost, record.get()), "cudaLaunchHostFunc"));
  record.release();
  return absl::OkStatus();
}

absl::Status CudaStream::Copy(void* to, const Device& to_device, const void* from, const Device& from_device,
                              size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  const auto* const target = dynamic_cast<const CudaDevice*>(&to_device);
  const auto* const source = dynamic_cast<const CudaDevice*>(&from_device);
  if (target != nullptr && source != nullptr && target->physical_id() != source->physical_id()) {
    return CopyBetween(to, target->card(), from, source->card(), bytes);
  }
  const cudaMemcpyKind kind = target == nullptr   ? (source == nullptr ? cudaMemcpyHostToHost : cudaMemcpyDeviceToHost)
                              : source == nullptr ? cudaMemcpyHostToDevice
                                                  : cudaMemcpyDeviceToDevice;
  RETURN_IF_ERROR(card_.MakeCurrent());
  return card_.Check(cudaMemcpyAsync(to, from, bytes, kind, stream_.get()), "cudaMemcpyAsync");
}

absl::Status CudaStream::CopyBetween(void* to, const Card& to_card, const void* from, const Card& from_card,
                                     size_t bytes) {
  if (!peers_.connected(to_card.ordinal(), from_card.ordinal())) {
    ASSIGN_OR_RETURN(HostRoute* const route, Route(from_card, to_card));
    return route->Copy(to, from, bytes);
  }
  RETURN_IF_ERROR(card_.MakeCurrent());
  return card_.Check(cudaMemcpyPeerAsync(to, to_card.ordinal(), from, from_card.ordinal(), bytes, stream_.get()),
                     "cudaMemcpyPeerAsync");
}

absl::StatusOr<HostRoute*> CudaStream::Route(const Card& from, const Card& to) {
  for (auto& route : routes_) {
    if (route->Connects(from, to)) return route.get();
  }
  ASSIGN_OR_RETURN(routes_.emplace_back(), HostRoute::Make(from, to, card_, stream_.get()));
  return routes_.back().get();
}

absl::Status CudaStream::Synchronize() {
  cudaSetDevice(card_.ordinal());
  error_.Update(card_.Check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize"));
  return Error();
}

absl::Status CudaStream::Error() {
  if (!error_.ok()) return std::exchange(error_, absl::OkStatus());
  cudaSetDevice(card_.ordinal());
  const cudaError_t error = cudaStreamQuery(stream_.get());
  if (error == cudaSuccess) return absl::OkStatus();
  if (error != cudaErrorNotReady) return card_.Check(error, "cudaStreamQuery");
  cudaGetLastError();  // "Not ready" is kept as an error too, and the thread's next kernel launch would report it.
  return absl::OkStatus();
}

absl::Status CudaStream::BeginCapture() {
  RETURN_IF_ERROR(card_.MakeCurrent());
  // Captures this thread's calls only; what other threads do meanwhile, such as allocating, does not invalidate it.
  return card_.Check(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
}

absl::StatusOr<std::unique_ptr<CapturedWork>> CudaStream::EndCapture() {
  absl::StatusOr<std::unique_ptr<CapturedWork>> work = CudaGraph::EndCapture(card_, stream_.get());
  // A failed Record in between has invalidated the capture as well; it is reported here and then forgotten.
  const absl::Status capture = std::exchange(error_, absl::OkStatus());
  RETURN_IF_ERROR(capture);
  return work;
}

cudaStream_t NativeStream(Stream& stream) {
  const auto& cuda = static_cast<const CudaStream&>(stream);
  // Kernels launch on the current device only. An error here shows again at the launch, which reports it.
  cudaSetDevice(cuda.card().ordinal());
  return cuda.native();
}

}  // namespace belfry
