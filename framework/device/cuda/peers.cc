#include "framework/device/cuda/peers.h"

#include <spdlog/spdlog.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "framework/base/status.h"
#include "framework/base/steady_time.h"
#include "framework/device/cuda/handles.h"

namespace belfry {
namespace {

constexpr size_t kBytes = size_t{512} << 10;
constexpr absl::Duration kPatience = absl::Seconds(20);  // The first copy between two cards may involve a long set-up.

// One of the two cards in a trial.
struct Side {
  const Card* card;
  StreamHandle stream;
  DeviceHandle memory;
  PinnedHandle host;

  uint32_t* words() const { return static_cast<uint32_t*>(host.get()); }
};

absl::StatusOr<Side> MakeSide(const Card& card) {
  Side side{.card = &card};
  ASSIGN_OR_RETURN(side.stream, MakeStream(card));
  ASSIGN_OR_RETURN(side.memory, MakeDeviceMemory(card, kBytes));
  ASSIGN_OR_RETURN(side.host, MakePinnedMemory(card, kBytes));
  return side;
}

absl::Status Finish(const Side& side) {
  const absl::Time deadline = SteadyNow() + kPatience;
  while (true) {
    cudaSetDevice(side.card->ordinal());
    const cudaError_t error = cudaStreamQuery(side.stream.get());
    if (error != cudaErrorNotReady) return side.card->Check(error, "copying between cards");
    cudaGetLastError();
    if (SteadyNow() > deadline) return absl::DeadlineExceededError("a copy did not finish");
    absl::SleepFor(absl::Microseconds(50));
  }
}

absl::Status Fill(const Side& side, uint32_t seed) {
  for (size_t i = 0; i < kBytes / sizeof(uint32_t); ++i) {
    side.words()[i] = (static_cast<uint32_t>(i) + seed) * uint32_t{2654435761};
  }
  RETURN_IF_ERROR(side.card->MakeCurrent());
  RETURN_IF_ERROR(side.card->Check(
      cudaMemcpyAsync(side.memory.get(), side.host.get(), kBytes, cudaMemcpyHostToDevice, side.stream.get()),
      "cudaMemcpyAsync"));
  return Finish(side);
}

// Checks that the memory of `side` holds what Fill put into that of `sent`.
absl::Status Compare(const Side& sent, const Side& side) {
  std::memset(side.host.get(), 0, kBytes);
  RETURN_IF_ERROR(side.card->MakeCurrent());
  RETURN_IF_ERROR(side.card->Check(
      cudaMemcpyAsync(side.host.get(), side.memory.get(), kBytes, cudaMemcpyDeviceToHost, side.stream.get()),
      "cudaMemcpyAsync"));
  RETURN_IF_ERROR(Finish(side));
  if (std::memcmp(sent.host.get(), side.host.get(), kBytes) == 0) return absl::OkStatus();
  return absl::DataLossError("a test copy arrived with different contents");
}

// Copies from `from` to `to` on the stream of `worker`, which is one of them, and checks the result.
absl::Status Try(const Side& worker, const Side& from, const Side& to, uint32_t seed) {
  RETURN_IF_ERROR(Fill(to, ~seed));
  RETURN_IF_ERROR(Fill(from, seed));
  RETURN_IF_ERROR(worker.card->MakeCurrent());
  RETURN_IF_ERROR(worker.card->Check(cudaMemcpyPeerAsync(to.memory.get(), to.card->ordinal(), from.memory.get(),
                                                         from.card->ordinal(), kBytes, worker.stream.get()),
                                     "cudaMemcpyPeerAsync"));
  RETURN_IF_ERROR(Finish(worker));
  return Compare(from, to);
}

absl::Status Enable(const Card& card, const Card& peer) {
  int can = 0;
  RETURN_IF_ERROR(card.Check(cudaDeviceCanAccessPeer(&can, card.ordinal(), peer.ordinal()), "cudaDeviceCanAccessPeer"));
  if (can == 0) return absl::UnavailableError("the machine has no path between them");
  RETURN_IF_ERROR(card.MakeCurrent());
  const cudaError_t error = cudaDeviceEnablePeerAccess(peer.ordinal(), 0);
  if (error != cudaErrorPeerAccessAlreadyEnabled) return card.Check(error, "cudaDeviceEnablePeerAccess");
  cudaGetLastError();
  return absl::OkStatus();
}

void Disable(const Card& card, const Card& peer) {
  if (!card.MakeCurrent().ok()) return;
  if (cudaDeviceDisablePeerAccess(peer.ordinal()) != cudaSuccess) cudaGetLastError();
}

absl::Status Probe(const Card& a, const Card& b) {
  RETURN_IF_ERROR(Enable(a, b));
  RETURN_IF_ERROR(Enable(b, a));
  ASSIGN_OR_RETURN(Side first, MakeSide(a));
  ASSIGN_OR_RETURN(Side second, MakeSide(b));
  absl::Status status;
  uint32_t seed = 1;
  for (const Side* worker : {&first, &second}) {
    if (status.ok()) status = Try(*worker, first, second, seed++);
    if (status.ok()) status = Try(*worker, second, first, seed++);
  }
  if (absl::IsDeadlineExceeded(status)) {
    for (Side* side : {&first, &second}) {  // Freeing what a copy still uses would wait for it.
      side->stream.release();
      side->memory.release();
      side->host.release();
    }
  }
  return status;
}

}  // namespace

absl::StatusOr<Peers> ConnectPeers(const std::vector<std::unique_ptr<Card>>& cards, bool through_host) {
  Peers peers;
  for (size_t i = 0; i < cards.size() && !through_host; ++i) {
    for (size_t k = i + 1; k < cards.size(); ++k) {
      const Card &a = *cards[i], &b = *cards[k];
      const absl::Status status = Probe(a, b);
      if (status.ok()) {
        peers.Connect(a.ordinal(), b.ordinal());
        continue;
      }
      const std::string pair = absl::StrCat(a.label(), " and ", b.label());
      if (absl::IsDeadlineExceeded(status)) {
        return absl::UnavailableError(absl::StrCat("Trying peer access between ", pair, ": ", status.message(),
                                                   "; restart with copies through the host "
                                                   "(peer_through_host, --gpu_copy_through_host)"));
      }
      Disable(a, b);
      Disable(b, a);
      spdlog::warn("{} are not connected, so copies between them go through the host: {}", pair,
                   std::string(status.message()));
    }
  }
  return peers;
}

}  // namespace belfry
