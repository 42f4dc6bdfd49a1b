#include "framework/device/cuda/host_route.h"

#include <algorithm>

#include "framework/base/status.h"

namespace belfry {

absl::StatusOr<std::unique_ptr<HostRoute>> HostRoute::Make(const Card& from, const Card& to, const Card& owner_card,
                                                           cudaStream_t owner) {
  auto route = std::unique_ptr<HostRoute>(new HostRoute(from, to, owner_card, owner));
  ASSIGN_OR_RETURN(route->buffer_, MakePinnedMemory(from, 2 * kChunk));
  ASSIGN_OR_RETURN(route->helper_, MakeStream(owner_card.ordinal() == from.ordinal() ? to : from));
  ASSIGN_OR_RETURN(route->begun_, MakeEvent(owner_card));
  for (int half = 0; half < 2; ++half) {
    ASSIGN_OR_RETURN(route->written_[half], MakeEvent(from));
    ASSIGN_OR_RETURN(route->read_[half], MakeEvent(to));
  }
  return route;
}

absl::Status HostRoute::Copy(void* to, const void* from, size_t bytes) {
  const bool owner_writes = owner_card_.ordinal() == from_.ordinal();
  const cudaStream_t writer = owner_writes ? owner_ : helper_.get();
  const cudaStream_t reader = owner_writes ? helper_.get() : owner_;
  RETURN_IF_ERROR(owner_card_.MakeCurrent());
  RETURN_IF_ERROR(owner_card_.Check(cudaEventRecord(begun_.get(), owner_), "cudaEventRecord"));
  RETURN_IF_ERROR(owner_card_.Check(cudaStreamWaitEvent(helper_.get(), begun_.get(), 0), "cudaStreamWaitEvent"));
  int half = 0;
  for (size_t done = 0; done < bytes; done += kChunk) {
    const size_t size = std::min(kChunk, bytes - done);
    auto* const chunk = static_cast<std::byte*>(buffer_.get()) + half * kChunk;
    RETURN_IF_ERROR(from_.MakeCurrent());
    // The first two chunks are free: the previous copy ended before this one began.
    if (done >= 2 * kChunk) {
      RETURN_IF_ERROR(from_.Check(cudaStreamWaitEvent(writer, read_[half].get(), 0), "cudaStreamWaitEvent"));
    }
    RETURN_IF_ERROR(from_.Check(
        cudaMemcpyAsync(chunk, static_cast<const std::byte*>(from) + done, size, cudaMemcpyDeviceToHost, writer),
        "cudaMemcpyAsync to the host"));
    RETURN_IF_ERROR(from_.Check(cudaEventRecord(written_[half].get(), writer), "cudaEventRecord"));
    RETURN_IF_ERROR(to_.MakeCurrent());
    RETURN_IF_ERROR(to_.Check(cudaStreamWaitEvent(reader, written_[half].get(), 0), "cudaStreamWaitEvent"));
    RETURN_IF_ERROR(
        to_.Check(cudaMemcpyAsync(static_cast<std::byte*>(to) + done, chunk, size, cudaMemcpyHostToDevice, reader),
                  "cudaMemcpyAsync from the host"));
    RETURN_IF_ERROR(to_.Check(cudaEventRecord(read_[half].get(), reader), "cudaEventRecord"));
    half = 1 - half;
  }
  if (!owner_writes) return absl::OkStatus();  // The last read is on the owner's stream.
  return owner_card_.Check(cudaStreamWaitEvent(owner_, read_[1 - half].get(), 0), "cudaStreamWaitEvent");
}

}  // namespace belfry
