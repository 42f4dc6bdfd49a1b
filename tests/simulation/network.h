// MPI between simulated processes: a MpiApi for each, over links with latency, faults and losses.
//
// A message of up to NetworkOptions::eager bytes leaves its sender at once and arrives after the latency of its link. A
// longer one moves once its receiver has asked for it, while both processes run, as the rendezvous of MPI libraries.
// Messages of a link arrive in the order in which they were sent, whatever their tag, for a link is a connection: what
// one packet lost delays stands behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "framework/collective/mpi/mpi_api.h"
#include "tests/simulation/random.h"
#include "tests/simulation/scheduler.h"

namespace belfry::simulation {

struct NetworkOptions {
  Nanoseconds latency = 20 * kMicrosecond, jitter = 5 * kMicrosecond;  // a message's
  double bytes_per_ns = 1.25;                                          // a link's: 10 Gbit/s
  Nanoseconds call = 200;                                              // the time that a call of MPI takes
  size_t eager = 4096;                                                 // bytes
  size_t longest = size_t{1} << 30;                                    // message, in bytes
  // One message of so many is lost and sent again, after `resend`; 0: none.
  int lost_one_in = 0;
  Nanoseconds resend = 3 * kMillisecond;
};

class Endpoint;

// Rank r is process r of the scheduler.
class Network {
 public:
  // Borrows the scheduler.
  Network(Scheduler& scheduler, int size, NetworkOptions options, uint64_t seed);
  ~Network();

  // The MPI of a rank, which must not outlive the network.
  std::unique_ptr<MpiApi> Open(int rank);
  // Nothing that one rank sends from now on reaches the other.
  void Cut(int from, int to);
  // Messages between a rank and all others take so much longer from now on.
  void Delay(int rank, Nanoseconds by);
  int64_t messages() const { return messages_; }

 private:
  friend class Endpoint;
  // A thousand ranks have a million of them under way.
  struct Message {
    Nanoseconds arrival;
    union {
      char small[24];
      char* large;
      MpiApi::Request request;  // the sender's, for a message that waits for its receiver
    };
    int from, tag;
    uint32_t size;    // bytes
    uint32_t stored;  // bytes, of which the rest are zeros; kWaits: none
  };
  static constexpr uint32_t kWaits = ~uint32_t{0};
  static bool Waits(const Message& message) { return message.stored == kWaits; }
  static bool IsLarge(const Message& message) { return !Waits(message) && message.stored > sizeof(message.small); }
  static const char* DataOf(const Message& message) { return IsLarge(message) ? message.large : message.small; }
  static void Free(const Message& message) {
    if (IsLarge(message)) delete[] message.large;
  }
  // The messages that are on their way to a rank. It stays after the rank has closed MPI.
  struct Inbox {
    std::vector<Message> messages;  // the one sent first comes first
    Endpoint* endpoint = nullptr;   // null: MPI is closed
  };
  // The state of a sending rank.
  struct Sender {
    std::vector<Nanoseconds> last;  // the arrival of the last message, by rank of the receiver
    std::vector<bool> cut;          // likewise; empty: none
    Nanoseconds delay = 0;
  };
  // `request`: that of a message that waits for its receiver; otherwise -1.
  void Push(int from, int to, int tag, absl::Span<const char> data, MpiApi::Request request);
  Nanoseconds ArrivalOf(int from, int to, size_t bytes);
  // The time at which a message moved that began to move now; kNever if one of both processes ends before.
  Nanoseconds Moved(int from, int to, Nanoseconds begin, size_t bytes) const;

  Scheduler& scheduler_;
  const int size_;
  const NetworkOptions options_;
  Random random_;
  std::vector<Inbox> inboxes_;   // one for each rank
  std::vector<Sender> senders_;  // one for each rank
  int finalized_ = 0;            // ranks that have called Finalize
  int64_t messages_ = 0;
};

}  // namespace belfry::simulation
